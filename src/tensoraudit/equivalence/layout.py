"""Diagnose a permuted layout: "matches after transpose (0, 2, 3, 1)". Never a pass (structural rule 6).

Only an element-by-element comparison decides; no sum or sorted list does, since those are blind to order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from tensoraudit.equivalence.blocks import Array, Index, largest_difference

# 6! = 720 orders are still tried in a moment; no layout that a framework uses has more axes.
_MAX_RANK = 6
_SAMPLE = 512


def find_permutation(reference: Array, candidate: Array, within: float) -> Index | None:
    """Return the axis order for which `candidate.transpose(order)` is within `within` of the reference, else None.

    Works on real dtypes of any width. The identity is not tried: whoever calls has already found that it fails. Orders that only
    move axes of length 1 are tried too, since they change the shape.
    """
    if reference.ndim != candidate.ndim or not 2 <= reference.ndim <= _MAX_RANK or not reference.size:
        return None
    identity = tuple(range(reference.ndim))
    for order in permutations(identity):
        if order == identity or tuple(candidate.shape[axis] for axis in order) != reference.shape:
            continue
        turned = candidate.transpose(order)
        if _sample_agrees(reference, turned, within) and largest_difference(reference, turned) <= within:
            return order
    return None


def matches_after_reshape(reference: Array, candidate: Array, within: float) -> bool:
    """Tell whether the values agree one by one in memory order although the shapes differ."""
    if reference.size != candidate.size or not reference.size or reference.shape == candidate.shape:
        return False
    if not (reference.flags.c_contiguous and candidate.flags.c_contiguous):
        return False
    return largest_difference(reference.reshape(-1), candidate.reshape(-1)) <= within


def is_convention(order: Sequence[int]) -> bool:
    """Tell whether an axis order turns channels last into channels first or back, the rest unchanged."""
    rank = len(order)
    if rank < 3:
        return False
    spatial = tuple(range(2, rank))
    to_first, to_last = (0, rank - 1, *range(1, rank - 1)), (0, *spatial, 1)
    return tuple(order) in (to_first, to_last)


def _sample_agrees(reference: Array, turned: Array, within: float) -> bool:
    """Refute most orders on a few hundred elements spread over the tensor."""
    places = np.unique(np.linspace(0, reference.size - 1, _SAMPLE).astype(np.int64))
    index = np.unravel_index(places, reference.shape)
    return largest_difference(reference[index], turned[index]) <= within
