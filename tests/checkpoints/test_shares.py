"""Blocks looked at by two threads, against one tally of all of them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tensoraudit.checkpoints.element_types import element_type, narrow
from tensoraudit.checkpoints.shares import ROWS, Shares
from tensoraudit.checkpoints.verdicts import Tally
from tensoraudit.checkpoints.workspace import STEP, Workspace

TYPES = element_type("float32"), element_type("bfloat16")


def taken_in(blocks, words):
    with ThreadPoolExecutor(1) as thread:
        shares = Shares(thread, TYPES, (Workspace(ROWS), Workspace(ROWS)))
        for one, other in zip(blocks, words, strict=True):
            shares.add(one, other)
        return shares.finish()


@pytest.mark.parametrize("wrong", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("size", [5, STEP, 2 * STEP + 3])
def test_every_block_counts(size, wrong):
    blocks = [np.random.default_rng(n).standard_normal(size).astype(np.float32) for n in range(4)]
    words = [narrow(block, "bfloat16") for block in blocks]
    if wrong is not None:
        words[wrong][-1] ^= 1
    found = taken_in(blocks, words)
    assert found.is_cast is (wrong is None) and found.is_known
    whole = Tally(("float32", "bfloat16"), loss=True)
    whole.add(np.concatenate(blocks), TYPES[1].widen(np.concatenate(words)))
    assert found.tally.distance() == whole.distance()
    assert found.tally.loss == whole.loss


def test_a_block_is_done_before_the_third_after_it_is_there():
    """The memory of a block is used again then, also where small blocks come between."""
    rows = [np.empty(STEP, np.float32) for _ in range(3)]
    words = [np.empty(STEP, np.uint16) for _ in range(3)]
    with ThreadPoolExecutor(1) as thread:
        shares = Shares(thread, TYPES, (Workspace(ROWS), Workspace(ROWS)))
        for number in range(40):
            size = STEP if number % 4 == 1 else 10
            row, word = rows[number % 3][:size], words[number % 3][:size]
            row[:] = number + 1
            word[:] = narrow(row, "bfloat16")
            shares.add(row, word)
        found = shares.finish()
    assert found.is_cast and found.tally.distance().largest == 40.0


def test_what_goes_wrong_beside_it_is_raised():
    with ThreadPoolExecutor(1) as thread:
        shares = Shares(thread, TYPES, (Workspace(ROWS), Workspace(ROWS)))
        fine = np.ones(STEP, np.float32), np.ones(STEP, np.uint16)
        shares.add(*fine)
        shares.add(fine[0], np.ones(STEP - 1, np.uint16))
        with pytest.raises(ValueError, match="broadcast"):
            shares.finish()
