"""What an ONNX graph or function says beside its nodes: inputs, outputs, types, weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tensoraudit.artifacts.onnx_file import Span, TensorHeader, read_dims, read_opset, read_tensor
from tensoraudit.artifacts.protobuf import BYTES, WireError, fields
from tensoraudit.extract.onnx_schema import Type
from tensoraudit.extract.onnx_source import OnnxSource

GRAPH_NODE: Final = 1
FUNCTION_NODE: Final = 7
"""The field numbers of the nodes in a GraphProto and in a FunctionProto."""


@dataclass(slots=True)
class Declarations:
    """The parts of a graph or function by name. `domain`, `overload` and `opsets` are those of a function; `repeated`
    are names of two initializers (the last counts)."""

    name: str = ""
    doc: str = ""
    domain: str = ""
    overload: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    types: dict[str, Type] = field(default_factory=dict)
    initializers: dict[str, TensorHeader] = field(default_factory=dict)
    sparse: dict[str, TensorHeader] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    opsets: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    quantized: int = 0


def read_declarations(source: OnnxSource, span: Span, node_field: int) -> Declarations:
    """Read a GraphProto, or a FunctionProto when `node_field` is FUNCTION_NODE. Raises WireError."""
    readers = _GRAPH if node_field == GRAPH_NODE else _FUNCTION
    declared = Declarations()
    for number, wire, start, end in fields(source.data, *span):
        read = readers.get(number)
        if read is None:
            continue
        if wire != BYTES:
            raise WireError(f"field {number} of a graph has wire type {wire}")
        read(source, declared, start, end)
    return declared


_Reader = Callable[[OnnxSource, Declarations, int, int], None]


def _text(name: str) -> _Reader:
    return lambda source, declared, start, end: setattr(declared, name, source.string(start, end))


def _typed(role: str | None) -> _Reader:
    def read(source: OnnxSource, declared: Declarations, start: int, end: int) -> None:
        name, kind = source.value_info(start, end)
        if role is not None:
            getattr(declared, role).append(name)
        if role is not None or name not in declared.types:  # a graph's signature says more than its value_info
            declared.types[name] = kind

    return read


def _named(role: str) -> _Reader:
    return lambda source, declared, start, end: getattr(declared, role).append(source.string(start, end))


def _initializer(source: OnnxSource, declared: Declarations, start: int, end: int) -> None:
    tensor = read_tensor(source.data, start, end)
    if tensor.name in declared.initializers:
        declared.repeated.append(tensor.name)
    declared.initializers[tensor.name] = tensor


def _sparse(source: OnnxSource, declared: Declarations, start: int, end: int) -> None:
    values, dims = TensorHeader(), list[int]()
    for number, wire, at, stop in fields(source.data, start, end):
        if number == 1 and wire == BYTES:
            values = read_tensor(source.data, at, stop)
        elif number == 3:
            dims += read_dims(source.data, wire, at, stop)
    declared.sparse[values.name] = TensorHeader(values.name, values.dtype, dims)


def _metadata(source: OnnxSource, declared: Declarations, start: int, end: int) -> None:
    key, value = source.pair(start, end)
    declared.metadata[key] = value


def _opset(source: OnnxSource, declared: Declarations, start: int, end: int) -> None:
    domain, version = read_opset(source.data, start, end)
    declared.opsets[domain] = version


def _quantized(source: OnnxSource, declared: Declarations, start: int, end: int) -> None:
    declared.quantized += 1


_GRAPH: Final[dict[int, _Reader]] = {
    2: _text("name"), 5: _initializer, 10: _text("doc"), 11: _typed("inputs"), 12: _typed("outputs"), 13: _typed(None),
    14: _quantized, 15: _sparse, 16: _metadata,
}  # fmt: skip
_FUNCTION: Final[dict[int, _Reader]] = {
    1: _text("name"), 4: _named("inputs"), 5: _named("outputs"), 8: _text("doc"), 9: _opset, 10: _text("domain"),
    12: _typed(None), 13: _text("overload"), 14: _metadata,
}  # fmt: skip
