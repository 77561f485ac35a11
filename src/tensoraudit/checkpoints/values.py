"""The values of one tensor of a checkpoint, wherever its pieces lie: whole, or block by block in bounded memory.

A block is a run of elements in C order and at the same time a box of the tensor: one index on the leading axes, a range
on one axis, everything on the rest. That is why its share of any piece in C order is one run of bytes too, however the
tensor was cut over shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np

from tensoraudit.checkpoints.element_types import Array, ElementType, element_type
from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint
from tensoraudit.checkpoints.stored_parts import Buffers, PartFiles, UnreadableValues

__all__ = ["UnreadableValues", "blocks", "read_entry", "read_words", "word_blocks"]

MOST: Final = 8 << 20
"""Bytes of a block of words, unless the caller says otherwise."""
_MOST_AXES: Final = 32
_LARGEST: Final = (1 << 62) - 1
_REPEATED: Final = 1 << 30
"""Bytes that a tensor with strides of 0 may grow to: more would be a bomb of a few stored bytes."""


class Box(NamedTuple):
    """A block: where it starts in the tensor and how long it is on each axis."""

    start: tuple[int, ...]
    shape: tuple[int, ...]


def read_entry(stored: StoredCheckpoint, entry: Entry) -> Array:
    """Return a tensor's values, whole and in C order: numpy's dtype where it has it, else exact in float32.

    Raises UnreadableValues where a piece is missing, cut short, packed in a way that is not read here, or where the
    pieces do not cover the tensor.
    """
    words = read_words(stored, entry)
    return type_of(entry).widen(words)


def read_words(stored: StoredCheckpoint, entry: Entry) -> Array:
    """Return a tensor's words in its shape; raises like `read_entry`."""
    dtype = type_of(entry)
    _check(entry, dtype)
    size = dtype.held_bytes(entry.numel)
    try:
        if is_plain(entry):
            whole = next(word_blocks(stored, entry, most=max(1, size)), np.empty(0, dtype.word))
        else:
            # Pages of it are taken as they are filled: a shape that no bytes stand behind takes none.
            whole = np.empty(entry.numel, dtype.word)
            filled = 0
            for words in word_blocks(stored, entry):
                whole[filled : filled + words.size] = words
                filled += words.size
    except MemoryError as error:
        raise UnreadableValues(f"there is no memory for its {size:,} bytes") from error
    return whole.reshape(entry.shape)


def blocks(stored: StoredCheckpoint, entry: Entry, most: int = MOST) -> Iterator[Array]:
    """Yield a tensor's values in C order, as one-dimensional arrays made of at most `most` bytes of words each."""
    return map(type_of(entry).widen, word_blocks(stored, entry, most))


def word_blocks(
    stored: StoredCheckpoint, entry: Entry, most: int = MOST, buffers: Buffers | None = None
) -> Iterator[Array]:
    """Yield a tensor's words, one for each element, in C order, at most `most` bytes at a time.

    With `buffers` a block is overwritten some blocks later.
    """
    dtype = type_of(entry)
    _check(entry, dtype)
    if not entry.numel:
        return
    with PartFiles(stored.root, buffers) as files:
        source = _Whole(entry, dtype, files) if is_plain(entry) else _Pieces(entry, dtype, files)
        yield from source.blocks(max(1, most // dtype.word.itemsize))


def type_of(entry: Entry) -> ElementType:
    """Return how the entry's elements are stored; raises UnreadableValues for what holds no numbers."""
    packed = len(entry.parts) == 1 and entry.numel > 1 and 2 * entry.parts[0].bytes <= entry.numel + 1
    dtype = element_type(entry.dtype, packed=packed)
    if dtype is None:
        raise UnreadableValues(f"elements of type {entry.dtype} are no numbers that are read here")
    return dtype


def boxes(shape: Sequence[int], most: int) -> Iterator[Box]:
    """Cut a tensor into blocks of at most `most` elements, in C order."""
    rank = len(shape)
    if prod(shape) <= most:
        yield Box((0,) * rank, tuple(shape))
        return
    axis = next(axis for axis in range(rank) if prod(shape[axis + 1 :]) <= most)
    step = most // prod(shape[axis + 1 :])
    rest = rank - axis - 1
    for index in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], step):
            length = min(step, shape[axis] - start)
            yield Box((*index, start, *(0,) * rest), (*(1,) * axis, length, *shape[axis + 1 :]))


def _check(entry: Entry, dtype: ElementType) -> None:
    """Refuse numbers that are no sizes, a tensor that a few stored bytes blow up, and one without any bytes."""
    for part in entry.parts:
        numbers = (part.offset or 0, part.bytes, *part.start, *part.shape)
        if min(numbers) < 0 or max(numbers) > _LARGEST:
            raise UnreadableValues(f"its place in {part.file} is no place: {numbers}")
    size, held = dtype.stored_bytes(entry.numel), sum(part.bytes for part in entry.parts)
    # Numpy multiplies the axes that are not empty, whatever stands beside them.
    if (
        len(entry.shape) > _MOST_AXES
        or min(entry.shape, default=0) < 0
        or prod(max(1, axis) for axis in entry.shape) > _LARGEST >> 5
    ):
        raise UnreadableValues(f"its shape {list(entry.shape)} is no shape")
    if entry.numel and not entry.parts:
        raise UnreadableValues("no file holds its bytes")
    if size > held and size > _REPEATED and any(part.stride for part in entry.parts):
        raise UnreadableValues(f"its strides repeat {held:,} stored bytes to {size:,}")


def is_in_one_piece(entry: Entry) -> bool:
    """Tell whether one run of a file holds the whole tensor, in whatever order of elements."""
    return len(entry.parts) == 1 and (
        not entry.parts[0].shape or (entry.parts[0].shape == entry.shape and not any(entry.parts[0].start))
    )


def is_plain(entry: Entry) -> bool:
    """Tell whether the whole tensor stands in one run of bytes in C order."""
    stride = entry.parts[0].stride if entry.parts else ()
    return is_in_one_piece(entry) and (not stride or stride == c_strides(entry.shape))


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of C order, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


class _Whole:
    """A tensor that is one run of bytes."""

    def __init__(self, entry: Entry, dtype: ElementType, files: PartFiles) -> None:
        self._part, self._count, self._dtype, self._files = entry.parts[0], entry.numel, dtype, files

    def blocks(self, most: int) -> Iterator[Array]:
        for first in range(0, self._count, most):
            yield self._files.words(self._part, self._dtype, first, min(most, self._count - first))


class _Pieces:
    """A tensor put together of pieces, each a box of it or a run of its elements in C order."""

    def __init__(self, entry: Entry, dtype: ElementType, files: PartFiles) -> None:
        self._shape, self._dtype, self._files = entry.shape, dtype, files
        # A piece that several ranks hold is read once.
        parts = list({(part.start, part.shape, part.stride): part for part in entry.parts}.values())
        rank = len(entry.shape)
        self._runs = [part for part in parts if len(part.shape) == 1 and rank != 1]
        self._parts = [part for part in parts if not (len(part.shape) == 1 and rank != 1)]
        for part in self._parts:
            if {len(part.shape or entry.shape), len(part.start or entry.shape)} != {rank}:
                raise UnreadableValues(f"a piece in {part.file} has other axes than the tensor of rank {rank}")
        places = [(part.start or (0,) * rank, part.shape or entry.shape) for part in self._parts]
        self._low = np.array([start for start, _ in places], np.int64).reshape(len(places), rank)
        self._high = self._low + np.array([shape for _, shape in places], np.int64).reshape(len(places), rank)

    def blocks(self, most: int) -> Iterator[Array]:
        for box in boxes(self._shape, most):
            out = np.empty(box.shape, self._dtype.word)
            covered = np.zeros(box.shape, bool)
            self._add_boxes(box, out, covered)
            self._add_runs(box, out.reshape(-1), covered.reshape(-1))
            if not covered.all():
                missing = covered.size - int(np.count_nonzero(covered))
                raise UnreadableValues(
                    f"its pieces leave {missing:,} elements from index {list(box.start)} on uncovered"
                )
            yield out.reshape(-1)

    def _add_boxes(self, box: Box, out: Array, covered: Array) -> None:
        low = np.maximum(self._low, box.start)
        high = np.minimum(self._high, np.add(box.start, box.shape))
        for number in np.flatnonzero((low < high).all(axis=1)):
            begin, end = low[number], high[number]
            place = tuple(slice(a, b) for a, b in zip(begin - box.start, end - box.start, strict=True))
            own = tuple(int(n) for n in begin - self._low[number])
            shape = tuple(int(n) for n in end - begin)
            out[place] = self._of_part(self._parts[number], own, shape)
            covered[place] = True

    def _of_part(self, part: Part, start: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        """A box of a piece; where the piece is in C order, a run of its bytes."""
        whole = part.shape or self._shape
        strides = c_strides(whole)
        if part.stride and part.stride != strides:
            view = self._files.strided(part, self._dtype, whole)
            return view[tuple(slice(a, a + n) for a, n in zip(start, shape, strict=True))]
        first = sum(a * step for a, step in zip(start, strides, strict=True))
        return self._files.words(part, self._dtype, first, prod(shape)).reshape(shape)

    def _add_runs(self, box: Box, out: Array, covered: Array) -> None:
        begin = sum(a * step for a, step in zip(box.start, c_strides(self._shape), strict=True))
        for part in self._runs:
            first, count = part.start[0] if part.start else 0, part.shape[0]
            low, high = max(first, begin), min(first + count, begin + out.size)
            if low < high:
                out[low - begin : high - begin] = self._files.words(part, self._dtype, low - first, high - low)
                covered[low - begin : high - begin] = True
