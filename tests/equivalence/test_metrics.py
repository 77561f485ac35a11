"""Every number against an independent calculation: Python integers, `decimal` or `nextafter`."""

from __future__ import annotations

import math
import sys
import tracemalloc
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensoraudit.equivalence.metrics import ABSOLUTE_FLOOR, Metrics, measure

FLOATS = ["float16", "float32", "float64"]


def _pair(dtype: str, **limits: bool) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    shape = st.shared(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), key="shape")
    width = 8 * np.dtype(dtype).itemsize
    one = arrays.arrays(dtype, shape, elements=st.floats(width=width, **limits))
    return st.tuples(one, one)


def _naive(a: np.ndarray, b: np.ndarray) -> dict[str, object]:
    """The same numbers, element by element, in 60 digits."""
    pairs = [(float(x), float(y)) for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]
    finite = [(Decimal(x), Decimal(y)) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 9999, -9999
        floor = Decimal(ABSOLUTE_FLOOR[a.dtype.name])
        gaps = [abs(x - y) for x, y in finite]
        count = len(finite)
        xx, yy = sum(x * x for x, _ in finite), sum(y * y for _, y in finite)
        xy = sum(x * y for x, y in finite)
        return {
            "compared": count,
            "linf": max(gaps, default=Decimal(0)),
            "mean_abs": sum(gaps) / count if count else None,
            "rmse": (sum(g * g for g in gaps) / count).sqrt() if count else None,
            "max_relative": max(
                (max(abs(x - y) - floor, Decimal(0)) / max(abs(x), floor) for x, y in finite), default=None
            ),
            "cosine": xy / (xx.sqrt() * yy.sqrt()) if xx and yy else (Decimal(1) if count and xx == yy else None),
            "reference_max": max((abs(x) for x, _ in finite), default=Decimal(0)),
            "differing": sum(1 for x, y in pairs if x != y and not (math.isnan(x) and math.isnan(y))),
            "nan_mismatches": sum(1 for x, y in pairs if math.isnan(x) != math.isnan(y)),
            "nan_both": sum(1 for x, y in pairs if math.isnan(x) and math.isnan(y)),
            "inf_both": sum(1 for x, y in pairs if math.isinf(x) and x == y),
            "inf_mismatches": sum(
                1
                for x, y in pairs
                if (math.isinf(x) or math.isinf(y)) and x != y and not math.isnan(x) and not math.isnan(y)
            ),
        }


TOP = Decimal(sys.float_info.max)
COUNTS = ("compared", "differing", "nan_mismatches", "nan_both", "inf_both", "inf_mismatches")


def _check(a: np.ndarray, b: np.ndarray) -> Metrics:
    found, expected = measure(a, b), _naive(a, b)
    for name in COUNTS:
        assert getattr(found, name) == expected[name], name
    for name in ("linf", "mean_abs", "rmse", "max_relative", "cosine", "reference_max"):
        value, exact = getattr(found, name), expected[name]
        if exact is None:
            assert value is None, name
        elif exact > TOP:
            assert math.isinf(value) or (value == TOP and exact < TOP * Decimal("1.0000000000000002")), name
        else:
            # Sums of doubles: a few roundings a term; and near the smallest double, its spacing.
            slack = Decimal("1e-11") if name == "cosine" else Decimal("1e-323")
            assert abs(Decimal(value) - exact) <= abs(exact) * Decimal("1e-12") + slack, name
    assert found.size == a.size
    return found


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_number_agrees_with_sixty_digits(dtype: str) -> None:
    @settings(max_examples=100)
    @given(_pair(dtype, allow_nan=True, allow_infinity=True))
    def check(pair: tuple[np.ndarray, np.ndarray]) -> None:
        _check(*pair)

    check()


@pytest.mark.parametrize("beside", [1e157, 6e161])
def test_a_number_beside_an_infinity_sets_no_scale(beside: float) -> None:
    a, b = np.full(15, 2.67261242e149), np.zeros(15)
    a[1], b[0], b[1] = np.inf, 1.0, beside
    _check(a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(3))
def test_numbers_hold_over_many_blocks(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((7, 31, 97)).astype(dtype)
    b = (a.astype(np.float64) * (1 + 1e-4 * rng.standard_normal(a.shape))).astype(dtype)
    b[3, 5, 7] = a[3, 5, 7] + 2
    found = _check(a, b)
    assert found.worst == (3, 5, 7)
    assert (found.worst_reference, found.worst_candidate) == (float(a[3, 5, 7]), float(b[3, 5, 7]))


def test_sparse_nonfinite_values_do_not_disturb_the_rest() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(20_011).astype(np.float32)
    b = a + np.float32(0.25)
    a[[5, 9000, 20_010]] = np.nan, np.inf, -np.inf
    b[[5, 9000, 15_000]] = np.nan, np.inf, np.nan
    found = _check(a, b)
    assert (found.nan_both, found.inf_both, found.nan_mismatches, found.inf_mismatches) == (1, 1, 1, 1)
    assert found.first_mismatch == (15_000,)


def test_the_worst_element_is_found_beside_nan() -> None:
    a = np.array([np.nan, 1.0, 2.0, np.nan, 3.0], np.float32)
    b = np.array([np.nan, 1.0, 2.5, np.nan, 3.1], np.float32)
    assert measure(a, b).worst == (2,)


@pytest.mark.parametrize("dtype", FLOATS)
def test_strided_arrays_measure_as_their_copies_do(dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((11, 6, 33)).astype(dtype).transpose(2, 0, 1)[:, ::2] for _ in range(2))
    assert not a.flags.c_contiguous
    strided, plain = measure(a, b), measure(np.ascontiguousarray(a), np.ascontiguousarray(b))
    for name in ("linf", "worst", "max_ulp", "max_relative", "differing", "reference_max"):
        assert getattr(strided, name) == getattr(plain, name)
    assert strided.rmse == pytest.approx(plain.rmse, rel=1e-14)


def test_identical_bits_see_the_sign_of_zero_and_the_payload_of_nan() -> None:
    zero = np.zeros(3, np.float32)
    assert measure(zero, zero.copy()).identical_bits
    found = measure(zero, -zero)
    assert not found.identical_bits
    assert (found.linf, found.differing, found.max_ulp) == (0.0, 0, 0)
    one, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32).reshape(2, 1)
    assert not measure(one, other).identical_bits
    assert measure(one, other).nan_both == 1


@pytest.mark.parametrize("steps", [1, 2, 1000])
def test_max_ulp_counts_steps_of_nextafter(steps: int) -> None:
    a = np.array([1.0, -2.5, 1e-20], np.float32)
    b = a.copy()
    for _ in range(steps):
        b[1] = np.nextafter(b[1], np.float32(np.inf))
    assert measure(a, b).max_ulp == steps


def test_a_zero_reference_within_the_floor_has_no_relative_error() -> None:
    found = measure(np.zeros(4, np.float32), np.full(4, 1e-7, np.float32))
    assert found.max_relative == 0.0


def test_max_relative_is_the_smallest_rtol_that_allclose_accepts() -> None:
    rng = np.random.default_rng(2)
    b = rng.standard_normal(100)
    a = b * (1 + 1e-3 * rng.standard_normal(100))
    rtol = measure(b, a).max_relative
    assert rtol is not None
    assert np.allclose(a, b, rtol=rtol * 1.001, atol=ABSOLUTE_FLOOR["float64"])
    assert not np.allclose(a, b, rtol=rtol * 0.999, atol=ABSOLUTE_FLOOR["float64"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_exact_over_their_whole_range(dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([0, low, high, 7], dtype)
    b = np.array([0, high, high, 6], dtype)
    found = measure(a, b)
    assert (found.linf, found.differing, found.worst) == (high - low, 2, (1,))
    assert (found.worst_reference, found.worst_candidate) == (low, high)


def test_small_integers_do_not_wrap_and_large_ones_keep_their_last_bit() -> None:
    assert measure(np.array([1], np.uint8), np.array([255], np.uint8)).linf == 254
    assert measure(np.array([2**24]), np.array([2**24 + 1])).linf == 1
    assert measure(np.array([2**62]), np.array([2**62 + 1])).differing == 1


@given(arrays.arrays("int64", 20), arrays.arrays("int64", 20))
def test_integer_numbers_agree_with_python_integers(a: np.ndarray, b: np.ndarray) -> None:
    gaps = [abs(x - y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    found = measure(a, b)
    assert (found.linf, found.differing) == (max(gaps), sum(1 for gap in gaps if gap))
    assert found.identical_bits == (a.tolist() == b.tolist())


def test_bools_count_what_differs() -> None:
    found = measure(np.array([True, False, True]), np.array([True, True, True]))
    assert (found.differing, found.linf, found.worst, found.worst_reference) == (1, 1, (1,), False)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros(3), np.zeros((3, 1))),
        (np.zeros(3), np.zeros(1)),
        (np.zeros(3, np.float32), np.zeros(3)),
        (np.zeros(3, np.int32), np.zeros(3, np.int64)),
    ],
)
def test_nothing_is_broadcast_and_nothing_is_cast(a: np.ndarray, b: np.ndarray) -> None:
    with pytest.raises(ValueError, match="shape and dtype must be equal"):
        measure(a, b)


def _extra_memory(a: np.ndarray, b: np.ndarray) -> int:
    tracemalloc.start()
    try:
        measure(a, b)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_extra_memory_does_not_depend_on_the_size(tmp_path: Path) -> None:
    small, large = np.zeros(1 << 14, np.float32), np.zeros(1 << 22, np.float32)
    assert _extra_memory(large, large) < _extra_memory(small, small) + (1 << 16) < 1 << 21
    mapped = np.memmap(tmp_path / "a.bin", np.float32, "w+", shape=(1 << 11, 1 << 11))
    assert _extra_memory(mapped, mapped) < 1 << 21
    assert _extra_memory(mapped.T, mapped) < 1 << 21
