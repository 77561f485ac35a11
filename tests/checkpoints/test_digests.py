"""Digests against hashlib over numpy's own bytes, in every layout and cut."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tensoraudit.checkpoints.digests import PairDigests, digest_entry, same_bytes
from tensoraudit.checkpoints.schema import Entry, Part, StoredCheckpoint

ARRAY = np.random.default_rng(3).standard_normal((7, 5, 3)).astype(np.float32)


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


@pytest.mark.parametrize("order", [(), (0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_digest_of_a_layout(store, order):
    stored = store("a", {"w": ARRAY})
    assert digest_entry(stored, stored.entries[0], order) == sha(ARRAY.transpose(order) if order else ARRAY)


def test_shards_and_byte_order_do_not_count(tmp_path):
    pieces = [ARRAY[:, :2], ARRAY[:, 2:]]
    content = b"".join(np.ascontiguousarray(piece, ">f4").tobytes() for piece in pieces)
    (tmp_path / "f").write_bytes(content)
    parts = (Part("f", 0, 168, (0, 0, 0), (7, 2, 3)), Part("f", 168, 252, (0, 2, 0), (7, 3, 3)))
    stored = StoredCheckpoint(tmp_path / "f", tmp_path, "raw", "numpy", ("f",), ())
    entry = Entry("w", ">f4", ARRAY.shape, parts)
    assert digest_entry(stored, entry) == sha(ARRAY)
    assert digest_entry(stored, entry, (2, 1, 0)) == sha(ARRAY.T)


@pytest.mark.parametrize("differs_at", [None, 0, 1, 3])
@pytest.mark.parametrize("size", [10, 40_000])
def test_pairs_are_hashed_once_while_they_are_equal(size, differs_at):
    ours = [np.full(size, n, np.float32) for n in range(5)]
    theirs = [piece + (n == differs_at) for n, piece in enumerate(ours)]
    with ThreadPoolExecutor(1) as one_thread, ThreadPoolExecutor(1) as other_thread:
        digests = PairDigests((one_thread, other_thread))
        for one, other in zip(ours, theirs, strict=True):
            digests.add(one, other)
        assert digests.equal is (differs_at is None)
        assert digests.finish() == (sha(np.concatenate(ours)), sha(np.concatenate(theirs)))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 1001])
def test_same_bytes_sees_every_byte(size):
    one = np.arange(size, dtype=np.uint8)
    assert same_bytes(one, one.copy())
    assert not same_bytes(one, np.append(one, one[:1] if size else 1).astype(np.uint8))
    for place in range(0, size, 3):
        other = one.copy()
        other[place] ^= 1
        assert not same_bytes(one, other)
