"""The exact check of a layout."""

import numpy as np
import pytest

from tensoraudit.equivalence.views import closeness, matching_view, nearest_view

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    "other",
    [X, X.transpose(0, 3, 1, 2), X.transpose(0, 2, 3, 1), X.reshape(2, -1), X.reshape(6, 4, 5), X[:, None]],
    ids=["same", "channels-first", "channels-last", "flat", "merged", "longer"],
)
def test_the_same_values_under_another_layout(other):
    view = matching_view(X, np.ascontiguousarray(other), 1e-6)
    assert view is not None
    np.testing.assert_array_equal(view, X)


def test_a_flatten_in_the_wrong_order_is_no_layout():
    assert matching_view(X.reshape(2, -1), np.ascontiguousarray(X.transpose(0, 3, 1, 2)).reshape(2, -1), 1e-3) is None
    assert matching_view(X.reshape(2, -1), np.ascontiguousarray(X.transpose(0, 3, 1, 2)), 1e-3) is None


def test_the_same_numbers_in_another_order_are_no_layout():
    shuffled = np.random.default_rng(1).permutation(X.reshape(-1)).reshape(X.shape)
    assert matching_view(X, shuffled, 1e-3) is None
    assert matching_view(X, X[:, :, ::-1].copy(), 1e-3) is None


def test_every_element_counts():
    wrong = X.copy()
    wrong[1, 2, 3, 4] += 0.1
    assert matching_view(X, wrong, 0.05) is None
    assert matching_view(X, wrong, 0.2) is wrong


def test_other_sizes_never_match():
    assert matching_view(X, X[:, :2], 10.0) is None
    assert nearest_view(X, X[:, :2]) is None


def test_the_nearest_layout_is_taken_where_none_fits():
    wrong = X * 1.5
    np.testing.assert_array_equal(nearest_view(X, wrong.transpose(0, 3, 1, 2)), wrong)


def test_closeness_is_a_share_of_the_largest_value():
    assert closeness(np.float32([-8, 2]), 0.25) == 2.0
