from __future__ import annotations

import numpy as np
import pytest

from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.detail import measure_detail


def test_detail_has_quantiles_and_a_histogram_by_bit_length() -> None:
    a = np.ones(1000, np.float32)
    b = a.copy()
    b[:10] = np.nextafter(np.float32(1), np.float32(2))
    b[10:30] = 1 + 3 * np.float32(2.0**-23)
    detail = measure_detail(a, b)
    assert detail.ulp_histogram == (970, 10, 20)
    assert detail.quantiles[0.5] == 0.0
    assert detail.quantiles[0.99] == pytest.approx(3 * 2.0**-23)


def test_detail_of_a_large_tensor_comes_from_an_even_sample() -> None:
    a = np.zeros(3_000_001)
    b = np.linspace(0, 1, a.size)
    detail = measure_detail(a, b)
    assert detail.quantiles[0.5] == pytest.approx(0.5, abs=1e-3)
    assert sum(detail.ulp_histogram) == a.size


def test_detail_ignores_nonfinite_values_and_empty_tensors() -> None:
    nan = np.full(3, np.nan)
    assert measure_detail(nan, nan).quantiles == {}
    assert measure_detail(np.empty(0), np.empty(0)).ulp_histogram == ()


def test_only_tensors_that_fail_have_detail() -> None:
    a = np.linspace(1, 2, 1000, dtype=np.float32)
    (failed,) = compare_arrays({"y": a}, {"y": a * np.float32(1.01)}).outputs
    assert failed.detail is not None
    assert failed.detail.quantiles[0.5] == pytest.approx(0.015, rel=0.01)
    (passed,) = compare_arrays({"y": a}, {"y": a + np.float32(1e-6)}).outputs
    assert passed.detail is None
