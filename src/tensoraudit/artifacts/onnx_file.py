"""The parts of the ONNX format that do not depend on what a model computes: header, tensors, external data.

Field numbers are those of onnx.proto (IR version 14, onnx 1.23). Weights are never read, only where they lie. Raises
WireError for bytes that are no such message; `identify` and `extract.onnx` turn it into words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tensoraudit.artifacts.protobuf import BYTES, VARINT, Buffer, WireError, fields, packed_varints, signed, text

Span = tuple[int, int]

MAX_GRAPH_DEPTH: Final = 32
"""Protobuf parsers stop at 100 nested messages, three per subgraph, so no runtime reads a deeper model."""
_MAX_RANK: Final = 64
"""NumPy's limit; it keeps the number of elements printable, too."""

_MODEL_WIRE: Final = {
    1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES, 14: BYTES, 20: BYTES, 25: BYTES,
    26: BYTES,
}  # fmt: skip
_GRAPH_WIRE: Final = dict.fromkeys((1, 2, 5, 10, 11, 12, 13, 14, 15, 16), BYTES)


@dataclass(slots=True)
class ModelHeader:
    """A ModelProto without its graph. Spans are (start, end) in the file."""

    ir_version: int | None = None
    opsets: dict[str, int] = field(default_factory=dict)
    producer: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int | None = None
    doc: str = ""
    graph: Span | None = None
    functions: list[Span] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    training: int = 0


@dataclass(slots=True)
class TensorHeader:
    """A TensorProto without its data. `data` has (field number, wire type, start, end) of each data field;
    `external` are the keys of external data, None when the data is in the file."""

    name: str = ""
    dtype: int = 0
    dims: list[int] = field(default_factory=list)
    data: list[tuple[int, int, int, int]] = field(default_factory=list)
    external: dict[str, str] | None = None

    @property
    def numel(self) -> int:
        """The number of elements that the dims declare."""
        count = 1
        for size in self.dims:
            count *= size
        return count


def read_header(data: Buffer) -> ModelHeader:
    """Read a ModelProto's own fields. Raises WireError also for fields that no ModelProto has."""
    header = ModelHeader()
    for number, wire, start, end in fields(data, 0, len(data)):
        if _MODEL_WIRE.get(number) != wire:
            raise WireError(f"field {number} of wire type {wire} is none of a ModelProto")
        if number == 1:
            header.ir_version = signed(start)
        elif number == 5:
            header.model_version = signed(start)
        elif number == 7:
            if header.graph is not None:  # protobuf would merge the two, which no exporter means
                raise WireError("the model has two graphs")
            header.graph = (start, end)
        elif number == 8:
            domain, version = read_opset(data, start, end)
            header.opsets[domain] = version
        elif number == 14:
            key, value = read_pair(data, start, end)
            header.properties[key] = value
        elif number == 20:
            header.training += 1
        elif number == 25:
            header.functions.append((start, end))
        elif number in _MODEL_TEXT:
            setattr(header, _MODEL_TEXT[number], text(data, start, end))
    return header


_MODEL_TEXT: Final = {2: "producer", 3: "producer_version", 4: "domain", 6: "doc"}


def count_nodes(data: Buffer, span: Span) -> int:
    """Return the number of nodes of a GraphProto. Raises WireError for fields that no GraphProto has."""
    count = 0
    for number, wire, _, _ in fields(data, *span):
        if _GRAPH_WIRE.get(number) != wire:
            raise WireError(f"field {number} of wire type {wire} is none of a GraphProto")
        count += number == 1
    return count


def read_pair(data: Buffer, start: int, end: int) -> tuple[str, str]:
    """Read a StringStringEntryProto."""
    key = value = ""
    for number, wire, at, stop in fields(data, start, end):
        if wire == BYTES and number == 1:
            key = text(data, at, stop)
        elif wire == BYTES and number == 2:
            value = text(data, at, stop)
    return key, value


def read_opset(data: Buffer, start: int, end: int) -> tuple[str, int]:
    """Read an OperatorSetIdProto: (domain, version); the standard domain is ""."""
    domain, version = "", 0
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == BYTES:
            domain = text(data, at, stop)
        elif number == 2 and wire == VARINT:
            version = signed(at)
    return "" if domain == "ai.onnx" else domain, version


def read_tensor(data: Buffer, start: int, end: int) -> TensorHeader:
    """Read a TensorProto's fields and where its data lies. Raises WireError for negative dims."""
    tensor = TensorHeader()
    entries: dict[str, str] = {}
    for number, wire, at, stop in fields(data, start, end):
        if number == 1:
            tensor.dims += read_dims(data, wire, at, stop)
        elif number == 2 and wire == VARINT:
            tensor.dtype = at
        elif number == 8 and wire == BYTES:
            tensor.name = text(data, at, stop)
        elif number == 13 and wire == BYTES:
            key, value = read_pair(data, at, stop)
            entries[key] = value
        elif number == 14 and wire == VARINT:
            tensor.external = entries if at == _EXTERNAL else None
        elif number in _DATA_FIELDS:
            tensor.data.append((number, wire, at, stop))
    if len(tensor.dims) > _MAX_RANK or min(tensor.dims, default=0) < 0:
        raise WireError(f"tensor {tensor.name!r} has impossible dims {tensor.dims[:8]}")
    return tensor


def read_dims(data: Buffer, wire: int, start: int, end: int) -> list[int]:
    """Return the numbers of one occurrence of a repeated int64 field, packed or not."""
    return [signed(start)] if wire == VARINT else list(map(signed, packed_varints(data, start, end, _MAX_RANK + 1)))


_EXTERNAL: Final = 1
_DATA_FIELDS: Final = frozenset({4, 5, 6, 7, 9, 10, 11})


def external_tensors(data: Buffer) -> Iterator[TensorHeader]:
    """Yield every tensor of the model whose data is external: initializers and attributes, in subgraphs, functions and
    training graphs too. Parts that do not contain the word "location" are passed over, for an external tensor has one.
    """
    for number, _, start, end in fields(data, 0, len(data)):
        if number == 7:
            yield from _external_in(data, start, end, _GRAPH, 0)
        elif number == 20:
            yield from _external_in(data, start, end, _TRAINING, 0)
        elif number == 25:
            yield from _external_in(data, start, end, _FUNCTION, 0)


_GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE, _FUNCTION, _TRAINING = range(7)
_PARTS: Final[dict[int, dict[int, int]]] = {
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 10: _TENSOR, 6: _GRAPH, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _TRAINING: {1: _GRAPH, 2: _GRAPH},
}
"""Which fields of a message hold messages that can hold tensors."""
_SMALL: Final = 1 << 16


def _external_in(data: Buffer, start: int, end: int, kind: int, depth: int) -> Iterator[TensorHeader]:
    if depth > 4 * MAX_GRAPH_DEPTH:
        raise WireError("subgraphs nested too deep")
    parts = _PARTS[kind]
    for number, wire, at, stop in fields(data, start, end):
        part = parts.get(number)
        if part is None or wire != BYTES or (stop - at < _SMALL and b"location" not in bytes(data[at:stop])):
            continue
        if part == _TENSOR:
            tensor = read_tensor(data, at, stop)
            if tensor.external is not None:
                yield tensor
        else:
            yield from _external_in(data, at, stop, part, depth + 1)
