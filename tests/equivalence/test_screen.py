import numpy as np
import pytest

from tensoraudit.equivalence.screen import surely_agrees

VALUES = np.array([1.0, -8.0, 0.5], np.float32)


def test_one_rounding_of_the_largest_value_is_noise():
    assert surely_agrees(VALUES, VALUES + np.array([0.0, 8 * 2.0**-23, 0.0], np.float32))


def test_three_roundings_are_looked_at_closer():
    assert not surely_agrees(VALUES, VALUES + np.array([0.0, 3 * 8 * 2.0**-23, 0.0], np.float32))


@pytest.mark.parametrize(
    "other", [VALUES.reshape(3, 1), VALUES.astype(np.float64), np.array([1.0, np.nan, 0.5], np.float32)]
)
def test_another_shape_dtype_or_a_nan_is_looked_at_closer(other):
    assert not surely_agrees(VALUES, other)


def test_integers_must_be_equal():
    assert surely_agrees(np.array([2**24 + 1]), np.array([2**24 + 1]))
    assert not surely_agrees(np.array([2**24 + 1]), np.array([2**24]))
