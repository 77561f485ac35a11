"""SHA-256 of a tensor's canonical bytes: C order, little endian, its own dtype, in a stated layout.

Two checkpoints that keep one tensor in two layouts, shards or byte orders give it one digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.values import word_blocks
from tensoraudit.checkpoints.views import in_layout

_ALONE: Final = 1 << 16
"""Bytes below which a thread costs more than it saves."""


def digest_entry(stored: StoredCheckpoint, entry: Entry, permutation: Sequence[int] = ()) -> str:
    """Return the digest of a tensor, of `tensor.transpose(permutation)` where one is given.

    Raises UnreadableValues.
    """
    pieces: Iterable[Array] = in_layout(stored, entry, permutation) if permutation else word_blocks(stored, entry)
    found = hashlib.sha256()
    for words in pieces:
        found.update(canonical(words).data)
    return found.hexdigest()


def canonical(words: Array) -> Array:
    """Words as little-endian bytes in C order."""
    little = words.dtype.newbyteorder("<")
    return np.ascontiguousarray(words, dtype=little).reshape(-1).view(np.uint8)


def same_bytes(a: Array, b: Array) -> bool:
    """Tell whether two runs of bytes are equal. (Eight at a time; comparing memoryviews goes byte by byte.)"""
    if a.size != b.size:
        return False
    whole = a.size - a.size % 8
    heads = a[:whole].view(np.uint64), b[:whole].view(np.uint64)
    return np.array_equal(*heads) and np.array_equal(a[whole:], b[whole:])


class PairDigests:
    """Digests of two tensors that pass by block after block; while they are equal they are hashed once.

    Hashing of one block goes on while the caller reads or compares the next: SHA-256 takes longer than all the rest.
    """

    def __init__(self, threads: ThreadPoolExecutor, *, may_be_equal: bool = True) -> None:
        self._threads = threads
        self._hashes = hashlib.sha256(), hashlib.sha256()
        self._running: list[Future[None]] = []
        self.equal = may_be_equal

    def add(self, reference: Array, candidate: Array) -> None:
        """Take in one block of words of each side."""
        a, b = canonical(reference), canonical(candidate)
        self._wait()
        if self.equal and not same_bytes(a, b):
            self.equal = False
            self._hashes = self._hashes[0], self._hashes[0].copy()
        pairs = zip(self._hashes, (a,) if self.equal else (a, b), strict=False)
        for state, piece in pairs:
            if piece.size < _ALONE:
                state.update(piece.data)
            else:
                self._running.append(self._threads.submit(state.update, piece.data))

    def finish(self) -> tuple[str, str]:
        """Return both digests."""
        self._wait()
        first = self._hashes[0].hexdigest()
        return first, first if self.equal else self._hashes[1].hexdigest()

    def _wait(self) -> None:
        for each in self._running:
            each.result()
        self._running.clear()
