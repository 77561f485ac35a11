"""What a cast lost, in float32 and block by block, against float64 over the whole."""

import numpy as np
import pytest

from tensoraudit.checkpoints.verdicts import Tally
from tensoraudit.checkpoints.workspace import STEP

SIZE = 2 * STEP + 77


def weights(scale):
    values = np.random.default_rng(5).standard_normal(SIZE).astype(np.float32) * np.float32(scale)
    values[::1_000] = 0.0
    return values


@pytest.mark.parametrize("scale", [3e-9, 1e-4, 0.02, 1.0, 300.0])
@pytest.mark.parametrize("narrow_first", [False, True])
def test_loss_is_that_of_double_precision(scale, narrow_first):
    values = weights(scale)
    sides = values, values.astype(np.float16).astype(np.float32)
    a, b = sides[::-1] if narrow_first else sides
    tally = Tally(("float32", "float16"), loss=True)
    tally.add(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    kept = (x != 0) & (y != 0)
    assert tally.distance().linf == np.abs(x - y).max()  # what rounding takes off is exact in float32
    assert tally.distance().largest == np.abs(x).max()
    assert tally.loss.relative == pytest.approx((np.abs(x - y)[kept] / np.abs(x[kept])).max(initial=0.0), rel=2.0**-23)
    assert (tally.loss.to_zero, tally.loss.to_inf) == (np.count_nonzero((x != 0) & (y == 0)), 0)


def test_what_is_not_finite_is_counted_apart():
    a, b = np.full(STEP + 5, 2.0, np.float32), np.full(STEP + 5, 2.5, np.float32)
    a[:4], b[:4] = (np.nan, np.nan, 1e38, np.inf), (np.nan, 1.0, np.inf, np.inf)
    tally = Tally(("float32", "float16"), loss=True)
    tally.add(a, b)
    assert "2 of 131,077 values are NaN or infinite on one side only" in tally.distance().reason
    assert (tally.loss.to_inf, tally.loss.relative, tally.distance().linf) == (1, 0.25, 0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_two_tallies_together_are_one_of_all(dtype):
    generator = np.random.default_rng(6)
    a, b = (generator.integers(0, 9, 1_000).astype(dtype) for _ in range(2))
    if a.dtype.kind == "f":
        a[7], b[900] = np.nan, np.inf
    whole, one, other, none = (Tally((dtype, "x"), loss=True) for _ in range(4))
    whole.add(a, b)
    one.add(a[:500], b[:500])
    other.add(a[500:], b[500:])
    none.take(one)
    none.take(other)
    one.take(other)
    assert none.distance() == one.distance() == whole.distance()
    assert none.loss == one.loss == whole.loss
