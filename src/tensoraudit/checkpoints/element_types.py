"""Element types as checkpoints store them: the words of bytes, the numbers that they mean, and back by rounding.

Numpy has no bfloat16 and no 8-bit or 4-bit floats; their words are unsigned integers here, widened exactly to float32.
Every reader of values goes through this table, so that no other module knows a bit of a format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ElementType:
    """How elements of one type are stored.

    `word` is the numpy type of one element, little endian, as it stands in the file. Where `per_byte` elements share a
    byte there (2 for 4-bit types, low half first), each has a word of its own once it is read (`unshared`). `widen`
    makes numbers of words, exactly. `widen_into` does so in float32 memory of the caller, for narrow types that much is
    stored in: fresh memory for each block would cost as much as the work.
    """

    name: str
    word: np.dtype[Any]
    widen: Callable[[Array], Array]
    per_byte: int = 1
    widen_into: Callable[[Array, Array], Array] | None = None

    def stored_bytes(self, count: int) -> int:
        """Bytes that `count` elements take in a file."""
        return -(-count // self.per_byte) * self.word.itemsize

    def held_bytes(self, count: int) -> int:
        """Bytes that the words of `count` elements take in memory."""
        return count * self.word.itemsize


@dataclass(frozen=True, slots=True)
class Float8:
    """A small float: sign, `exponent` bits and `mantissa` bits. `special` says what its last codes mean: "ieee" (Inf
    and NaN), "fn" (one NaN, no Inf), "fnuz" (NaN is the negative zero), "finite"."""

    exponent: int
    mantissa: int
    bias: int
    special: str


_SMALL: Final[Mapping[str, Float8]] = {
    "float8_e4m3fn": Float8(4, 3, 7, "fn"),
    "float8_e4m3": Float8(4, 3, 7, "ieee"),
    "float8_e4m3fnuz": Float8(4, 3, 8, "fnuz"),
    "float8_e4m3b11fnuz": Float8(4, 3, 11, "fnuz"),
    "float8_e5m2": Float8(5, 2, 15, "ieee"),
    "float8_e5m2fnuz": Float8(5, 2, 16, "fnuz"),
    "float8_e3m4": Float8(3, 4, 3, "ieee"),
    "float4_e2m1fn": Float8(2, 1, 1, "finite"),
    "float6_e2m3fn": Float8(2, 3, 1, "finite"),
    "float6_e3m2fn": Float8(3, 2, 3, "finite"),
}
_ALIASES: Final[Mapping[str, str]] = {
    "qint8": "int8",
    "quint8": "uint8",
    "qint32": "int32",
    "half": "float16",
    "float": "float32",
    "double": "float64",
}
_HALF_WORD: Final = np.array(16, np.uint32)
_INF: Final = 0x7C00
_SIGN: Final = 0x8000
"""Bits of float16."""
_MANTISSA_MOVE: Final = np.array(23 - 10, np.int32)
_ONE_SIGN: Final = np.array(~0x70000000, np.int32)
"""Takes off the copies of the sign that widening an integer makes."""
_EXPONENT_MOVE: Final = np.array(2.0 ** (127 - 15), np.float32)
PARTS: Final[Mapping[str, str]] = {"complex64": "float32", "complex128": "float64"}
"""The type of the two parts of a complex number."""
_PACKED: Final = {"int4": True, "uint4": False}


@cache
def element_type(name: str, *, packed: bool = False) -> ElementType | None:
    """Return the type of a name of numpy's or ml_dtypes'; None for what holds no numbers (strings, objects, unknown).

    `packed` asks for the form in which two 4-bit elements share a byte.
    """
    name = _ALIASES.get(name, name)
    if name == "bfloat16":
        return ElementType(name, np.dtype("<u2"), _widen_bfloat16, widen_into=_widen_bfloat16_into)
    if name == "float8_e8m0fnu":
        return ElementType(name, np.dtype("u1"), _Table(_powers_of_two()))
    if name in _SMALL:
        table = _Table(_numbers(_SMALL[name]))
        is_packed = packed and name.startswith("float4")
        return ElementType(name, np.dtype("u1"), table, 2 if is_packed else 1)
    if name in _PACKED:
        table = _Table(_four_bits(signed=_PACKED[name]))
        return ElementType(name, np.dtype("u1"), table, 2 if packed else 1)
    return _plain(name)


def _plain(name: str) -> ElementType | None:
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return None
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.name in ("float128", "longdouble"):
        return None
    if dtype.kind == "b":
        return ElementType(name, np.dtype("u1"), lambda words: words != 0)
    native = dtype.newbyteorder("=")
    if native == dtype:
        return ElementType(name, dtype, lambda words: words, widen_into=_INTO.get(name))
    return ElementType(name, dtype, lambda words: words.astype(native))


def narrow(values: Array, name: str) -> Array | None:
    """Round numbers to a narrower type, to nearest even, and return its words; None for types that are not rounded to,
    as no complex number is to a real one.

    What is too large becomes infinite, as in every framework.
    """
    dtype = element_type(name)
    is_rounded_to = dtype is not None and (name == "bfloat16" or dtype.word.kind in "fc")
    if dtype is None or not is_rounded_to or (values.dtype.kind == "c" and dtype.word.kind != "c"):
        return None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if name == "bfloat16":
            return _narrow_bfloat16(values.astype(np.float32, copy=False))
        return values.astype(dtype.word)


def _widen_bfloat16(words: Array) -> Array:
    return _widen_bfloat16_into(words, np.empty(words.shape, np.float32))


def _widen_bfloat16_into(words: Array, numbers: Array) -> Array:
    bits = numbers.view(np.uint32)
    np.copyto(bits, words)
    np.left_shift(bits, _HALF_WORD, out=bits)
    return numbers


def _widen_float16_into(words: Array, numbers: Array) -> Array:
    """Four times as fast as numpy's own: the fields are moved as integers, a product sets the exponent right."""
    if words.view(np.int16).max(initial=0) >= _INF or words.view(np.uint16).max(initial=0) >= _SIGN | _INF:
        with np.errstate(invalid="ignore"):  # to copy a signalling NaN is an invalid operation
            np.copyto(numbers, words)  # something is not finite, whose exponent means something else
        return numbers
    bits = numbers.view(np.int32)
    np.copyto(bits, words.view(np.int16))
    np.left_shift(bits, _MANTISSA_MOVE, out=bits)
    np.bitwise_and(bits, _ONE_SIGN, out=bits)
    return np.multiply(numbers, _EXPONENT_MOVE, out=numbers)


def _narrow_bfloat16(values: Array) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32)
    odd = bits >> 16
    odd &= 1
    odd += 0x7FFF
    odd += bits  # half of the last place that is kept, a tie going to the even one
    odd >>= 16
    words = odd.astype("<u2")
    if values.size and np.isnan(values.max()):
        is_nan = np.isnan(values)
        words[is_nan] = (bits[is_nan] >> 16).astype("<u2") | 0x40
    return words


_INTO: Final[Mapping[str, Callable[[Array, Array], Array]]] = {"float16": _widen_float16_into}


class _Table:
    """Numbers by code."""

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers

    def __call__(self, words: Array) -> Array:
        numbers: Array = self._numbers[words & (len(self._numbers) - 1)]
        return numbers


def unshared(packed: Array) -> Array:
    """Return the words of elements of which two share a byte, the low half first."""
    words = np.empty((packed.size, 2), np.uint8)
    np.bitwise_and(packed, 15, out=words[:, 0])
    np.right_shift(packed, 4, out=words[:, 1])
    return words.reshape(-1)


def _numbers(form: Float8) -> Array:
    """Every number of a small float, by code."""
    count = 1 << (1 + form.exponent + form.mantissa)
    codes = np.arange(count)
    fraction = codes & ((1 << form.mantissa) - 1)
    exponent = (codes >> form.mantissa) & ((1 << form.exponent) - 1)
    sign = np.where(codes >> (form.mantissa + form.exponent), -1.0, 1.0)
    normal = exponent > 0
    size = np.ldexp(fraction + normal * (1 << form.mantissa), np.maximum(exponent, 1) - form.bias - form.mantissa)
    numbers: Array = (sign * size).astype(np.float32)
    last = exponent == (1 << form.exponent) - 1
    if form.special == "ieee":
        numbers[last] = np.where(fraction[last] == 0, sign[last] * np.inf, np.nan)
    elif form.special == "fn":
        numbers[last & (fraction == (1 << form.mantissa) - 1)] = np.nan
    elif form.special == "fnuz":
        numbers[count // 2] = np.nan
    return numbers


def _powers_of_two() -> Array:
    """The scale type e8m0: 2 to the code less 127, its last code NaN. (The smallest is subnormal in float32.)"""
    numbers: Array = np.ldexp(np.float32(1.0), np.minimum(np.arange(256), 254) - 127)
    numbers[255] = np.nan
    return numbers


def _four_bits(*, signed: bool) -> Array:
    numbers = np.arange(16, dtype=np.int8)
    return np.where(numbers > 7, numbers - 16, numbers).astype(np.int8) if signed else numbers.astype(np.uint8)
