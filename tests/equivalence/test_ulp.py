from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.equivalence.ulp import UlpKeys

WIDTHS = {np.float16: 2, np.float32: 4, np.float64: 8}


def _distance(dtype: type, x: float, y: float) -> int:
    return int(UlpKeys(WIDTHS[dtype]).distances(np.array([x], dtype), np.array([y], dtype))[0])


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 40), st.booleans())
def test_a_double_that_is_n_steps_away_is_n_ulps_away(start: float, steps: int, up: bool) -> None:
    target = start
    for _ in range(steps):
        target = math.nextafter(target, math.inf if up else -math.inf)
    if math.isfinite(target):
        assert _distance(np.float64, start, target) == steps


def _all_halfs() -> np.ndarray:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return np.unique(values[np.isfinite(values)])  # sorted, and +0 == -0 is kept once


def test_every_finite_half_is_one_ulp_from_the_next() -> None:
    values = _all_halfs()
    keys = UlpKeys(2)
    for start in range(0, values.size - 1, 4096):
        below, above = values[start : start + 4096], values[start + 1 : start + 4097]
        assert (keys.distances(below[: above.size], above) == 1).all()


def test_the_distance_across_the_whole_range_of_halfs_counts_every_value_between() -> None:
    values = _all_halfs()
    assert _distance(np.float16, float(values[0]), float(values[-1])) == values.size - 1


@pytest.mark.parametrize("dtype", WIDTHS)
def test_the_two_zeros_are_the_same_and_neighbours_across_zero_are_two_apart(dtype: type) -> None:
    tiny = float(np.finfo(dtype).smallest_subnormal)
    assert _distance(dtype, 0.0, -0.0) == 0
    assert _distance(dtype, tiny, -tiny) == 2


@pytest.mark.parametrize("dtype", WIDTHS)
def test_the_widest_distance_does_not_overflow(dtype: type) -> None:
    top = float(np.finfo(dtype).max)
    one_side = int(np.array([top], dtype).view(f"u{WIDTHS[dtype]}")[0])  # the bits count the floats above zero
    assert _distance(dtype, top, -top) == 2 * one_side


@given(st.lists(st.tuples(*(st.floats(width=32, allow_nan=False, allow_infinity=False),) * 2), min_size=1))
def test_compare_agrees_with_python_integers(pairs: list[tuple[float, float]]) -> None:
    x, y = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    same, differing, largest = UlpKeys(4).compare(x, y)
    gaps = [abs(_key(a) - _key(b)) for a, b in zip(x, y, strict=True)]
    assert same == (x.tobytes() == y.tobytes())
    assert differing == sum(1 for gap in gaps if gap)
    assert largest == max(gaps)


def _key(value: np.float32) -> int:
    bits = int(np.abs(value).view(np.uint32))
    return -bits if np.signbit(value) else bits
