"""Writes the nodes and values of one TorchScript function: names, constants, places. Knows nothing of its syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tensoraudit.extract.torchscript_source import SourceMap
from tensoraudit.facts import Fact, Node, Side, Site, Unknown, Value

ClassTypes = Mapping[str, Mapping[str, str]]
"""Dotted class to its attributes and their types as written."""

_PLACED_BY_VALUE: Final = frozenset({"prim::SetAttr", "prim::TupleUnpack", "prim::ListUnpack"})
_CONSTANT_DTYPES: Final = {bool: "bool", int: "int64", float: "float64", complex: "complex128", str: "string"}
_LARGEST_CONSTANT: Final = 64


@dataclass(slots=True)
class CodeFile:
    """A code file while it is read. `model` is the path of the archive, `constants` what the code calls `CONSTANTS.c0`
    and so on, `relative` shortens the paths of user sources."""

    name: str
    model: str
    side: Side
    sources: SourceMap
    line_starts: list[int]
    text: bytes
    constants: Sequence[Any]
    classes: ClassTypes
    relative: Callable[[str], str]
    facts: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class GraphBlock:
    """One graph of a function (its own, or that of a branch): its path, and what its names stand for."""

    graph: str
    names: dict[str, str] = field(default_factory=dict)


class GraphWriter:
    """The graph of one function while it is written.

    By value: `makers` holds the operator that made it, `places` where that stands, `types` its type as written,
    `constants` what it is, `texts` the text it was formatted from, `tuples` its parts. `targets` are the functions that
    local names stand for.
    """

    def __init__(self, file: CodeFile, graph: str, function: str) -> None:
        self.file, self.function = file, function
        self.graph = graph
        self.inputs: list[Value] = []
        self.outputs: list[str] = []
        self.blocks = [GraphBlock(graph)]
        self.uses: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.makers: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.tuples: dict[str, list[str]] = {}
        self.places: dict[str, tuple[Site, dict[str, str]]] = {}
        self.types: dict[str, str] = {}
        self.targets: dict[str, str] = {}

    # names and values

    def assign(self, name: str, value: str | None = None) -> str:
        """Let `name` stand for `value`, or for a new value that is called after it."""
        value = self.fresh(name) if value is None else value
        self.blocks[-1].names[name] = value
        return value

    def fresh(self, name: str) -> str:
        """Return `name` for a new value, numbered from its second use on."""
        count = self.uses.get(name, 0)
        self.uses[name] = count + 1
        return f"{name}#{count}" if count else name

    def look_up(self, name: str) -> str | None:
        """Return the value that `name` stands for here, in this block or one around it."""
        return next((block.names[name] for block in reversed(self.blocks) if name in block.names), None)

    def constant(self, value: Any) -> str:
        """Return the name of the value of a constant."""
        text = repr(value)
        name = f"const:{text}" if len(text) <= 60 else f"const:{text[:50]}...{len(self.constants)}"
        if name not in self.constants:
            self.constants[name] = value
            dtype = _CONSTANT_DTYPES.get(type(value), Unknown("not a scalar"))
            shape = () if isinstance(dtype, str) else Unknown("not a scalar")
            kept = value if _count(value) <= _LARGEST_CONSTANT else Unknown("more than 64 elements")
            self.file.facts.append(
                Value(name, dtype, shape, kept, "initializer", self.graph, self.file.side, Site(self.file.model))
            )
        return name

    # nodes

    def emit(
        self,
        op: str,
        at: ast.stmt | ast.expr,
        *,
        inputs: Sequence[str],
        outputs: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
        name: str = "",
        position: int | None = None,
    ) -> None:
        """Add a node, or put it at the `position` that was reserved for it under `name`."""
        name = name or self.name_node(op)
        site, metadata = self.place(op, at, inputs, name)
        node = Node(
            op, op.partition("::")[0], None, name, attributes or {}, tuple(inputs), tuple(outputs),
            self.blocks[-1].graph, site, self.file.side, "", metadata, self.file.model,
        )  # fmt: skip
        if position is None:
            self.file.facts.append(node)
        else:
            self.file.facts[position] = node
        for output in outputs:
            self.makers[output] = op
            self.places[output] = (site, metadata)

    def name_node(self, op: str) -> str:
        """Return the name of the next node of its kind in the function: `If_0`, `conv2d_3`."""
        kind = op.rpartition("::")[2]
        number = self.counts.get(kind, 0)
        self.counts[kind] = number + 1
        return f"{kind}_{number}"

    def place(self, op: str, at: Any, inputs: Sequence[str], name: str) -> tuple[Site, dict[str, str]]:
        """Return where a node comes from. A write or unpacking without a place stands where its value was made."""
        metadata = {"function": self.function}
        origin = self.file.sources.origin(self.file.line_starts[at.lineno - 1] + at.col_offset)
        if origin is not None:
            if origin.text:
                metadata["text"] = origin.text
            return Site(self.file.relative(origin.path), origin.line, node=name), metadata
        made = self.places.get(inputs[-1]) if op in _PLACED_BY_VALUE and inputs else None
        if made is not None:
            return replace(made[0], node=name), made[1]
        metadata["code"] = f"{self.file.name}:{at.lineno}"
        return Site(self.file.model, node=name), metadata

    def reserve(self, op: str) -> tuple[str, int]:
        """Name a node and keep its place, before what is inside it."""
        name = self.name_node(op)
        self.file.facts.append(self._placeholder(name))
        return name, len(self.file.facts) - 1

    def _placeholder(self, name: str) -> Value:
        return Value(name, "", (), None, "intermediate", self.graph, self.file.side)


def _count(value: Any) -> int:
    return sum(map(_count, value)) if isinstance(value, tuple) else 1
