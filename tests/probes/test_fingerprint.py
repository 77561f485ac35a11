"""What a tensor looks like whatever the order of its values."""

import numpy as np
import pytest

from tensoraudit.probes.fingerprint import BLOCK, fingerprint


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
def test_statistics_are_those_of_numpy_in_double_precision(size):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    wide = x.astype(np.float64)
    made = fingerprint(x)
    assert (made["count"], made["finite"], made["min"], made["max"]) == (size, size, wide.min(), wide.max())
    assert made["sum"] == pytest.approx(wide.sum(), abs=1e-9)
    assert made["squares"] == pytest.approx((wide**2).sum(), rel=1e-12)


def test_neither_the_order_of_axes_nor_the_shape_matters():
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    made = fingerprint(x)
    for other in (x.transpose(0, 3, 1, 2), np.ascontiguousarray(x.transpose(0, 3, 1, 2)), x.reshape(2, -1)):
        assert fingerprint(other) == pytest.approx(made, rel=1e-12)


def test_what_is_not_finite_is_counted_and_left_out():
    made = fingerprint(np.float32([1, np.nan, -2, np.inf, -np.inf]))
    assert made == {"count": 5, "finite": 2, "sum": -1.0, "squares": 5.0, "min": -2.0, "max": 1.0}


def test_integers_bools_and_complex_numbers():
    assert fingerprint(np.array([[1, 2], [3, 4]]))["squares"] == 30
    assert fingerprint(np.array([True, False, True]))["sum"] == 2
    assert fingerprint(np.array([1 + 2j, 3 - 4j]))["squares"] == 30


def test_no_numbers_have_no_fingerprint():
    assert fingerprint(np.array(["a", "b"])) is None


def test_everything_is_plain_json_even_for_huge_and_for_no_numbers():
    for array in (np.array([1e300, 1e300]), np.float32([np.nan]), np.zeros(0, np.float32)):
        assert all(np.isfinite(value) for value in fingerprint(array).values())
