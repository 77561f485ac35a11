from __future__ import annotations

import numpy as np
import pytest

from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.floor import NoiseFloor, dtype_floor, noise_floor
from tensoraudit.equivalence.metrics import measure

A = np.array([1.0, 2.0, -4.0], np.float32)
B = np.array([1.0, 2.5, -4.0], np.float32)
ORACLE = np.array([1.0, 2.25, -4.5])
DRAWS = [A + np.float32(0.125), A - np.float32(0.0625)]


def _floor(**known: object) -> NoiseFloor:
    return noise_floor(A, B, "float32", measure(A, B), **known)  # type: ignore[arg-type]


def test_with_an_oracle_the_formulas_of_the_docstring_hold() -> None:
    floor = _floor(oracle=ORACLE, perturbed=DRAWS)
    assert floor.reference_error == 0.5  # |-4 - -4.5|
    assert floor.candidate_error == 0.5  # the same element; |2.5 - 2.25| is less
    assert floor.sensitivity == 0.125
    assert floor.dtype_floor == 4.5 * 2.0**-23
    assert (floor.value, floor.error_ratio, floor.source) == (0.5, 1.0, "oracle")


def test_the_sensitivity_is_the_floor_where_it_is_larger_than_the_reference_error() -> None:
    floor = _floor(oracle=A.astype(np.float64), perturbed=DRAWS)
    assert (floor.reference_error, floor.value, floor.error_ratio) == (0.0, 0.125, 4.0)


def test_without_an_oracle_the_floor_is_the_sensitivity_and_the_error_the_plain_difference() -> None:
    floor = _floor(perturbed=DRAWS)
    assert (floor.reference_error, floor.candidate_error, floor.value) == (None, 0.5, 0.125)
    assert (floor.source, floor.measured) == ("perturbation", True)


def test_with_neither_the_floor_is_one_rounding_and_not_measured() -> None:
    floor = _floor()
    assert (floor.value, floor.source, floor.measured) == (4.0 * 2.0**-23, "dtype", False)


@pytest.mark.parametrize(
    ("dtype", "eps"),
    [("float16", 2.0**-10), ("bfloat16", 2.0**-7), ("float32", 2.0**-23), ("float64", 2.0**-52)],
)
def test_the_dtype_floor_is_the_spacing_at_the_largest_value(dtype: str, eps: float) -> None:
    assert dtype_floor(dtype, 300.0) == 300.0 * eps
    assert dtype_floor(dtype, 0.0) == eps


def test_near_zero_the_dtype_floor_is_the_spacing_there() -> None:
    """Half precision keeps its subnormal numbers; those of the others may be flushed to zero."""
    assert dtype_floor("float16", 2.0**-20) == float(np.finfo(np.float16).smallest_subnormal)
    assert dtype_floor("float32", 1e-40) == float(np.finfo(np.float32).smallest_normal)
    assert dtype_floor("float64", 1e-310) == float(np.finfo(np.float64).smallest_normal)


def test_a_zero_reference_is_marked_as_such() -> None:
    zero = np.zeros(2, np.float32)
    assert noise_floor(zero, zero, "float32", measure(zero, zero)).zero_reference
    assert not _floor().zero_reference


def test_nonfinite_elements_of_the_oracle_do_not_count() -> None:
    floor = _floor(oracle=np.array([np.nan, 2.25, np.inf]))
    assert (floor.reference_error, floor.candidate_error, floor.scale) == (0.25, 0.25, 2.25)


def test_rows_of_a_softmax_are_judged_on_their_own_scale() -> None:
    truth = np.full((2, 4096), 1 / 4096)
    reference = truth.astype(np.float32)
    shift = np.float32(1e-7) * np.where(np.arange(4096) % 2, 1, -1).astype(np.float32)
    assert not compare_arrays({"y": reference}, {"y": reference + shift}, oracle={"y": truth}).verdict.passes


def test_tiny_probabilities_are_judged_on_the_scale_of_a_probability() -> None:
    """Sigmoid of -30: a runtime that is right to one rounding at 1.0 is right, one that is off by ten is not."""
    truth = np.full((2, 3), 9e-14)
    reference = truth.astype(np.float32)
    for error, passes in ((1.1e-7, True), (1.2e-6, False)):
        found = compare_arrays({"y": reference}, {"y": reference + np.float32(error)}, oracle={"y": truth})
        assert found.verdict.passes is passes
