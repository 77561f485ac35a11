"""How much an element type can hold: whether a cast loses something, and what values judged in it are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

_FLOATS: Final[Mapping[str, tuple[int, int]]] = {
    "bfloat16": (8, 8),
    "float8_e4m3fn": (4, 4),
    "float8_e4m3": (4, 4),
    "float8_e4m3fnuz": (4, 4),
    "float8_e4m3b11fnuz": (4, 4),
    "float8_e5m2": (5, 3),
    "float8_e5m2fnuz": (5, 3),
    "float8_e3m4": (3, 5),
    "float8_e8m0fnu": (8, 1),
    "float4_e2m1fn": (2, 2),
    "float6_e2m3fn": (2, 4),
    "float6_e3m2fn": (3, 3),
    "float16": (5, 11),
    "float32": (8, 24),
    "float64": (11, 53),
}
"""Bits of exponent, and of mantissa with the hidden one."""


def narrows(reference: str, candidate: str) -> bool:
    """Tell whether a cast from one type to the other can lose digits or range. Types that are not known: no."""
    if reference == candidate:
        return False
    ours, theirs = _range_of(reference), _range_of(candidate)
    return ours is not None and theirs is not None and any(a > b for a, b in zip(ours, theirs, strict=True))


def widens(reference: str, candidate: str) -> bool:
    """Tell whether one type holds all that the other holds, and more. Types that are not known: no."""
    return narrows(candidate, reference) and not narrows(reference, candidate)


def float_form(name: str) -> tuple[int, int]:
    """Return the bits of exponent of a float type, and of mantissa with the hidden one."""
    return _FLOATS[name]


def _range_of(name: str) -> tuple[int, int, bool, bool] | None:
    """Bits of exponent, digits in bits, whether there are negative numbers, and whether there is an imaginary part."""
    if name in _FLOATS:
        return (*_FLOATS[name], True, False)
    if name in ("int4", "uint4"):
        return (0, 4 - (name == "int4"), name == "int4", False)
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return None
    if dtype.kind == "b":
        return (0, 1, False, False)
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return (*_FLOATS[f"float{4 * dtype.itemsize}"], True, True)
    if dtype.kind in "iu":
        return (0, 8 * dtype.itemsize - (dtype.kind == "i"), dtype.kind == "i", False)
    return None


def narrower(reference: str, candidate: str) -> str:
    """Return the type with fewer digits; the reference's where they have equally many or are no floats."""
    ours, theirs = _FLOATS.get(reference), _FLOATS.get(candidate)
    if ours is None or theirs is None:
        return reference
    return candidate if theirs[1] < ours[1] else reference
