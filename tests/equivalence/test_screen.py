import numpy as np
import pytest

from tensoraudit.equivalence.screen import SURE, surely_agrees
from tensoraudit.equivalence.tolerance import tolerance_for

VALUES = np.array([1.0, -8.0, 0.5], np.float32)


def test_one_rounding_of_the_largest_value_is_noise():
    assert surely_agrees(VALUES, VALUES + np.array([0.0, 8 * 2.0**-23, 0.0], np.float32))


def test_seven_roundings_are_looked_at_closer():
    assert not surely_agrees(VALUES, VALUES + np.array([0.0, 7 * 8 * 2.0**-23, 0.0], np.float32))


def test_what_is_sure_stays_within_the_calibrated_limits():
    """Six or one floors from the reference, and at most one more from the oracle."""
    for name, floors in SURE.items():
        assert floors + 1 <= tolerance_for(name, None).noise_limit


@pytest.mark.parametrize(
    "other", [VALUES.reshape(3, 1), VALUES.astype(np.float64), np.array([1.0, np.nan, 0.5], np.float32)]
)
def test_another_shape_dtype_or_a_nan_is_looked_at_closer(other):
    assert not surely_agrees(VALUES, other)


def test_integers_must_be_equal():
    assert surely_agrees(np.array([2**24 + 1]), np.array([2**24 + 1]))
    assert not surely_agrees(np.array([2**24 + 1]), np.array([2**24]))
