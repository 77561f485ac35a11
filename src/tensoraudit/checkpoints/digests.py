"""SHA-256 of a tensor's canonical bytes: C order, little endian, its own dtype, in a stated layout.

Two checkpoints that keep one tensor in two layouts, shards or byte orders give it one digest.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.values import word_blocks
from tensoraudit.checkpoints.views import in_layout

Threads = tuple[ThreadPoolExecutor, ThreadPoolExecutor]
BEHIND: Final = 2
"""Blocks that are hashed while the next one is read."""
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

    Hashing goes on while the caller reads and compares the next blocks, because SHA-256 takes longer than all the rest.
    So the last `BEHIND` blocks that were added must stay as they are. `threads` are one for each side: what belongs to
    one digest must be hashed in order.
    """

    def __init__(self, threads: Threads, *, may_be_equal: bool = True) -> None:
        self._threads = threads
        self._hashes = hashlib.sha256(), hashlib.sha256()
        self._running: deque[list[Future[None]]] = deque()
        self.equal = may_be_equal

    def add(self, reference: Array, candidate: Array) -> None:
        """Take in one block of words of each side."""
        a, b = canonical(reference), canonical(candidate)
        if self.equal and not same_bytes(a, b):
            self._wait(0)
            self.equal = False
            self._hashes = self._hashes[0], self._hashes[0].copy()
        pieces = (a,) if self.equal else (a, b)
        if max(piece.size for piece in pieces) < _ALONE:
            self._wait(0)
            for state, piece in zip(self._hashes, pieces, strict=False):
                state.update(piece.data)
            return
        self._wait(BEHIND - 1)
        sides = zip(self._threads, self._hashes, pieces, strict=False)
        self._running.append([thread.submit(state.update, piece.data) for thread, state, piece in sides])

    def finish(self) -> tuple[str, str]:
        """Return both digests."""
        self._wait(0)
        first = self._hashes[0].hexdigest()
        return first, first if self.equal else self._hashes[1].hexdigest()

    def _wait(self, left: int) -> None:
        """Wait until no more than so many blocks are being hashed."""
        while len(self._running) > left:
            for each in self._running.popleft():
                each.result()
