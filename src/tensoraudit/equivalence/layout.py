"""Diagnose a permuted layout: "matches after transpose (0, 2, 3, 1)". Never a pass (structural rule 6).

Only an element-by-element comparison decides; no sum or sorted list does, since those are blind to order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from tensoraudit.equivalence.blocks import Array, Index, blocks
from tensoraudit.equivalence.gaps import agree

# 6! = 720 orders are still tried in a moment; no layout that a framework uses has more axes.
_MAX_RANK = 6


def find_permutation(reference: Array, candidate: Array, within: float) -> Index | None:
    """Return the axis order for which `candidate.transpose(order)` is within `within` of the reference, else None.

    Works on dtypes of any width; NaN and Inf must stand at the same places. The identity is not tried: whoever
    calls has already found that it fails.
    """
    if reference.ndim != candidate.ndim or not 2 <= reference.ndim <= _MAX_RANK or not reference.size:
        return None
    identity = tuple(range(reference.ndim))
    for order in permutations(identity):
        if order == identity or tuple(candidate.shape[axis] for axis in order) != reference.shape:
            continue
        if _agree(reference, candidate.transpose(order), within):
            return order
    return None


def matches_after_reshape(reference: Array, candidate: Array, within: float) -> bool:
    """Tell whether the values agree one by one in memory order although the shapes differ."""
    if reference.size != candidate.size or not reference.size or reference.shape == candidate.shape:
        return False
    if not (reference.flags.c_contiguous and candidate.flags.c_contiguous):
        return False
    return _agree(reference.reshape(-1), candidate.reshape(-1), within)


def is_convention(order: Sequence[int]) -> bool:
    """Tell whether an axis order turns channels last into channels first or back, and does nothing else."""
    rank = len(order)
    to_first, to_last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    return rank >= 3 and tuple(order) in (to_first, to_last)


def _agree(a: Array, b: Array, within: float) -> bool:
    """Compare block by block; the first block that differs ends it, which refutes a wrong order at once."""
    return all(bool(agree(x, y, within).all()) for _, (x, y) in blocks(a, b))
