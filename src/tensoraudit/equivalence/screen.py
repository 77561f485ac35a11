"""A cheap look that needs no oracle: tensors that differ by so little that any floor would call it noise."""

from __future__ import annotations

import numpy as np

from tensoraudit.equivalence.blocks import Array, largest_difference, largest_magnitude
from tensoraudit.equivalence.floor import EPS, dtype_floor

SURE = {"float32": 6.0, "float16": 1.0}
"""Dtype floors that are noise whatever the oracle says, by dtype; 2 elsewhere. Every floor is at least one of them, the
candidate is at most this far from the reference, and that at most one floor from the oracle: the sum stays within the
calibrated noise limit (8 and 2)."""


def surely_agrees(reference: Array, candidate: Array) -> bool:
    """Tell whether two tensors agree without measuring a floor. False means only: look closer."""
    if reference.shape != candidate.shape or reference.dtype != candidate.dtype:
        return False
    if reference.dtype.name not in EPS:
        return bool(np.array_equal(reference, candidate))
    if not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return False
    limit = SURE.get(reference.dtype.name, 2.0) * dtype_floor(reference.dtype.name, largest_magnitude(reference))
    return largest_difference(reference, candidate) <= limit
