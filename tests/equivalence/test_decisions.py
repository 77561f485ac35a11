from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensoraudit.equivalence.decisions import class_axes, decide


def _decide(a: object, b: object, tie: float = 0.0):  # type: ignore[no-untyped-def]
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    return decide(a, b, tie=tie, scale=float(np.abs(a).max()))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((), ()),
        ((7,), (0,)),
        ((7, 1), ()),
        ((7, 10), (1,)),
        ((7, 5, 10), (2,)),
        ((2, 21, 5, 7), (1, 3)),
        ((2, 1, 5, 7), (3,)),
        ((2, 5, 7, 1), (1,)),
        ((2, 3, 4, 5, 6), (1, 4)),
    ],
)
def test_class_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert class_axes(shape) == axes


def test_a_changed_class_is_counted_by_row() -> None:
    found = _decide([[1, 2, 3], [3, 2, 1], [1, 5, 1]], [[1, 2, 3], [1, 2, 3], [1, 5, 1]])
    assert (found.rows, found.top1_changes, found.axis, found.changed) == (3, 1, 1, True)


def test_a_near_tie_is_no_decision() -> None:
    a, b = [[1.0, 1.0 + 1e-6, 0.0]], [[1.0 + 1e-6, 1.0, 0.0]]
    found = _decide(a, b, tie=2e-6)
    assert (found.top1_changes, found.near_ties, found.changed) == (0, 1, False)
    assert _decide(a, b, tie=1e-7).changed


def test_the_channels_of_a_map_are_found_in_both_layouts() -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((2, 5, 3, 1))
    other = first.copy()
    other[1, :, 2, 0] = np.roll(other[1, :, 2, 0], 1)
    assert _decide(first, other).top1_changes == 1
    assert _decide(first, other).axis == 1
    last, other_last = (np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (first, other))
    assert _decide(last, other_last).top1_changes == 1


@given(arrays.arrays("float32", (4, 3, 5, 6), elements=st.integers(-3, 3)), st.integers(0, 2**32 - 1))
def test_top1_agrees_with_a_plain_count(a: np.ndarray, seed: int) -> None:
    b = np.random.default_rng(seed).permutation(a, axis=1)
    found = decide(a, b, tie=0.0, scale=3.0, loss=False)
    counts = []
    for axis in (1, 3):
        rows = zip(
            np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis]),
            np.moveaxis(b, axis, -1).reshape(-1, a.shape[axis]),
            strict=True,
        )
        counts.append(sum(1 for x, y in rows if x[y.argmax()] < x.max()))
    assert found.top1_changes == max(counts)


def test_a_single_score_decides_by_its_sign() -> None:
    assert _decide([[0.5], [-0.2]], [[-0.5], [-0.2]]).side_changes == 1
    assert _decide(0.5, -0.5).side_changes == 1
    assert _decide([0.5, 2.0], [-0.5, 2.0]).side_changes == 1
    assert not _decide([[0.5], [-0.2]], [[0.4], [-0.3]]).changed


def test_a_probability_decides_at_one_half() -> None:
    found = _decide([[0.4], [0.9]], [[0.6], [0.9]])
    assert (found.side_changes, found.threshold) == (1, 0.5)
    assert "side of 0.5" in found.sentence()
    assert not _decide([[0.1], [0.9]], [[0.4], [0.9]]).changed


def test_values_near_the_threshold_do_not_decide() -> None:
    assert not _decide([[1e-7], [3.0]], [[-1e-7], [3.0]], tie=1e-6).changed
    assert not _decide([[0.5 + 1e-7], [0.1]], [[0.5 - 1e-7], [0.1]], tie=1e-6).changed


def test_in_a_hidden_state_only_clear_signs_count() -> None:
    a = np.array([[0.01, 5.0], [-0.02, 7.0]])
    assert not _decide(a, a * [[-1, 1], [-1, 1]]).changed
    assert _decide([[-3.0, 5.0]], [[3.0, 5.0]]).side_changes == 1


def test_nan_decides_nothing() -> None:
    assert not _decide([[np.nan, 1.0]], [[np.nan, 2.0]]).changed


def test_rows_longer_than_a_block_and_strided_arrays_are_not_cut() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((3, 300_007)).astype(np.float32)
    b = a.copy()
    b[2, 5] = 100.0
    assert decide(a, b, tie=0.0, scale=5.0).top1_changes == 1
    assert decide(a.T, b.T, tie=0.0, scale=5.0).rows == 300_007
