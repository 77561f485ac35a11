"""Where the tensors of an ONNX file lie, as Tensor facts, and whether their data is as long as their dims say."""

from __future__ import annotations

from typing import Any, Final

from tensoraudit.artifacts.onnx_external import external_span, tensor_bytes
from tensoraudit.artifacts.onnx_file import TensorHeader
from tensoraudit.artifacts.protobuf import BYTES, VARINT
from tensoraudit.extract.onnx_schema import dtype_name
from tensoraudit.facts import Side, Site, Tensor

_RAW: Final = 9
_STORED_AS_IS: Final = frozenset({_RAW, 4, 10})
"""The data fields of a TensorProto (raw_data, float_data, double_data) whose bytes, when packed, are the elements."""


def tensor_fact(name: str, tensor: TensorHeader, path: str, side: Side) -> Tensor:
    """Return where a tensor lies. `file` is the model's path, or the location of its external data as the model names
    it; `offset` is None where the elements do not lie together."""
    dtype, size = dtype_name(tensor.dtype), tensor_bytes(tensor)
    file, offset, location = path, _inline_offset(tensor), "inline"
    if tensor.external is not None:
        file, offset, location = tensor.external.get("location", ""), external_span(tensor)[0], "external"
    return Tensor(
        name,
        dtype if isinstance(dtype, str) else f"type {tensor.dtype}",
        tuple(tensor.dims),
        file,
        offset,
        _stored_bytes(tensor) if size is None else size,
        location,
        Site(path=path, tensor=name),
        side,
    )


def size_problem(name: str, tensor: TensorHeader, graph: str) -> dict[str, Any] | None:
    """Return a plain row when an inline tensor's data does not fit its dims. Only raw data has a known length; the
    other fields encode numbers in varying lengths, so there nothing but missing data can be told."""
    size = tensor_bytes(tensor)
    if tensor.external is not None or size is None:
        return None
    stored = _stored_bytes(tensor)
    raw = len(tensor.data) > 0 and tensor.data[0][0] == _RAW
    if (raw and stored != size) or (size and not stored):
        return {"kind": "size", "graph": graph, "value": name, "declared": size, "stored": stored}
    return None


def _stored_bytes(tensor: TensorHeader) -> int:
    return sum(1 if wire == VARINT else end - start for _, wire, start, end in tensor.data)


def _inline_offset(tensor: TensorHeader) -> int | None:
    if len(tensor.data) == 1:
        number, wire, start, _ = tensor.data[0]
        if wire == BYTES and number in _STORED_AS_IS:
            return start
    return None
