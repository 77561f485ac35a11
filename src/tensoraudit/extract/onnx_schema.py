"""Types and small tensors of ONNX as plain Python values.

Field numbers and enumerations are those of onnx.proto (IR version 14, onnx 1.23). Knows nothing of graphs and of facts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.onnx_external import BITS
from tensoraudit.artifacts.onnx_file import TensorHeader
from tensoraudit.artifacts.protobuf import BYTES, VARINT, Buffer, WireError, fields, packed_varints, signed, text
from tensoraudit.facts import Dim, Unknown

MAX_CONSTANT: Final = 64
"""Elements up to which a tensor's value is a fact: shapes, axes, scales and epsilons, no weights."""
_MAX_TYPE_DEPTH: Final = 16

DTYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1", 24: "float8_e8m0", 25: "uint2", 26: "int2", 27: "float6_e2m3", 28: "float6_e3m2",
}  # fmt: skip
"""TensorProto.DataType to the common lower-case name."""

_NUMPY: Final = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8", 14: "<c8", 15: "<c16",
}  # fmt: skip

NOT_DECLARED: Final = Unknown("not declared in the file")
_ANY_SIZE: Final = Unknown("size not declared in the file")

Type = tuple[str | Unknown, tuple[Dim, ...] | Unknown]
UNTYPED: Final[Type] = (NOT_DECLARED, NOT_DECLARED)


def dtype_name(code: int) -> str | Unknown:
    """Return the common name of a TensorProto.DataType."""
    return DTYPES.get(code) or Unknown(f"element type {code} is not in ONNX IR version 14")


def read_type(data: Buffer, start: int, end: int, depth: int = 0) -> Type:
    """Read a TypeProto: (dtype, shape). Types of no tensor read `sequence(float32)`, `map(int64, float32)`,
    `optional(float32)`, and have no shape. Raises WireError for types nested without end."""
    if depth > _MAX_TYPE_DEPTH:
        raise WireError("types nested too deep")
    found = UNTYPED
    for number, wire, at, stop in fields(data, start, end):
        if wire == BYTES and number in _TYPES:
            found = _TYPES[number](data, at, stop, depth)
    return found


def _tensor_type(data: Buffer, start: int, end: int, _: int) -> Type:
    dtype: str | Unknown = NOT_DECLARED
    shape: tuple[Dim, ...] | Unknown = NOT_DECLARED
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == VARINT:
            dtype = dtype_name(at)
        elif number == 2 and wire == BYTES:
            shape = tuple(_dim(data, s, e) for n, w, s, e in fields(data, at, stop) if n == 1 and w == BYTES)
    return dtype, shape


def _dim(data: Buffer, start: int, end: int) -> Dim:
    size: Dim = _ANY_SIZE
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == VARINT:
            value = signed(at)
            size = (
                value if value >= 0 else Unknown(f"size {value} in the file, which some exporters write for any size")
            )
        elif number == 2 and wire == BYTES and at < stop:
            size = text(data, at, stop)
    return size


def _wrapped_type(word: str) -> Callable[[Buffer, int, int, int], Type]:
    def read(data: Buffer, start: int, end: int, depth: int) -> Type:
        inner: str | Unknown = NOT_DECLARED
        for number, wire, at, stop in fields(data, start, end):
            if number == 1 and wire == BYTES:
                inner = read_type(data, at, stop, depth + 1)[0]
        return f"{word}({inner if isinstance(inner, str) else '?'})", Unknown(f"a {word} has no shape")

    return read


def _map_type(data: Buffer, start: int, end: int, depth: int) -> Type:
    key: str | Unknown = NOT_DECLARED
    value: str | Unknown = NOT_DECLARED
    for number, wire, at, stop in fields(data, start, end):
        if number == 1 and wire == VARINT:
            key = dtype_name(at)
        elif number == 2 and wire == BYTES:
            value = read_type(data, at, stop, depth + 1)[0]
    names = (each if isinstance(each, str) else "?" for each in (key, value))
    return f"map({', '.join(names)})", Unknown("a map has no shape")


def _opaque_type(data: Buffer, start: int, end: int, _: int) -> Type:
    names = [text(data, at, stop) for number, wire, at, stop in fields(data, start, end) if wire == BYTES]
    return f"opaque({'.'.join(names)})", Unknown("an opaque type has no shape")


def _sparse_type(data: Buffer, start: int, end: int, depth: int) -> Type:
    dtype, shape = _tensor_type(data, start, end, depth)
    return f"sparse({dtype if isinstance(dtype, str) else '?'})", shape


_TYPES: Final[dict[int, Callable[[Buffer, int, int, int], Type]]] = {
    1: _tensor_type, 4: _wrapped_type("sequence"), 5: _map_type, 7: _opaque_type, 8: _sparse_type,
    9: _wrapped_type("optional"),
}  # fmt: skip


def constant_of(data: Buffer, tensor: TensorHeader) -> Any:
    """Return a tensor's value as a scalar or nested tuple, `Unknown` for more than 64 elements, for external data, and
    for data that does not fit the dims.

    Floats are the shortest decimals that give the stored number back in its own type: the float32 nearest to 1e-5
    reads 1e-05, not 9.999999747378752e-06, which is the same number written out in float64.
    """
    if tensor.external is not None:
        return Unknown("the value is stored in another file")
    if tensor.numel > MAX_CONSTANT:
        return Unknown(f"a constant of {tensor.numel:,} elements, more than {MAX_CONSTANT}")
    try:
        values = _strings(data, tensor) if tensor.dtype == 8 else _numbers(_raw(data, tensor), tensor)
    except (ValueError, struct.error, OverflowError) as error:
        return Unknown(f"the data cannot be read ({error})")
    if isinstance(values, Unknown):
        return values
    if len(values) != tensor.numel:
        return Unknown(f"the file holds {len(values)} of {tensor.numel} elements")
    return _nested(values, tensor.dims)


def _nested(values: list[Any], dims: list[int]) -> Any:
    if not dims:
        return values[0]
    step = len(values) // dims[0] if dims[0] else 0
    return tuple(_nested(values[i * step : (i + 1) * step], dims[1:]) for i in range(dims[0]))


def _strings(data: Buffer, tensor: TensorHeader) -> list[str]:
    return [text(data, start, end) for number, _, start, end in tensor.data[: MAX_CONSTANT + 1] if number == 6]


def _raw(data: Buffer, tensor: TensorHeader) -> bytes:
    """Return the little-endian bytes of a small tensor, whichever of the data fields holds them."""
    limit = 2 * MAX_CONSTANT + 1  # complex numbers are stored as pairs
    parts: list[bytes] = []
    for number, wire, start, end in tensor.data[:limit]:
        if wire == VARINT:
            parts.append(_little_endian(start, number, tensor.dtype))
        elif number in _VARINT_DATA:
            parts += [_little_endian(value, number, tensor.dtype) for value in packed_varints(data, start, end, limit)]
        else:
            parts.append(bytes(data[start : min(end, start + 16 * limit)]))
    return b"".join(parts)


_VARINT_DATA: Final = frozenset({5, 7, 11})


def _little_endian(value: int, number: int, dtype: int) -> bytes:
    """int32_data carries every type of at most 32 bits, uint64_data also uint32: keep the bytes of the type itself."""
    width = max(BITS.get(dtype, 64) // 8, 1)
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _numbers(raw: bytes, tensor: TensorHeader) -> list[Any] | Unknown:
    kind = _NUMPY.get(tensor.dtype)
    if kind is not None:
        return plain(np.frombuffer(raw, dtype=kind))
    if tensor.dtype == 16:
        return plain((np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32))
    if tensor.dtype in _PACKED:
        bits, is_signed = _PACKED[tensor.dtype]
        return _unpacked(raw, bits, is_signed, tensor.numel)
    if tensor.dtype in _MINIFLOATS:
        return [_minifloat(byte, *_MINIFLOATS[tensor.dtype]) for byte in raw]
    if tensor.dtype == 23:
        return [_minifloat(code, 2, 1, 1, "") for code in _unpacked(raw, 4, False, tensor.numel)]
    return Unknown(f"constants of type {DTYPES.get(tensor.dtype, tensor.dtype)} are not decoded")


def plain(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return the elements as Python scalars, floats as the shortest decimals of their own type."""
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        return [float(str(value)) for value in array]
    return list(array.tolist())


_PACKED: Final = {21: (4, False), 22: (4, True), 25: (2, False), 26: (2, True)}
"""Bits per element and whether signed; the first element is in the lowest bits."""
_MINIFLOATS: Final = {
    17: (4, 3, 7, "nan"),
    18: (4, 3, 8, "uz"),
    19: (5, 2, 15, "inf"),
    20: (5, 2, 16, "uz"),
    24: (8, 0, 127, "e"),
}
"""Exponent bits, mantissa bits, bias, and which codes are special (IEEE infinities, NaN only, no negative zero)."""


def _unpacked(raw: bytes, bits: int, is_signed: bool, count: int) -> list[int]:
    mask, per_byte = (1 << bits) - 1, 8 // bits
    codes = [(byte >> bits * i) & mask for byte in raw for i in range(per_byte)][:count]
    return [code - (1 << bits) if is_signed and code >> (bits - 1) else code for code in codes]


def _minifloat(code: int, exponent_bits: int, mantissa_bits: int, bias: int, special: str) -> float:
    """Decode one small float (OCP 8-bit formats and their `fnuz` variants, https://onnx.ai/onnx/technical/float8.html)."""
    if special == "e":  # a scale: no sign, no mantissa, no zero
        return float("nan") if code == 0xFF else 2.0 ** (code - bias)
    magnitude = code & ((1 << (exponent_bits + mantissa_bits)) - 1)
    sign = -1.0 if code != magnitude else 1.0
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if special == "uz" and code == 0x80:
        return float("nan")
    if special == "nan" and magnitude == 0x7F:
        return float("nan")
    if special == "inf" and exponent == top:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
