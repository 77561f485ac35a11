"""A tensor as an array that is not read until it is looked at, and in another order of axes, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.stored_parts import PartFiles, UnreadableValues
from tensoraudit.checkpoints.values import boxes, c_strides, is_in_one_piece, read_words, type_of

HELD: Final = 512 << 20
"""Bytes of a tensor that is held in memory because its pieces lie apart."""
_STRIP: Final = 16
ELEMENTS: Final = 1 << 18
"""Elements of a block: small enough for a cache, large enough that calls do not count."""


def view_of(stored: StoredCheckpoint, entry: Entry) -> Array:
    """Return a tensor's words in its shape: mapped from the file where they lie there in one piece, else read.

    Raises UnreadableValues, also for a tensor in pieces that is larger than `HELD`.
    """
    dtype = type_of(entry)
    if is_in_one_piece(entry) and not entry.parts[0].codec and entry.numel and dtype.per_byte == 1:
        part = entry.parts[0]._replace(stride=entry.parts[0].stride or c_strides(entry.shape))
        with PartFiles(stored.root) as files:
            return files.strided(part, dtype, entry.shape)
    size = dtype.held_bytes(entry.numel)
    if size > HELD:
        raise UnreadableValues(f"it is too large ({size:,} bytes that do not lie in one piece) to be turned")
    return read_words(stored, entry)


def in_layout(stored: StoredCheckpoint, entry: Entry, order: Sequence[int]) -> Iterator[Array]:
    """Yield the words of `tensor.transpose(order)` in C order, as one-dimensional blocks."""
    yield from view_blocks(view_of(stored, entry).transpose(tuple(order)))


def view_blocks(view: Array) -> Iterator[Array]:
    """Yield an array of any layout in C order, as one-dimensional blocks of at most `ELEMENTS` elements."""
    for box in boxes(view.shape, ELEMENTS):
        piece = view[tuple(slice(start, start + size) for start, size in zip(box.start, box.shape, strict=True))]
        yield (piece if piece.flags.c_contiguous else _gathered(piece)).reshape(-1)


def _gathered(piece: Array) -> Array:
    """Copy a turned block in narrow strips, each of which a cache holds: three times as fast as one copy of numpy's."""
    made = np.empty(piece.shape, piece.dtype)
    # What lies together in the file must be read together, so the strips run across another axis, the longest one.
    nearest = min(range(piece.ndim), key=lambda axis: (piece.strides[axis], axis))
    axis = max((axis for axis in range(piece.ndim) if axis != nearest), key=lambda axis: piece.shape[axis], default=0)
    for start in range(0, piece.shape[axis], _STRIP):
        strip = (*(slice(None),) * axis, slice(start, start + _STRIP))
        made[strip] = piece[strip]
    return made


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Return the order of axes that undoes another."""
    return tuple(int(axis) for axis in np.argsort(order))


def aligned(first: Iterator[Array], second: Iterator[Array]) -> Iterator[tuple[Array, Array]]:
    """Yield two runs of blocks as blocks of equal length. Raises UnreadableValues where one ends before the other."""
    a = b = np.empty(0, np.uint8)
    while True:
        a = a if a.size else next(first, a)
        b = b if b.size else next(second, b)
        size = min(a.size, b.size)
        if not size:
            if a.size or b.size:
                raise UnreadableValues("the two sides have different numbers of elements")
            return
        yield a[:size], b[:size]
        a, b = a[size:], b[size:]
