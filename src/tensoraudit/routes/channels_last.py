"""Whether an output has kept its layout or has its channels at the end, told by the values of one sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NEAR = 1e-3
"""Largest difference, as a part of the largest value, at which a conversion counts as understood. A wrong permutation
is off by the values themselves; what is smaller is for the audit to judge."""


def fit(wanted: Any, value: Any) -> tuple[tuple[int, ...] | None, float]:
    """Return the permutation to channels-last if `value` has it (else None), and the distance in the better layout."""
    plain = distance(wanted, value)
    if wanted.ndim < 3 or plain <= NEAR:
        return None, plain
    last = (0, *range(2, wanted.ndim), 1)
    moved = distance(wanted.transpose(last), value)
    return (last, moved) if moved < plain else (None, plain)


def distance(wanted: Any, value: Any) -> float:
    """Return the largest difference as a part of the largest value; infinite for another shape or other NaN."""
    if wanted.shape != value.shape:
        return math.inf
    if not wanted.size:
        return 0.0
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    first, second = wanted.astype(wide), value.astype(wide)
    finite = np.isfinite(first)
    if not np.isfinite(second[finite]).all() or not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return math.inf
    off = np.abs(first[finite] - second[finite]).max(initial=0.0)
    return float(off / max(np.abs(first[finite]).max(initial=0.0), 1e-30))
