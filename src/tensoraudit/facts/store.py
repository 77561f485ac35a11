"""All facts of one audit, indexed: by kind and key, by place in the code, by edge of the graph. Knows nothing of rules.

Every index is built at its first use and only for the kinds that are asked for, and every question is a look-up, so
that the work of a rule grows with its candidates. Facts that are added later (measurements) drop the indexes of their
kind only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from tensoraudit.facts import (
    ABSENT,
    Call,
    Checkpoint,
    ClassDef,
    Device,
    Fact,
    Import,
    Measurement,
    Model,
    Node,
    Operation,
    Package,
    Reference,
    Scope,
    Side,
    Site,
    Tensor,
    Value,
    Variable,
)
from tensoraudit.facts.call_graph import CallGraph
from tensoraudit.facts.code_index import CodeIndex
from tensoraudit.facts.graph_index import GraphIndex

KINDS: Final[Mapping[type, str]] = {
    Call: "call",
    Import: "import",
    Reference: "reference",
    Operation: "operation",
    ClassDef: "class",
    Scope: "scope",
    Model: "model",
    Node: "node",
    Value: "value",
    Tensor: "tensor",
    Checkpoint: "checkpoint",
    Package: "package",
    Variable: "variable",
    Device: "device",
    Measurement: "measurement",
}
"""What each kind is called. The kind `function` is the scopes that are functions."""

KEYS: Final[Mapping[str, str]] = {
    "call": "callee",
    "import": "module",
    "reference": "name",
    "operation": "op",
    "class": "name",
    "function": "name",
    "model": "format",
    "node": "op",
    "value": "name",
    "tensor": "name",
    "checkpoint": "format",
    "package": "name",
    "variable": "name",
    "device": "kind",
    "measurement": "metric",
}
"""The field that names a fact of each kind."""

CODE_KINDS: Final = frozenset({"call", "import", "reference", "operation", "class", "function"})
ENVIRONMENT_KINDS: Final = frozenset({"package", "variable", "device"})

CONSTANT_KEY: Final = "constant"
"""What `keyed("value", "constant")` files constants under; all other values stand under ""."""

_DOTTED: Final = frozenset({"class", "function"})
"""Kinds that are found by the last part of their name as well."""


def key_of(kind: str, fact: Fact) -> str:
    """Return the name that a fact of this kind is found by."""
    return str(getattr(fact, KEYS[kind]))


def site_of(fact: Fact) -> Site:
    """Return where a fact was seen; facts about the environment have no file."""
    at: Site | None = getattr(fact, "at", None)
    if at is not None:
        return at
    return Site(variable=fact.name) if isinstance(fact, Variable) else Site()


def side_of(fact: Fact) -> Side:
    """Return the side a fact belongs to; a scope belongs to whoever reads it."""
    return getattr(fact, "side", "both")


def on_side(fact: Fact, side: str | None) -> bool:
    """Tell whether a fact speaks of `side`; a fact of both sides speaks of either, and no side means any."""
    own = side_of(fact)
    return side is None or own in ("both", side) or side == "both"


class FactStore:
    """The facts of one audit and the questions that rules ask about them."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._by_kind: dict[str, list[Fact]] = defaultdict(list)
        self._derived: set[int] = set()
        self._keyed: dict[tuple[str, str], dict[str, list[Fact]]] = {}
        self._by_file: dict[str, dict[str | None, list[Fact]]] = {}
        self._placed: dict[tuple[str, str | None], dict[str, list[Fact]]] = {}
        self._code: CodeIndex | None = None
        self._calls: CallGraph | None = None
        self._graphs: GraphIndex | None = None
        self._files: dict[tuple[str, str], frozenset[str]] | None = None
        self.add(facts)

    def add(self, facts: Iterable[Fact], *, derived: bool = False) -> None:
        """Add facts of any kinds. A derived Node stands for others: it sees the edges of its graph and is none itself,
        or the node behind it would have a second reader."""
        changed = set()
        for fact in facts:
            if derived:
                self._derived.add(id(fact))
            kind = KINDS[type(fact)]
            self._by_kind[kind].append(fact)
            changed.add(kind)
            if kind == "scope" and fact.kind == "function":  # type: ignore[union-attr]
                self._by_kind["function"].append(fact)
                changed.add("function")
        self._forget(changed)

    def _forget(self, kinds: set[str]) -> None:
        self._keyed = {name: index for name, index in self._keyed.items() if name[0] not in kinds}
        self._by_file = {kind: files for kind, files in self._by_file.items() if kind not in kinds}
        self._placed = {place: index for place, index in self._placed.items() if place[0] not in kinds}
        if kinds & {"scope", "class", "import"}:
            self._code = None
        if kinds & {"scope", "class", "import", "call"}:
            self._calls = None
        if kinds & {"node", "value"}:
            self._graphs = None
        if "checkpoint" in kinds:
            self._files = None

    def __len__(self) -> int:
        return sum(len(facts) for kind, facts in self._by_kind.items() if kind != "function")

    def of(self, kind: str) -> list[Fact]:
        """Return all facts of a kind, in the order in which they were read."""
        return self._by_kind.get(kind, [])

    def measurements(self) -> list[Measurement]:
        """Return all measurements."""
        return [fact for fact in self.of("measurement") if isinstance(fact, Measurement)]

    def keyed(self, kind: str, field: str | None = None) -> Mapping[str, list[Fact]]:
        """Return the facts of a kind by the value of `field` (by their name when it is None). A field that holds
        several names files the fact under each."""
        name = (kind, field or KEYS[kind])
        if name not in self._keyed:
            keys: _Keys = self.code.bases if name == ("class", "bases") else _keys(*name)
            self._keyed[name] = _group(self.of(kind), keys)
        return self._keyed[name]

    def in_file(self, kind: str, path: str | None) -> Mapping[str, list[Fact]]:
        """Return the facts of a kind in one file, by name."""
        place = (kind, path)
        if place not in self._placed:
            self._placed[place] = _group(self._files_of(kind).get(path, ()), _keys(kind, KEYS[kind]))
        return self._placed[place]

    def _files_of(self, kind: str) -> Mapping[str | None, list[Fact]]:
        if kind not in self._by_file:
            files: dict[str | None, list[Fact]] = defaultdict(list)
            for fact in self.of(kind):
                files[site_of(fact).path].append(fact)
            self._by_file[kind] = dict(files)
        return self._by_file[kind]

    # Places

    @property
    def code(self) -> CodeIndex:
        """The scopes and classes of all source."""
        if self._code is None:
            self._code = CodeIndex(self.of("scope"), self.of("class"), self.of("import"))
        return self._code

    @property
    def calls(self) -> CallGraph:
        """Which functions calls hand over, and what these call."""
        if self._calls is None:
            self._calls = CallGraph(self.code, self.of("call"))
        return self._calls

    @property
    def graphs(self) -> GraphIndex:
        """The edges of all graphs."""
        if self._graphs is None:
            nodes = (node for node in self.of("node") if id(node) not in self._derived)
            self._graphs = GraphIndex(nodes, self.of("value"))
        return self._graphs

    def files_beside(self, tensor: Tensor) -> frozenset[str]:
        """Return the files of the checkpoint that a tensor lies in; its own file when no checkpoint names it."""
        if self._files is None:
            checkpoints = [fact for fact in self.of("checkpoint") if isinstance(fact, Checkpoint)]
            self._files = {(fact.side, file): frozenset(fact.files) for fact in checkpoints for file in fact.files}
        own = frozenset({tensor.file})
        return self._files.get((tensor.side, tensor.file)) or self._files.get(("both", tensor.file), own)

    def environment_read(self, side: str | None) -> bool:
        """Tell whether anything is known of the environment of a side (of either side when it is None). A package that
        is missing from an environment that was read is not installed; from one that was not read it is not known."""
        return any(on_side(fact, side) for kind in ENVIRONMENT_KINDS for fact in self.of(kind))


_Keys = Callable[[Any], str | tuple[str, ...]]


def _keys(kind: str, field: str) -> _Keys:
    """Return what files a fact under the value or the values of `field`."""
    if (kind, field) == ("value", "constant"):
        return lambda value: CONSTANT_KEY if value.constant is not ABSENT else ""
    return _dotted if kind in _DOTTED and field == "name" else attrgetter(field)


def _dotted(fact: Any) -> str | tuple[str, ...]:
    last = fact.name.rpartition(".")[2]
    return fact.name if last == fact.name else (fact.name, last)


def _group(facts: Iterable[Fact], keys: _Keys) -> dict[str, list[Fact]]:
    groups: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        found = keys(fact)
        if isinstance(found, str):
            groups[found].append(fact)
        else:
            for key in dict.fromkeys(found):
                groups[key].append(fact)
    return dict(groups)
