"""A cheap look that needs no oracle: tensors that differ by so little that any floor would call it noise."""

from __future__ import annotations

import numpy as np

from tensoraudit.equivalence.blocks import Array, largest_difference, largest_magnitude
from tensoraudit.equivalence.floor import EPS, dtype_floor

SURE = 2.0
"""Dtype floors that are noise whatever the oracle says: every floor is at least one of them, and the candidate is at
most this far from the reference, which is at most one floor from the oracle."""


def surely_agrees(reference: Array, candidate: Array) -> bool:
    """Tell whether two tensors agree without measuring a floor. False means only: look closer."""
    if reference.shape != candidate.shape or reference.dtype != candidate.dtype:
        return False
    if reference.dtype.name not in EPS:
        return bool(np.array_equal(reference, candidate))
    if not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return False
    limit = SURE * dtype_floor(reference.dtype.name, largest_magnitude(reference))
    return largest_difference(reference, candidate) <= limit
