"""Which orders of axes may turn one tensor into another: by shapes first, then by a sample of elements.

A sample only proposes; whoever asks compares every element. What it costs does not depend on the size of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from math import prod
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import PARTS, Array, ElementType
from tensoraudit.equivalence.blocks import largest_magnitude
from tensoraudit.equivalence.floor import EPS
from tensoraudit.equivalence.gaps import agree

ROUNDINGS: Final = 4.0
"""Roundings of the narrower type by which elements of one tensor may differ on two sides."""
_SAMPLE: Final = 512

Order = tuple[int, ...]
Shape = tuple[int, ...]


def matching_orders(
    views: tuple[Array, Array], types: tuple[ElementType, ElementType], orders: Iterable[Order]
) -> Iterator[Order]:
    """Yield the orders under which a sample of elements agrees: the candidate as `reference.transpose(order)`."""
    within = ROUNDINGS * spacing(types[0].name, types[1].name)
    for order, ours, theirs in sampled(views, types, orders):
        if agree(ours, theirs, within * largest_magnitude(ours)).all():
            yield order


def sampled(
    views: tuple[Array, Array], types: tuple[ElementType, ElementType], orders: Iterable[Order]
) -> Iterator[tuple[Order, Array, Array]]:
    """Yield each order with a sample of the reference's elements and those of the candidate at their places in it."""
    reference, candidate = views
    if not reference.size or reference.ndim < 2:
        return
    # The same places in every run; none at even steps, which a structured tensor could hide behind.
    places = np.random.default_rng(0).integers(0, reference.size, min(_SAMPLE, 2 * reference.size))
    index = np.unravel_index(places, reference.shape)
    ours = types[0].widen(reference[index])
    for order in orders:
        yield order, ours, types[1].widen(candidate[tuple(index[axis] for axis in order)])


def spacing(reference: str, candidate: str) -> float:
    """Return the spacing of the numbers at 1.0 in the coarser of two float types; 0 where none is a float."""
    return max(EPS.get(PARTS.get(name, name), 0.0) for name in (reference, candidate))


def merged_shapes(a: Shape, b: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Yield shapes of equal rank that both can be read as without moving an element: axes of length 1 left out, and
    neighbouring axes of the one with more of them taken together."""
    ours, theirs = (tuple(size for size in shape if size != 1) for shape in (a, b))
    if prod(ours) != prod(theirs) or len(ours) == 0:
        return
    if len(ours) >= len(theirs):
        yield from ((merged, theirs) for merged in _merges(ours, len(theirs)) if sorted(merged) == sorted(theirs))
    else:
        yield from ((ours, merged) for merged in _merges(theirs, len(ours)) if sorted(merged) == sorted(ours))


def _merges(shape: Shape, rank: int) -> Iterator[Shape]:
    if not 2 <= rank <= len(shape) <= 8:
        return
    for cuts in combinations(range(1, len(shape)), rank - 1):
        bounds = (0, *cuts, len(shape))
        yield tuple(prod(shape[low:high]) for low, high in pairwise(bounds))
