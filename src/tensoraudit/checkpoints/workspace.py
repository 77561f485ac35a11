"""Memory for one part of a block, used again for every part.

A comparison of tensors is bound by memory: what its steps write must stay in a cache, so they write into the same rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tensoraudit.checkpoints.element_types import Array

STEP: Final = 1 << 17
"""Elements of a part: enough that calls do not count, few enough that a cache holds the rows. Measured."""
_WIDEST: Final = 8
"""Bytes of an element; complex numbers are looked at as pairs of floats."""


class Workspace:
    """Some rows of `STEP` elements. Whoever takes a row says what is still needed in the others."""

    def __init__(self, rows: int) -> None:
        self._rows = [np.empty(_WIDEST * STEP, np.uint8) for _ in range(rows)]

    def row(self, number: int, count: int, dtype: npt.DTypeLike) -> Array:
        """Return the beginning of a row as `count` elements, at most `STEP`, of a type of at most eight bytes."""
        kind = np.dtype(dtype)
        return self._rows[number][: count * kind.itemsize].view(kind)
