"""Casts, counted: against what torch and plain arithmetic say."""

import math

import numpy as np
import pytest
import torch

from tensoraudit.checkpoints.casting import cast


def test_a_cast_that_loses_nothing_says_so():
    values = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan], np.float32)
    given, loss = cast(values, "float16")
    assert given.dtype == np.float16
    np.testing.assert_array_equal(given, values.astype(np.float16))
    assert (loss.elements, loss.changed, loss.to_inf, loss.to_zero, loss.to_nan, loss.linf) == (7, 0, 0, 0, 0, 0.0)


def test_each_kind_of_loss_is_counted_by_itself():
    values = np.array([70000.0, -70000.0, 1e-9, 1.0, 1.0 + 2**-12, np.nan], np.float32)
    given, loss = cast(values, "float16")
    assert given.tolist()[:5] == [math.inf, -math.inf, 0.0, 1.0, 1.0]
    assert (loss.changed, loss.to_inf, loss.to_zero, loss.to_nan) == (4, 2, 1, 0)
    assert loss.linf == 2**-12


@pytest.mark.parametrize(
    ("values", "dtype", "changed", "linf"),
    [
        (np.array([1.0, 2.5, -3.0]), "int32", 1, 0.5),
        (np.array([300, -1, 7], np.int64), "uint8", 2, 256.0),
        (np.array([2**53, 2**53 + 1], np.int64), "float64", 1, 1.0),
        (np.array([2**63 - 1, 2**62], np.int64), "float64", 1, 1.0),
        (np.array([2**64 - 1], np.uint64), "float64", 1, 1.0),
        (np.array([2**24 + 1, 5], np.int64), "float32", 1, 1.0),
        (np.array([1 + 2j, 3 + 0j], np.complex64), "float32", 1, 2.0),
        (np.array([3 + 4j, 1 + 0j]), "complex64", 0, 0.0),
        (np.array([2.0, 3.0], np.float32), "complex64", 0, 0.0),
        (np.array([0.0, 0.5, 1.0], np.float32), "bool", 1, 0.5),
        (np.array([True, False]), "float32", 0, 0.0),
        (np.zeros((0, 4), np.float32), "float16", 0, 0.0),
    ],
)
def test_values_that_are_others_afterwards_are_changed(values, dtype, changed, linf):
    given, loss = cast(values, dtype)
    assert given.shape == values.shape
    assert (loss.elements, loss.changed, loss.linf) == (values.size, changed, linf)


def test_bfloat16_is_rounded_as_torch_rounds_it():
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    expected = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
    given, loss = cast(values, "bfloat16")
    np.testing.assert_array_equal(given, expected)
    assert loss.changed == int((expected != values).sum()) > 99_000
    assert loss.linf == float(np.abs(expected.astype(np.float64) - values).max())


def test_pieces_add_up():
    """More elements than are compared at a time, with the largest loss in the last piece."""
    values = np.zeros(600_001, np.float32)
    values[::2] = 1 + 2**-12
    values[-1] = 1e6
    given, loss = cast(values, "float16")
    assert (loss.elements, loss.changed, loss.to_inf, loss.linf) == (600_001, 300_001, 1, 2**-12)
    assert (given[0], given[-1]) == (1.0, np.inf)
