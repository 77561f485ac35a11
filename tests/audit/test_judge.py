"""What is said beside the verdicts."""

import numpy as np
import pytest

from tensoraudit.audit.judge import constant_outputs

TENTH = np.full((2, 10), 0.1, np.float32)


def test_an_output_that_nothing_moves_is_named():
    (note,) = constant_outputs([{"y": TENTH, "z": TENTH + np.arange(10)}, {"y": TENTH[:1], "z": TENTH}])
    assert note.startswith("output y is 0.1 in every element for every input set")


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [{"y": TENTH}],
        [{"y": TENTH}, {"y": TENTH * 2}],
        [{"y": TENTH.astype(int)}, {"y": TENTH.astype(int)}],
        [{"y": np.float32([1])}, {"y": np.float32([1])}],
        [{"y": np.full(3, np.nan)}, {"y": np.full(3, np.nan)}],
        [{"y": np.zeros((0, 3))}, {"y": np.zeros((0, 3))}],
    ],
    ids=["none", "one set", "moved", "whole numbers", "one number each", "nan", "empty"],
)
def test_others_are_not(runs):
    assert list(constant_outputs(runs)) == []
