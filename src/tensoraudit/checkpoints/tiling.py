"""Whether the parts of a tensor cover it: once, everywhere, and nothing else. Also flat ranges as boxes.

A part that begins and reaches like another is a replica of it (data parallelism over sharding) and no overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import prod
from typing import Final, NamedTuple

import numpy as np

from tensoraudit.checkpoints.schema import Entry, Observation, Part

_MOST_CELLS: Final = 1 << 20
"""Cells of the grid that the borders of all parts make; more are only counted, not placed."""
_MOST: Final = 1_000

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Start and shape, in elements."""


class Cover(NamedTuple):
    """How often the parts cover a tensor, in elements: never, more than once, and beyond its shape."""

    hole: int
    overlap: int
    outside: int
    first_hole: tuple[int, ...] = ()


def tiles(entries: Iterable[Entry]) -> Iterator[Observation]:
    """Yield an observation for each tensor whose parts leave a hole, lie over each other, or reach beyond it."""
    yield from islice((found for entry in entries if _has_pieces(entry) for found in _observe(entry)), _MOST)


def cover(shape: tuple[int, ...], boxes: Iterable[Box]) -> Cover:
    """Return how the boxes cover the shape; equal boxes count once."""
    unique = list(dict.fromkeys(boxes))
    inside = [box for box in unique if _fits(box, shape)]
    outside = sum(prod(size) for _, size in unique) - sum(prod(size) for _, size in inside)
    axes = [axis for axis, size in enumerate(shape) if any(box[1][axis] != size for box in inside)]
    if len(axes) > 1:
        return _cover_of_grid(shape, inside, axes, outside)
    return _cover_of_line(shape, inside, axes[0] if axes else 0, outside)


def boxes_of_range(shape: tuple[int, ...], first: int, count: int) -> Iterator[tuple[Box, int]]:
    """Cut elements `first` to `first + count` of a tensor, in C order, into boxes; at most two per axis and one.

    Yields each with the number of elements of the range that come before it.
    """
    if not shape:
        if count:
            yield ((), ()), 0
        return
    begin, last = first, first + count
    while begin < last:
        box = _largest_box(shape, begin, last)
        yield box, begin - first
        begin += prod(box[1])


def _largest_box(shape: tuple[int, ...], begin: int, last: int) -> Box:
    """The largest box of consecutive elements that starts at `begin` and ends by `last`."""
    start, rest = [], begin
    for axis in range(len(shape)):
        inner = prod(shape[axis + 1 :])
        start.append(rest // inner)
        rest %= inner
    for axis in range(len(shape)):
        inner = prod(shape[axis + 1 :])
        whole_inner = not any(start[axis + 1 :])
        if whole_inner and last - begin >= inner:
            rows = min(shape[axis] - start[axis], (last - begin) // inner)
            return tuple(start), (*(1,) * axis, rows, *shape[axis + 1 :])
    raise AssertionError("the last axis always fits one element")


def _has_pieces(entry: Entry) -> bool:
    return len(entry.parts) > 1 or (len(entry.parts) == 1 and entry.parts[0].start != ())


def _observe(entry: Entry) -> Iterator[Observation]:
    found = cover(entry.shape, (_box(part, entry.shape) for part in entry.parts))
    name, total = entry.full_name, entry.numel
    file = entry.parts[0].file
    if found.outside:
        message = f"Parts of {name} reach beyond its shape {list(entry.shape)}, with {found.outside:,} elements"
        yield Observation("part_outside", name, found.outside, message, file)
    if found.hole:
        place = f", the first at {list(found.first_hole)}" if found.first_hole else ""
        message = f"{found.hole:,} of {total:,} elements of {name} are in no part{place}"
        yield Observation("tensor_hole", name, {"elements": found.hole, "first": list(found.first_hole)}, message, file)
    if found.overlap:
        message = f"{found.overlap:,} of {total:,} elements of {name} are in more than one part"
        yield Observation("tensor_overlap", name, found.overlap, message, file)


def _box(part: Part, shape: tuple[int, ...]) -> Box:
    if not part.start and not part.shape:
        return (0,) * len(shape), shape
    return part.start, part.shape


def _fits(box: Box, shape: tuple[int, ...]) -> bool:
    start, size = box
    if not len(start) == len(size) == len(shape):
        return False
    return all(
        at >= 0 and length >= 0 and at + length <= whole for at, length, whole in zip(start, size, shape, strict=True)
    )


def _cover_of_line(shape: tuple[int, ...], boxes: list[Box], axis: int, outside: int) -> Cover:
    """Boxes that are cut along one axis only, or not at all: walked in the order of their starts."""
    if not shape:
        return Cover(0 if boxes else 1, 0, outside)
    slab = prod(shape[:axis] + shape[axis + 1 :])
    hole = overlap = reached = 0
    first: tuple[int, ...] = ()
    for start, length in sorted((box[0][axis], box[1][axis]) for box in boxes):
        if start > reached and not first:
            first = tuple(reached if each == axis else 0 for each in range(len(shape)))
        hole += max(0, start - reached)
        overlap += max(0, min(reached, start + length) - start)
        reached = max(reached, start + length)
    if reached < shape[axis] and not first:
        first = tuple(reached if each == axis else 0 for each in range(len(shape)))
    hole += shape[axis] - reached
    return Cover(hole * slab, overlap * slab, outside, first if hole * slab else ())


def _cover_of_grid(shape: tuple[int, ...], boxes: list[Box], axes: list[int], outside: int) -> Cover:
    """Boxes cut along several axes: counted on the grid of all their borders."""
    borders = [sorted({0, shape[axis], *(edge for box in boxes for edge in _edges(box, axis))}) for axis in axes]
    cells = [len(each) - 1 for each in borders]
    slab = prod(size for axis, size in enumerate(shape) if axis not in axes)
    if prod(cells) > _MOST_CELLS or prod(cells) * len(boxes) > _MOST_CELLS * 64:
        missing = prod(shape) - sum(prod(size) for _, size in boxes)
        return Cover(max(0, missing), max(0, -missing), outside)
    index = [{edge: at for at, edge in enumerate(each)} for each in borders]
    counts = np.zeros(cells, np.int32)
    for box in boxes:
        spans = (_edges(box, axis) for axis in axes)
        counts[tuple(slice(at[first], at[last]) for at, (first, last) in zip(index, spans, strict=True))] += 1
    volume = np.ones(cells, np.float64)
    for at, each in enumerate(borders):
        volume = volume * np.diff(np.array(each, np.float64)).reshape(
            [-1 if at == other else 1 for other in range(len(axes))]
        )
    holes = np.argwhere(counts == 0)
    first: tuple[int, ...] = ()
    if len(holes):
        place = dict(zip(axes, (each[at] for each, at in zip(borders, holes[0].tolist(), strict=True)), strict=True))
        first = tuple(place.get(axis, 0) for axis in range(len(shape)))
    hole, overlap = (int(volume[chosen].sum()) * slab for chosen in (counts == 0, counts > 1))
    return Cover(hole, overlap, outside, first)


def _edges(box: Box, axis: int) -> tuple[int, int]:
    return box[0][axis], box[0][axis] + box[1][axis]
