"""All facts of one audit, indexed: by kind and key, by place in the code, by edge of the graph. Knows nothing of rules.

Every index is built at its first use and only for the kinds that are asked for, and every question is a look-up, so
that the work of a rule grows with its candidates. Facts that are added later (measurements) drop the indexes of their
kind only.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tensoraudit.facts import (
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

_DOTTED: Final = frozenset({"class", "function"})
"""Kinds that are found by the last part of their name as well."""

_BUILTINS: Final = frozenset(dir(builtins))


def key_of(kind: str, fact: Fact) -> str:
    """Return the name that a fact of this kind is found by."""
    return str(getattr(fact, KEYS[kind]))


def site_of(fact: Fact) -> Site:
    """Return where a fact was seen; facts about the environment have no file."""
    if isinstance(fact, Variable):
        return Site(variable=fact.name)
    return getattr(fact, "at", Site())


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
        self._keyed: dict[tuple[str, str], dict[str, list[Fact]]] = {}
        self._placed: dict[str, dict[str | None, dict[str, list[Fact]]]] = {}
        self._scopes: dict[tuple[str | None, int], Scope] | None = None
        self._classes: dict[tuple[str | None, str], ClassDef] | None = None
        self._graphs: GraphIndex | None = None
        self._roots: frozenset[str] | None = None
        self.add(facts)

    def add(self, facts: Iterable[Fact]) -> None:
        """Add facts of any kinds."""
        changed = set()
        for fact in facts:
            kind = KINDS[type(fact)]
            self._by_kind[kind].append(fact)
            changed.add(kind)
            if kind == "scope" and fact.kind == "function":  # type: ignore[union-attr]
                self._by_kind["function"].append(fact)
                changed.add("function")
        self._forget(changed)

    def _forget(self, kinds: set[str]) -> None:
        self._keyed = {name: index for name, index in self._keyed.items() if name[0] not in kinds}
        self._placed = {kind: index for kind, index in self._placed.items() if kind not in kinds}
        if "scope" in kinds:
            self._scopes = None
        if "class" in kinds:
            self._classes = None
        if kinds & {"node", "value", "model"}:
            self._graphs = None
        if kinds & {"import", "scope"}:
            self._roots = None

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
            keys = self._base_keys if name == ("class", "bases") else _keys(*name)
            self._keyed[name] = _group(self.of(kind), keys)
        return self._keyed[name]

    def in_file(self, kind: str, path: str | None) -> Mapping[str, list[Fact]]:
        """Return the facts of a kind in one file, by name."""
        if kind not in self._placed:
            files: dict[str | None, list[Fact]] = defaultdict(list)
            for fact in self.of(kind):
                files[site_of(fact).path].append(fact)
            keys = _keys(kind, KEYS[kind])
            self._placed[kind] = {file: _group(facts, keys) for file, facts in files.items()}
        return self._placed[kind].get(path, {})

    # Code

    def scopes_around(self, fact: Fact) -> Iterator[Scope]:
        """Yield the scopes around a fact in source, innermost first."""
        if self._scopes is None:
            scopes = [fact for fact in self.of("scope") if isinstance(fact, Scope)]
            self._scopes = {(scope.at.path, scope.id): scope for scope in scopes}
        path = site_of(fact).path
        number = fact.parent if isinstance(fact, Scope) else getattr(fact, "scope", None)
        while number is not None and (scope := self._scopes.get((path, number))) is not None:
            yield scope
            number = scope.parent

    def innermost(self, fact: Fact, kind: str) -> Scope | None:
        """Return the scope of this kind that a fact stands in; a function or class stands in its own."""
        if isinstance(fact, Scope) and fact.kind == kind:
            return fact
        if isinstance(fact, ClassDef) and kind == "class":
            return next((scope for scope in self._bodies() if self.class_of(scope) is fact), None)
        return next((scope for scope in self.scopes_around(fact) if scope.kind == kind), None)

    def _bodies(self) -> Iterator[Scope]:
        return (fact for fact in self.of("scope") if isinstance(fact, Scope) and fact.kind == "class")

    def class_of(self, scope: Scope) -> ClassDef | None:
        """Return the class whose body `scope` is."""
        classes = self._class_index()
        return classes.get((scope.at.path, scope.name)) or classes.get((scope.at.path, scope.name.rpartition(".")[2]))

    def bases(self, definition: ClassDef) -> tuple[str, ...]:
        """Return the names of all bases, through classes of the project."""
        found: dict[str, None] = {}
        waiting = [(definition, base) for base in reversed(definition.bases)]
        while waiting:
            user, base = waiting.pop()
            if base in found:
                continue
            found[base] = None
            parent = self._class_named(base, user.at.path)
            if parent is not None:
                waiting.extend((parent, above) for above in reversed(parent.bases))
        return tuple(found)

    def _base_keys(self, definition: Any) -> tuple[str, ...]:
        return self.bases(definition)

    def _class_named(self, name: str, path: str | None) -> ClassDef | None:
        """Find a class by a name used in `path`: one of the same file, or the only one of that last part and module."""
        classes = self._class_index()
        if (path, name) in classes:
            return classes[path, name]
        module, _, last = name.rpartition(".")
        if not module:
            return None
        named = [fact for fact in self.keyed("class").get(last, ()) if isinstance(fact, ClassDef)]
        return next((fact for fact in named if _module_of(fact.at.path).endswith(f".{module}")), None)

    def _class_index(self) -> dict[tuple[str | None, str], ClassDef]:
        if self._classes is None:
            classes = [fact for fact in self.of("class") if isinstance(fact, ClassDef)]
            self._classes = {(fact.at.path, fact.name): fact for fact in reversed(classes)}
        return self._classes

    def is_external(self, name: str) -> bool:
        """Tell whether a dotted name begins with a builtin or a module from outside the project, so that it says which
        object it is. A local variable, or a name of the project, may hold any object."""
        if self._roots is None:
            imported, own = (
                {str(fact.module).partition(".")[0] for fact in self.of(kind)}  # type: ignore[union-attr]
                for kind in ("import", "scope")
            )
            self._roots = frozenset(imported - own - {""}) | _BUILTINS
        return name.partition(".")[0].partition("(")[0] in self._roots

    # Graphs and environments

    @property
    def graphs(self) -> GraphIndex:
        """The edges of all graphs."""
        if self._graphs is None:
            self._graphs = GraphIndex(self.of("node"), self.of("value"))
        return self._graphs

    def files_beside(self, tensor: Tensor) -> frozenset[str]:
        """Return the files of the checkpoint that a tensor lies in; its own file when no checkpoint names it."""
        for fact in self.of("checkpoint"):
            if isinstance(fact, Checkpoint) and tensor.file in fact.files and on_side(fact, tensor.side):
                return frozenset(fact.files)
        return frozenset({tensor.file})

    def environment_read(self, side: str | None) -> bool:
        """Tell whether anything is known of the environment of a side (of either side when it is None). A package that
        is missing from an environment that was read is not installed; from one that was not read it is not known."""
        return any(on_side(fact, side) for kind in ENVIRONMENT_KINDS for fact in self.of(kind))


def _keys(kind: str, field: str) -> Callable[[Any], tuple[str, ...]]:
    """Return what files a fact under the values of `field`."""

    def several(fact: Any) -> tuple[str, ...]:
        value = getattr(fact, field)
        return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else (str(value),)

    def dotted(fact: Any) -> tuple[str, ...]:
        name = str(fact.name)
        last = name.rpartition(".")[2]
        return (name,) if last == name else (name, last)

    return dotted if kind in _DOTTED and field == "name" else several


def _group(facts: Iterable[Fact], keys: Callable[[Any], tuple[str, ...]]) -> dict[str, list[Fact]]:
    groups: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        for key in keys(fact):
            groups[key].append(fact)
    return dict(groups)


def _module_of(path: str | None) -> str:
    """Return the dotted form of a path, with a dot before it, for comparison with the end of a module's name."""
    stem = (path or "").removesuffix(".py").removesuffix("/__init__")
    return "." + stem.replace("/", ".")
