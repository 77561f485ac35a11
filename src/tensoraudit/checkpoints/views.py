"""A tensor as an array that is not read until it is looked at, and in another order of axes, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.stored_parts import PartFiles, UnreadableValues
from tensoraudit.checkpoints.values import c_strides, is_in_one_piece, read_words, type_of
from tensoraudit.equivalence.blocks import blocks

HELD: Final = 512 << 20
"""Bytes of a tensor that is held in memory because its pieces lie apart."""
ELEMENTS: Final = 1 << 18
"""Elements of a block: small enough for a cache, large enough that calls do not count."""


def view_of(stored: StoredCheckpoint, entry: Entry) -> Array:
    """Return a tensor's words in its shape: mapped from the file where they lie there in one piece, else read.

    Raises UnreadableValues, also for a tensor in pieces that is larger than `HELD`.
    """
    dtype = type_of(entry)
    if dtype.per_byte > 1:
        raise UnreadableValues(f"elements of type {entry.dtype} share bytes")
    if is_in_one_piece(entry) and not entry.parts[0].codec and entry.numel:
        part = entry.parts[0]._replace(stride=entry.parts[0].stride or c_strides(entry.shape))
        with PartFiles(stored.root) as files:
            return files.strided(part, dtype, entry.shape)
    if dtype.stored_bytes(entry.numel) > HELD:
        raise UnreadableValues(f"it is too large ({dtype.stored_bytes(entry.numel):,} bytes in pieces) to be turned")
    return read_words(stored, entry)


def in_layout(stored: StoredCheckpoint, entry: Entry, order: Sequence[int]) -> Iterator[Array]:
    """Yield the words of `tensor.transpose(order)` in C order, as one-dimensional blocks."""
    turned = view_of(stored, entry).transpose(tuple(order))
    for _, (words,) in blocks(turned, size=ELEMENTS):
        yield words


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
