"""What two headers say about a pair of tensors. All but an equal header is a suspicion that values settle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import prod
from typing import Any, Final

from tensoraudit.checkpoints.paired import NO_DIGESTS, NOTHING, By, PairedTensor, Status
from tensoraudit.checkpoints.precision import narrows
from tensoraudit.checkpoints.schema import Entry

_MOST_AXES: Final = 6
SUSPECTED: Final = ("suspected", "the shapes differ")
"""How notes begin that values settle."""
CONVENTIONS: Final = ((1, 0), (2, 1, 0), (3, 2, 0, 1), (2, 3, 1, 0), (2, 3, 0, 1), (4, 3, 0, 1, 2), (2, 3, 4, 1, 0))
"""Orders that turn a kernel of one framework into another's: dense, 1-d, 2-d, depthwise and 3-d."""
_PADDED_BY: Final = (8, 128)
"""Rows are added up to a multiple of this; and what is shorter than this many more counts as padding."""


def from_headers(names: tuple[str, str], reference: Entry, candidate: Entry, by: By, note: str) -> PairedTensor:
    """Return the pair of two entries of these full names, with what the headers say."""
    dtypes, shapes = (reference.dtype, candidate.dtype), (reference.shape, candidate.shape)
    if reference.shape == candidate.shape and reference.axes == candidate.axes and reference.dtype == candidate.dtype:
        # Nearly always; by position, because a hundred thousand of them by keyword take a tenth of a second more.
        return PairedTensor(
            names[0], names[1], "same_header", by, (), dtypes, shapes, NOTHING, "", None, NO_DIGESTS, note
        )
    status, permutation, found = _layout(reference, candidate)
    loss: Any = NOTHING
    if reference.dtype != candidate.dtype:
        loss = {"narrowing": narrows(reference.dtype, candidate.dtype)}
        if status == "same_header":
            status = "cast"
    return PairedTensor(
        *names,
        status,
        by,
        permutation,
        dtypes,
        shapes,
        loss,
        note=f"{note}; {found}" if note and found else note or found,
    )


def _layout(reference: Entry, candidate: Entry) -> tuple[Status, tuple[int, ...], str]:
    a, b = reference.shape, candidate.shape
    if a == b and reference.axes == candidate.axes:
        return "same_header", (), ""
    order = permutation_by_axes(reference, candidate)
    if order is not None:
        return "permuted", order, f"suspected: the formats keep it as {reference.axes} and {candidate.axes}"
    if a == b:
        return "same_header", (), ""
    if (order := next(fitting_orders(a, b), None)) is not None:
        return "permuted", order, "suspected from the shapes"
    if prod(a) == prod(b):
        return "reshaped", (), "suspected from the number of elements"
    if (axis := padded_axis(a, b)) is not None:
        return "padded", (), f"suspected: {a[axis]:,} against {b[axis]:,} along axis {axis}"
    return "different", (), "the shapes differ"


def permutation_by_axes(reference: Entry, candidate: Entry) -> tuple[int, ...] | None:
    """Return the order of axes by their known names; None where a side has none, or they are in one order."""
    ours, theirs = reference.axes, candidate.axes
    if not ours or not theirs or ours == theirs or sorted(ours) != sorted(theirs) or len(set(ours)) < len(ours):
        return None
    if len(ours) != len(reference.shape) or len(theirs) != len(candidate.shape):
        return None
    order = tuple(ours.index(axis) for axis in theirs)
    return order if tuple(reference.shape[axis] for axis in order) == candidate.shape else None


def fitting_orders(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the orders of axes that turn one shape into another, conventions first; the order as it is left out."""
    if not 2 <= len(a) <= _MOST_AXES or sorted(a) != sorted(b):
        return
    as_it_is = tuple(range(len(a)))
    yield from (order for order in CONVENTIONS if _fits(order, a, b))
    for order in permutations(as_it_is):
        if order != as_it_is and order not in CONVENTIONS and _fits(order, a, b):
            yield order


def _fits(order: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(order) == len(a) and tuple(a[axis] for axis in order) == b


def padded_axis(a: tuple[int, ...], b: tuple[int, ...]) -> int | None:
    """Return the axis along which one side was filled up: all others are equal, and the longer is a round number."""
    if len(a) != len(b):
        return None
    axes = [axis for axis, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(axes) != 1:
        return None
    short, long = sorted((a[axes[0]], b[axes[0]]))
    is_round = long % _PADDED_BY[0] == 0 and long - short <= max(_PADDED_BY[1], short // 8)
    return axes[0] if short and is_round else None
