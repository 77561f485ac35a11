"""How far apart single numbers are, whatever types the two sides have. No warning leaves here, whatever the values.

A real number is a complex one without an imaginary part: of complex numbers the gap is the magnitude of the difference.
Integers are exact: int64 and uint64 have more digits than float64, so that turning them into it would lose the last
ones before they are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_EXACT = 1 << 53
"""Integers up to here are floats of double precision."""
_LAST = (1 << 11) - 1
"""The bits that a 64-bit integer may have more than that: what is left without them is a float."""


def gaps(x: Array, y: Array) -> Array:
    """Return |x - y| in double precision, element by element, 0 only where both are equal.

    NaN where a side is NaN or both are the same infinity.
    """
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c" or y.dtype.kind == "c":
            return np.asarray(np.hypot(gaps(x.real, y.real), gaps(x.imag, y.imag)))
        (high_x, low_x), (high_y, low_y) = _split(x), _split(y)
        apart = np.subtract(high_x, high_y)  # exact where both are so near that the rest counts
        if low_x is not None or low_y is not None:
            apart += (0.0 if low_x is None else low_x) - (0.0 if low_y is None else low_y)
        return np.abs(apart, out=apart) if isinstance(apart, np.ndarray) else np.asarray(np.abs(apart))


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Tell whether numbers of a type become float64 as they are: all but complex numbers and the longest integers."""
    return dtype.kind in "fb" or (dtype.kind in "iu" and dtype.itemsize < 8)


def magnitudes(x: Array) -> Array:
    """Return |x| in double precision."""
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c":
            return np.asarray(np.hypot(x.real, x.imag, dtype=np.float64))
        return np.asarray(np.abs(x.astype(np.float64)))


def agree(x: Array, y: Array, within: float) -> Array:
    """Tell for each pair whether it is at most `within` apart, or the same infinity, or NaN on both sides.

    Complex numbers that are not finite have to agree part by part.
    """
    near = gaps(x, y) <= within
    if near.all():
        return near
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        both = ~np.isfinite(x) & ~np.isfinite(y)
        return np.asarray(near | (both & agree(x.real, y.real, within) & agree(x.imag, y.imag, within)))
    same_inf = np.isinf(x) & np.isinf(y) & (np.signbit(x) == np.signbit(y))
    return np.asarray(near | same_inf | (np.isnan(x) & np.isnan(y)))


def _split(values: Array) -> tuple[Array, Array | None]:
    """Two floats that are the value together; the second one is left out where the first is enough."""
    if is_plain(values.dtype):
        return values.astype(np.float64, copy=False), None
    is_long = values > _EXACT if values.dtype.kind == "u" else (values > _EXACT) | (values < -_EXACT)
    last = np.where(is_long, values & values.dtype.type(_LAST), values.dtype.type(0))
    return (values - last).astype(np.float64), last.astype(np.float64)
