"""Holes and overlaps against a mask of every element; flat ranges against numpy's own order."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.checkpoints.schema import Entry, Part
from tensoraudit.checkpoints.tiling import Box, boxes_of_range, cover, tiles


def entry(shape: tuple[int, ...], *boxes: Box) -> Entry:
    parts = tuple(Part("f", 0, 4 * prod(size), start, size, rank=at) for at, (start, size) in enumerate(boxes))
    return Entry("w", "float32", shape, parts)


def hole(elements: int, *first: int) -> tuple[str, object]:
    return "tensor_hole", {"elements": elements, "first": list(first)}


@st.composite
def shapes_with_boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Box]]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    boxes = []
    for _ in range(draw(st.integers(0, 5))):
        start = tuple(draw(st.integers(0, size - 1)) for size in shape)
        boxes.append((start, tuple(draw(st.integers(1, size - at)) for size, at in zip(shape, start, strict=True))))
    return shape, boxes


@settings(max_examples=300, deadline=2_000)
@given(shapes_with_boxes())
def test_every_element_is_counted(drawn: tuple[tuple[int, ...], list[Box]]) -> None:
    shape, boxes = drawn
    counts = np.zeros(shape, int)
    for start, size in set(boxes):
        counts[tuple(slice(at, at + length) for at, length in zip(start, size, strict=True))] += 1
    found = cover(shape, boxes)
    assert (found.hole, found.outside) == (int((counts == 0).sum()), 0)
    if max(counts.max(initial=0), 1) <= 2:
        assert found.overlap == int((counts > 1).sum())
    assert (found.overlap > 0) == bool((counts > 1).any())
    if found.hole:
        assert counts[found.first_hole] == 0


@settings(max_examples=300, deadline=2_000)
@given(st.lists(st.integers(1, 5), max_size=4), st.data())
def test_a_flat_range_is_its_boxes(sizes: list[int], data: st.DataObject) -> None:
    shape = tuple(sizes)
    first = data.draw(st.integers(0, prod(shape)))
    count = data.draw(st.integers(0, prod(shape) - first))
    numbers = np.arange(prod(shape)).reshape(shape)
    found: list[int] = []
    boxes = list(boxes_of_range(shape, first, count))
    for (start, size), before in boxes:
        assert before == len(found)
        piece = numbers[tuple(slice(at, at + length) for at, length in zip(start, size, strict=True))]
        found += piece.reshape(-1).tolist()
    assert found == list(range(first, first + count))
    assert len(boxes) <= 2 * max(1, len(shape)) + 1


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (entry((4, 6)), []),
        (entry((4, 6), ((), ())), []),
        (entry((4, 6), ((0, 0), (2, 6)), ((2, 0), (2, 6))), []),
        (entry((4, 6), ((0, 0), (2, 6)), ((2, 0), (2, 6)), ((2, 0), (2, 6))), []),
        (entry((4, 6), ((0, 0), (1, 6)), ((2, 0), (2, 6))), [hole(6, 1, 0)]),
        (entry((4, 6), ((0, 0), (2, 6))), [hole(12, 2, 0)]),
        (entry((4, 6), ((0, 0), (3, 6)), ((2, 0), (2, 6))), [("tensor_overlap", 6)]),
        (entry((4, 6), ((0, 0), (4, 3)), ((0, 3), (4, 4))), [("part_outside", 16), hole(12, 0, 3)]),
        (entry((4, 6), ((0, 0), (4, 3)), ((0,), (4,))), [("part_outside", 4), hole(12, 0, 3)]),
        (entry((4, 4), ((0, 0), (2, 2)), ((0, 2), (2, 2)), ((2, 0), (2, 2))), [hole(4, 2, 2)]),
        (entry((0, 6), ((0, 0), (0, 6))), []),
        (entry((), ((), ()), ((), ())), []),
    ],
)  # fmt: skip
def test_what_is_said(found: Entry, kinds: list[tuple[str, object]]) -> None:
    assert [(each.kind, each.value) for each in tiles([found])] == kinds


def test_too_many_borders_are_only_counted() -> None:
    boxes = [((at, at), (1, 1)) for at in range(2_000)]
    assert cover((2_000, 2_000), boxes).hole == 2_000 * 2_000 - 2_000


def test_sizes_beyond_any_memory() -> None:
    shape = (1 << 40, 1 << 20)
    half = 1 << 39
    assert cover(shape, [((0, 0), (half, 1 << 20)), ((half, 0), (half, 1 << 20))]).hole == 0
    assert cover(shape, [((0, 0), (half, 1 << 19)), ((half, 1 << 19), (half, 1 << 19))]).hole == 1 << 59
