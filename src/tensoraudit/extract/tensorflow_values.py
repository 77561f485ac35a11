"""AttrValue, TensorShapeProto and TensorProto of TensorFlow as plain Python values.

Field numbers and enumerations are those of attr_value.proto, tensor_shape.proto, tensor.proto and types.proto
(TensorFlow 2.21). Knows nothing of graphs and of facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts import saved_model
from tensoraudit.artifacts.protobuf import (
    BYTES,
    FIXED32,
    VARINT,
    Buffer,
    WireError,
    fields,
    packed_varints,
    signed,
    text,
)
from tensoraudit.extract.onnx_schema import MAX_CONSTANT, plain
from tensoraudit.facts import Dim, Unknown

MAX_TEXT: Final = 1 << 16
"""Bytes up to which a text is a fact; serialized programs and vocabularies are longer."""
MAX_NUMBERS: Final = 1 << 16
"""Elements of an attribute that is a list."""
_MAX_RANK: Final = 64
_ANY_SIZE: Final = Unknown("size not declared in the file")
_NO_RANK: Final = Unknown("rank not declared in the file")

DTYPES: Final = {
    **saved_model.DTYPES,
    11: "qint8", 12: "quint8", 13: "qint32", 15: "qint16", 16: "quint16", 21: "variant", 24: "float8_e5m2",
    25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz", 29: "int4",
    30: "uint4", 31: "int2", 32: "uint2", 33: "float4_e2m1",
}  # fmt: skip
"""DataType by number; a reference type is its number + 100."""
_NUMPY: Final = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 8: "<c8", 9: "<i8", 10: "?", 17: "<u2", 18: "<c16",
    19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip
_BFLOAT16: Final = 14
_STRING: Final = 7


def dtype_name(code: int) -> str | Unknown:
    """Return the common name of a DataType."""
    return DTYPES.get(code % 100) or Unknown(f"element type {code} is not known to TensorFlow 2.21")


def read_shape(data: Buffer, start: int, end: int) -> tuple[Dim, ...] | Unknown:
    """Read a TensorShapeProto: `Unknown` without a rank, or in place of a size that may vary."""
    dims: list[Dim] = []
    for number, wire, at, stop in fields(data, start, end):
        if number == 3 and wire == VARINT and at:
            return _NO_RANK
        if number == 2 and wire == BYTES and len(dims) < _MAX_RANK:
            size = next((signed(value) for n, w, value, _ in fields(data, at, stop) if n == 1 and w == VARINT), 0)
            dims.append(size if size >= 0 else _ANY_SIZE)
    return tuple(dims)


# Tensors

Tensor = tuple[str | Unknown, tuple[Dim, ...] | Unknown, Any]
"""(dtype, shape, value): the value as a scalar or nested tuple, `Unknown` for more than 64 elements."""

_Part = tuple[int, int, int]
_VALUE_FIELDS: Final = frozenset((5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17))


def read_tensor(data: Buffer, start: int, end: int) -> Tensor:
    """Read a TensorProto; large contents are not touched."""
    dtype, shape = 0, tuple[Dim, ...]()
    content: tuple[int, int] | None = None
    parts: list[_Part] = []
    declared: tuple[Dim, ...] | Unknown = shape
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == VARINT:
            dtype = at
        elif number == 2 and wire == BYTES:
            declared = read_shape(data, at, stop)
        elif number == 4 and wire == BYTES:
            content = (at, stop)
        elif number in _VALUE_FIELDS and len(parts) <= MAX_CONSTANT:
            parts.append((wire, at, stop))
    return dtype_name(dtype), declared, _constant(data, dtype, declared, content, parts)


def _constant(
    data: Buffer, dtype: int, shape: tuple[Dim, ...] | Unknown, content: tuple[int, int] | None, parts: list[_Part]
) -> Any:
    sizes = None if isinstance(shape, Unknown) else [size for size in shape if isinstance(size, int)]
    if sizes is None or len(sizes) != len(shape):  # type: ignore[arg-type]
        return Unknown("a constant without a fixed shape")
    count = math.prod(sizes)
    if count > MAX_CONSTANT:
        return Unknown(f"a constant of {count:,} elements")
    if count == 0:
        return ()
    numbers = _content(data, dtype, *content) if content is not None else _listed(data, dtype, parts)
    if isinstance(numbers, Unknown):
        return numbers
    if len(numbers) < count and numbers:
        numbers = [*numbers, *[numbers[-1]] * (count - len(numbers))]  # the last one stands for all that follow
    elif len(numbers) < count:
        numbers = [_zero(dtype)] * count
    return _nested(numbers[:count], sizes)


def _content(data: Buffer, dtype: int, start: int, end: int) -> list[Any] | Unknown:
    raw = bytes(data[start : min(end, start + 16 * MAX_CONSTANT)])
    return _decoded(raw, dtype)


def _decoded(raw: bytes, dtype: int) -> list[Any] | Unknown:
    if dtype == _BFLOAT16:
        raw = raw[: len(raw) // 2 * 2]
        return plain((np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32))
    kind = _NUMPY.get(dtype)
    if kind is None:
        return Unknown(f"constants of type {DTYPES.get(dtype, dtype)} are not decoded")
    width = np.dtype(kind).itemsize
    return plain(np.frombuffer(raw[: len(raw) // width * width], dtype=kind))


def _listed(data: Buffer, dtype: int, parts: list[_Part]) -> list[Any] | Unknown:
    if dtype == _STRING:
        return [text(data, at, min(stop, at + MAX_TEXT)) for wire, at, stop in parts if wire == BYTES]
    raw: list[bytes] = []
    for wire, at, stop in parts:
        if wire == VARINT:
            raw.append(_little_endian(at, dtype))
        elif dtype in _AS_VARINTS:
            raw += [_little_endian(value, dtype) for value in packed_varints(data, at, stop, MAX_CONSTANT)]
        else:
            raw.append(bytes(data[at : min(stop, at + 16 * MAX_CONSTANT)]))
    return _decoded(b"".join(raw), dtype)


_AS_VARINTS: Final = frozenset((3, 4, 5, 6, 9, 10, 14, 17, 19, 22, 23))
"""Types whose values stand as varints; of halves it is their bits."""


def _little_endian(value: int, dtype: int) -> bytes:
    width = 2 if dtype == _BFLOAT16 else np.dtype(_NUMPY.get(dtype, "<i8")).itemsize
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _zero(dtype: int) -> Any:
    return "" if dtype == _STRING else False if dtype == 10 else 0.0 if dtype in (1, 2, 14, 19) else 0


def _nested(numbers: list[Any], sizes: list[int]) -> Any:
    if not sizes:
        return numbers[0]
    step = len(numbers) // sizes[0]
    return tuple(_nested(numbers[i * step : (i + 1) * step], sizes[1:]) for i in range(sizes[0]))


# Attributes


def read_value(data: Buffer, start: int, end: int) -> tuple[str, Any]:
    """Read an AttrValue: (kind, value). A `tensor` is a `Tensor`, a `func` the name of a function, a `list` a tuple,
    whose kind is that of its elements. Raises WireError."""
    found: tuple[str, Any] = ("", Unknown("an attribute without a value"))
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == BYTES:
            found = _list(data, at, stop)
        elif number == _PLACEHOLDER:
            found = ("", Unknown("the caller's attribute"))
        elif number in _READERS:
            kind, wanted, read = _READERS[number]
            if wire != wanted:
                raise WireError(f"an attribute's field {number} has wire type {wire}")
            found = (kind, read(data, at, stop))
    return found


def _list(data: Buffer, start: int, end: int) -> tuple[str, Any]:
    kind, values = "", list[Any]()
    for number, wire, at, stop in fields(data, start, end):
        if number not in _READERS:
            continue
        kind, wanted, read = _READERS[number]
        if wire == wanted:
            values.append(read(data, at, stop))
        elif wire == BYTES and number in _PACKED:
            values += _PACKED[number](data, at, stop)
        else:
            raise WireError(f"a list's field {number} has wire type {wire}")
        if len(values) > MAX_NUMBERS:
            return kind, Unknown(f"a list of more than {MAX_NUMBERS:,} values")
    return kind, tuple(values)


def _text(data: Buffer, start: int, end: int) -> str | Unknown:
    return text(data, start, end) if end - start <= MAX_TEXT else Unknown(f"a text of {end - start:,} bytes")


def _function(data: Buffer, start: int, end: int) -> str:
    """The name of a NameAttrList; what the call sets in the function beside is not followed."""
    names = [
        text(data, at, stop) for number, wire, at, stop in fields(data, start, end) if (number, wire) == (1, BYTES)
    ]
    return names[-1] if names else ""


def _float(data: Buffer, start: int, end: int) -> float:
    value: float = plain(np.frombuffer(bytes(data[start:end]), dtype="<f4"))[0]
    return value


def _floats(data: Buffer, start: int, end: int) -> list[Any]:
    if (end - start) % 4:
        raise WireError("packed floats are cut short")
    return plain(np.frombuffer(bytes(data[start : min(end, start + 4 * MAX_NUMBERS + 4)]), dtype="<f4"))


def _varints(convert: Callable[[int], Any]) -> Callable[[Buffer, int, int], list[Any]]:
    return lambda data, start, end: [convert(each) for each in packed_varints(data, start, end, MAX_NUMBERS + 1)]


_PLACEHOLDER: Final = 9
"""A text in an AttrValue; in a list the same number is a function."""
_READERS: Final[dict[int, tuple[str, int, Callable[[Buffer, int, int], Any]]]] = {
    2: ("s", BYTES, _text),
    3: ("i", VARINT, lambda data, value, _: signed(value)),
    4: ("f", FIXED32, _float),
    5: ("b", VARINT, lambda data, value, _: bool(value)),
    6: ("type", VARINT, lambda data, value, _: dtype_name(value)),
    7: ("shape", BYTES, read_shape),
    8: ("tensor", BYTES, read_tensor),
    9: ("func", BYTES, _function),
    10: ("func", BYTES, _function),
}
_PACKED: Final[dict[int, Callable[[Buffer, int, int], list[Any]]]] = {
    3: _varints(signed), 4: _floats, 5: _varints(bool), 6: _varints(dtype_name),
}  # fmt: skip
