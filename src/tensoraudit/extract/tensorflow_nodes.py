"""NodeDef and FunctionDef of a GraphDef, as they stand in the file. Equal strings and attributes are read once.

Field numbers are those of node_def.proto, function.proto and op_def.proto (TensorFlow 2.21).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tensoraudit.artifacts.protobuf import BYTES, VARINT, WireError, fields
from tensoraudit.extract.tensorflow_values import dtype_name, read_value
from tensoraudit.facts import Unknown

Span = tuple[int, int]
_SHARED_BYTES: Final = 256
FUNCTION_NODE: Final = 3
GRAPH_NODE: Final = 1


@dataclass(slots=True)
class NodeDef:
    """A node as it is written. `attributes` maps a name to (kind, value), see `tensorflow_values.read_value`."""

    name: str = ""
    op: str = ""
    inputs: list[str] = field(default_factory=list)
    device: str = ""
    attributes: dict[str, tuple[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class FunctionDef:
    """A function's signature and where its body lies. `inputs` maps an argument to its dtype, `returns` the name of a
    result to the value that it is, `dtypes` the same to its dtype."""

    name: str = ""
    inputs: dict[str, str | Unknown] = field(default_factory=dict)
    dtypes: dict[str, str | Unknown] = field(default_factory=dict)
    returns: dict[str, str] = field(default_factory=dict)
    span: Span = (0, 0)


class Source:
    """The mapped file and its caches."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._strings: dict[bytes, str] = {}
        self._entries: dict[bytes, tuple[str, tuple[str, Any]]] = {}

    def string(self, start: int, end: int) -> str:
        """Return a string; bytes that are no UTF-8 stay visible and distinct as `\\xNN`."""
        raw = bytes(self.data[start:end])
        found = self._strings.get(raw)
        if found is None:
            found = self._strings[raw] = str(raw, "utf-8", "backslashreplace")
        return found

    def entry(self, start: int, end: int) -> tuple[str, tuple[str, Any]]:
        """Return the key and the value of an attribute."""
        if end - start > _SHARED_BYTES:
            return self._entry(self.data, start, end)
        raw = bytes(self.data[start:end])
        found = self._entries.get(raw)
        if found is None:
            found = self._entries[raw] = self._entry(memoryview(raw), 0, len(raw))
        return found

    def _entry(self, data: memoryview, start: int, end: int) -> tuple[str, tuple[str, Any]]:
        key, value = "", ("", Unknown("an attribute without a value"))
        for number, wire, at, stop in fields(data, start, end):
            if number == 1 and wire == BYTES:
                key = str(bytes(data[at:stop]), "utf-8", "backslashreplace")
            elif number == 2 and wire == BYTES:
                value = read_value(data, at, stop)
        return key, value

    def node(self, start: int, end: int) -> NodeDef:
        """Read a NodeDef. Raises WireError."""
        node = NodeDef()
        for number, wire, at, stop in fields(self.data, start, end):
            if wire != BYTES:
                raise WireError(f"field {number} of a node has wire type {wire}")
            if number == 1:
                node.name = self.string(at, stop)
            elif number == 2:
                node.op = self.string(at, stop)
            elif number == 3:
                node.inputs.append(self.string(at, stop))
            elif number == 4:
                node.device = self.string(at, stop)
            elif number == 5:
                key, value = self.entry(at, stop)
                node.attributes[key] = value
        return node

    def nodes(self, span: Span, number: int) -> Iterator[NodeDef]:
        """Yield the nodes of a GraphDef or FunctionDef, which stand in field `number`. Raises WireError."""
        for each, wire, at, stop in fields(self.data, *span):
            if each == number:
                if wire != BYTES:
                    raise WireError(f"a node has wire type {wire}")
                yield self.node(at, stop)

    def functions(self, graph: Span) -> Iterator[FunctionDef]:
        """Yield the functions of a GraphDef's library. Raises WireError."""
        for number, wire, at, stop in fields(self.data, *graph):
            if number == 2 and wire == BYTES:
                for inner, kind, first, last in fields(self.data, at, stop):
                    if inner == 1 and kind == BYTES:
                        yield self._function(first, last)

    def _function(self, start: int, end: int) -> FunctionDef:
        function = FunctionDef(span=(start, end))
        for number, wire, at, stop in fields(self.data, start, end):
            if wire != BYTES:
                continue
            if number == 1:
                self._signature(at, stop, function)
            elif number == 4:
                key, value = self._pair(at, stop)
                function.returns[key] = value
        return function

    def _signature(self, start: int, end: int, function: FunctionDef) -> None:
        for number, wire, at, stop in fields(self.data, start, end):
            if wire != BYTES:
                continue
            if number == 1:
                function.name = self.string(at, stop)
            elif number in (2, 3):
                name, dtype = self._argument(at, stop)
                (function.inputs if number == 2 else function.dtypes)[name] = dtype

    def _argument(self, start: int, end: int) -> tuple[str, str | Unknown]:
        name, dtype = "", dtype_name(0)
        for number, wire, at, stop in fields(self.data, start, end):
            if number == 1 and wire == BYTES:
                name = self.string(at, stop)
            elif number == 3 and wire == VARINT:
                dtype = dtype_name(at)
        return name, dtype

    def _pair(self, start: int, end: int) -> tuple[str, str]:
        texts = {n: self.string(at, stop) for n, w, at, stop in fields(self.data, start, end) if w == BYTES}
        return texts.get(1, ""), texts.get(2, "")
