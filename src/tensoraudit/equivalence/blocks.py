"""Walk over arrays of any size in pieces that stay in the processor's cache. Knows nothing of what is measured.

Every measurement of this package goes through here, so the extra memory never depends on the size of a tensor, and a
memory-mapped file is read once, front to back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tensoraudit.equivalence.gaps import gaps, is_plain, magnitudes

Array = npt.NDArray[Any]
Index = tuple[int, ...]

# 8192 doubles are 64 KiB; the handful of buffers of one pass then fits a level-2 cache of 512 KiB. Measured: 4096 pays
# for the calls, 65536 for main memory.
BLOCK = 8192


def blocks(*arrays: Array, size: int = BLOCK) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """Yield `(offset, pieces)` over arrays of one shape: one-dimensional, contiguous pieces of at most `size` elements.

    The offset counts elements in C order. Pieces are views where all arrays lie contiguous in memory; otherwise small
    copies.
    """
    if all(array.flags.c_contiguous for array in arrays):
        flat = [array.reshape(-1) for array in arrays]
        for start in range(0, arrays[0].size, size):
            yield start, tuple(array[start : start + size] for array in flat)
        return
    yield from _strided(arrays, 0, size)


def _strided(arrays: tuple[Array, ...], offset: int, size: int) -> Iterator[tuple[int, tuple[Array, ...]]]:
    shape = arrays[0].shape
    row = math.prod(shape[1:])
    if row > size:
        for number in range(shape[0]):
            yield from _strided(tuple(array[number] for array in arrays), offset + number * row, size)
        return
    step = max(1, size // max(1, row))
    for start in range(0, shape[0] if row else 0, step):
        yield (
            offset + start * row,
            tuple(np.ascontiguousarray(array[start : start + step]).reshape(-1) for array in arrays),
        )


def index_at(offset: int, shape: Index) -> Index:
    """Return the index of the element at `offset` in C order."""
    return tuple(int(i) for i in np.unravel_index(offset, shape))


def largest_difference(x: Array, y: Array) -> float:
    """Return max|x - y| in double precision over two arrays of one shape, whatever their dtypes.

    Elements where either side is NaN or infinite do not count: where they stand is judged by structural rule 1. An
    empty array gives 0.0.
    """
    if not (is_plain(x.dtype) and is_plain(y.dtype)):
        return max((_largest_gap(a, b) for _, (a, b) in blocks(x, y)), default=0.0)
    worst = 0.0
    left, right = np.empty(BLOCK), np.empty(BLOCK)
    for _, (a, b) in blocks(x, y):
        p, q = left[: a.size], right[: a.size]
        with np.errstate(invalid="ignore", over="ignore"):  # to copy a signalling NaN is an invalid operation too
            np.copyto(p, a, casting="unsafe")
            np.copyto(q, b, casting="unsafe")
            finite = np.isfinite(p) & np.isfinite(q)
            np.subtract(p, q, out=p)
        np.abs(p, out=p)
        worst = max(worst, float(p.max(initial=0.0, where=finite)))
    return worst


def _largest_gap(a: Array, b: Array) -> float:
    """The same of one piece, for what does not become float64 as it is."""
    return float(gaps(a, b).max(initial=0.0, where=np.isfinite(a) & np.isfinite(b)))


def largest_magnitude(x: Array) -> float:
    """Return the largest |x| among the finite elements, 0.0 when there are none."""
    if x.dtype.kind == "c":
        sizes = (magnitudes(a) for _, (a,) in blocks(x))
        return max((float(size.max(initial=0.0, where=np.isfinite(size))) for size in sizes), default=0.0)
    worst = 0.0
    buffer = np.empty(BLOCK)
    for _, (a,) in blocks(x):
        p = buffer[: a.size]
        with np.errstate(invalid="ignore"):
            np.copyto(p, a, casting="unsafe")
        np.abs(p, out=p)
        worst = max(worst, float(p.max(initial=0.0, where=np.isfinite(p))))
    return worst


def in_unit_interval(values: Array) -> bool:
    """Tell whether all values lie in [0, 1], as probabilities do. Complex numbers have no order, and do not."""
    return values.dtype.kind != "c" and all(bool(((a >= 0) & (a <= 1)).all()) for _, (a,) in blocks(values))
