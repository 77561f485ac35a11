from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tensoraudit.equivalence.layout import find_permutation, is_convention, matches_after_reshape

X = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)


@pytest.mark.parametrize("order", [order for order in permutations(range(4)) if order != (0, 1, 2, 3)])
def test_every_permutation_is_found_and_undone(order: tuple[int, ...]) -> None:
    candidate = np.ascontiguousarray(X.transpose(order))
    found = find_permutation(X, candidate, 1e-5)
    assert found is not None
    assert np.array_equal(candidate.transpose(found), X)


def test_a_square_layout_is_found_by_its_values() -> None:
    square = X.reshape(14, 15)[:14, :14]
    assert find_permutation(square, square.T + np.float32(1e-6), 1e-5) == (1, 0)
    assert find_permutation(square, square.T + np.float32(1e-4), 1e-5) is None


def test_equal_sums_and_sorted_values_are_no_layout() -> None:
    assert find_permutation(X, X[:, ::-1].transpose(0, 2, 3, 1), 1e-5) is None


def test_a_difference_in_the_last_element_refutes() -> None:
    large = np.random.default_rng(1).standard_normal((300, 200))
    other = large.T.copy()
    assert find_permutation(large, other, 1e-9) == (1, 0)
    other[-1, -1] += 1
    assert find_permutation(large, other, 1e-9) is None


def test_nan_must_stand_at_the_same_places() -> None:
    nan = X.copy()
    nan[0, 1, 2, 3] = np.nan
    assert find_permutation(nan, nan.transpose(0, 2, 3, 1), 1e-5) == (0, 3, 1, 2)
    assert find_permutation(nan, X.transpose(0, 2, 3, 1), 1e-5) is None
    nothing = np.full((2, 3), np.nan)
    assert find_permutation(nothing, np.full((3, 2), 1.0), 1e-5) is None


def test_integers_are_exact() -> None:
    ids = np.arange(12).reshape(3, 4)
    assert find_permutation(ids, ids.T, 0.0) == (1, 0)
    assert find_permutation(ids, ids.T + 1, 0.0) is None


@pytest.mark.parametrize("shape", [(), (4,), (0, 3), (1, 2, 1, 2, 1, 2, 1)])
def test_tensors_without_an_order_to_try(shape: tuple[int, ...]) -> None:
    assert find_permutation(np.zeros(shape), np.zeros(shape[::-1]), 1.0) is None


def test_a_missing_reshape_is_told_from_other_values() -> None:
    assert matches_after_reshape(X, X.reshape(6, 35), 1e-6)
    assert not matches_after_reshape(X, X.reshape(6, 35) + 1, 1e-6)
    assert not matches_after_reshape(X, X.copy(), 1e-6)
    assert not matches_after_reshape(X, np.zeros(3), 1e-6)
    assert not matches_after_reshape(X, X.reshape(6, 35).T, 1e-6)


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 3, 1, 2), (0, 2, 3, 1), (0, 4, 1, 2, 3), (0, 2, 3, 4, 1)])
def test_channels_last_and_first_are_the_convention(order: tuple[int, ...]) -> None:
    assert is_convention(order)


@pytest.mark.parametrize("order", [(1, 0), (0, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3), (3, 0, 1, 2), (0, 2, 1, 3)])
def test_anything_else_is_not(order: tuple[int, ...]) -> None:
    assert not is_convention(order)


def test_the_imaginary_part_counts() -> None:
    turned = X[0, 0] + 1j * X[1, 1]
    assert find_permutation(turned, turned.T, 0.0) == (1, 0)
    assert find_permutation(turned, (X[0, 0] + 1j * X[0, 1]).T, 1e-5) is None
    assert not matches_after_reshape(turned, (X[0, 0] + 1j * X[0, 1]).reshape(-1), 1e-5)
    assert find_permutation(X[0, 0], X[0, 0].T + 0j, 0.0) == (1, 0)


def test_the_last_digit_of_long_integers_counts() -> None:
    ids = np.arange(12).reshape(3, 4) + 2**53
    assert find_permutation(ids, ids.T, 0.0) == (1, 0)
    assert find_permutation(ids, ids.T ^ 1, 0.0) is None
    assert find_permutation(ids, ids.T.astype(np.float64), 0.0) is None
