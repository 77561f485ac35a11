"""Prints of tensors against numpy's own sums, whatever the order of elements and the size of blocks."""

import numpy as np
import pytest

from tensoraudit.checkpoints.fingerprints import print_of, print_of_blocks
from tensoraudit.probes.fingerprint import fingerprint


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "bool"])
def test_prints_are_those_of_the_workers(store, dtype):
    array = (np.random.default_rng(1).standard_normal((501, 333)) * 10).astype(dtype)
    stored = store("a", {"w": array})
    found, expected = print_of(stored, stored.entries[0]), fingerprint(array)
    assert (found.count, found.finite) == (expected["count"], expected["finite"])
    for own, theirs in (("total", "sum"), ("squares", "squares"), ("low", "min"), ("high", "max")):
        assert getattr(found, own) == pytest.approx(expected[theirs], rel=1e-12, abs=1e-9)


def test_nan_and_infinity_are_left_out():
    found = print_of_blocks([np.array([1, np.nan, 3]), np.array([np.inf]), np.array([np.nan])])
    assert (found.count, found.finite, found.total, found.squares, found.low, found.high) == (5, 2, 4.0, 10.0, 1.0, 3.0)


def test_complex_numbers_count_twice():
    found = print_of_blocks([np.array([1 + 2j])])
    assert (found.count, found.total, found.low, found.high) == (2, 3.0, 1.0, 2.0)


def test_nothing_has_no_print():
    assert print_of_blocks([]).is_constant
