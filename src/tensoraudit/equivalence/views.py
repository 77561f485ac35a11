"""Whether two arrays hold the same values under another layout, element by element: the last word about a proposal.

What is tried: as it is, without axes of length 1, with permuted axes (channels last or first, transposes), and
reshaped in memory order (a flatten that keeps the batch in front). A permutation *and* a reshape at once is not: a
flatten in the wrong order would pass for a right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from tensoraudit.equivalence.blocks import Array, largest_difference, largest_magnitude
from tensoraudit.equivalence.layout import find_permutation, matches_after_reshape

_MAX_RANK = 5


def matching_view(reference: Array, candidate: Array, within: float) -> Array | None:
    """Return the candidate in the reference's shape, if some layout brings all its elements within `within`."""
    if reference.size != candidate.size:
        return None
    if reference.shape == candidate.shape and largest_difference(reference, candidate) <= within:
        return candidate
    ours, theirs = np.squeeze(reference), np.squeeze(candidate)
    if ours.shape == theirs.shape and reference.shape != candidate.shape and largest_difference(ours, theirs) <= within:
        return theirs.reshape(reference.shape)
    if (order := find_permutation(ours, theirs, within)) is not None:
        return theirs.transpose(order).reshape(reference.shape)
    flat = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
    return flat[1].reshape(reference.shape) if matches_after_reshape(*flat, within) else None


def nearest_view(reference: Array, candidate: Array) -> Array | None:
    """Return the candidate in the reference's shape under the layout in which it differs least; None without any."""
    views = list(_views(reference, candidate))
    return min(views, key=lambda view: largest_difference(reference, view), default=None)


def _views(reference: Array, candidate: Array) -> Iterator[Array]:
    if reference.shape == candidate.shape:
        yield candidate
    ours, theirs = np.squeeze(reference), np.squeeze(candidate)
    if ours.ndim == theirs.ndim and ours.ndim <= _MAX_RANK:
        for order in permutations(range(ours.ndim)):
            if tuple(theirs.shape[axis] for axis in order) == ours.shape:
                yield theirs.transpose(order).reshape(reference.shape)
    elif reference.size == candidate.size:
        yield np.ascontiguousarray(candidate).reshape(reference.shape)


def closeness(reference: Array, share: float) -> float:
    """Return a share of the reference's largest magnitude, for `matching_view`."""
    return share * largest_magnitude(reference)
