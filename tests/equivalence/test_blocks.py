from __future__ import annotations

import numpy as np
import pytest

from tensoraudit.equivalence.blocks import blocks, in_unit_interval, index_at, largest_difference, largest_magnitude


def _joined(array: np.ndarray, size: int) -> np.ndarray:
    pieces = []
    for offset, (piece,) in blocks(array, size=size):
        assert offset == sum(map(len, pieces))
        assert piece.ndim == 1
        assert 0 < piece.size <= size
        pieces.append(piece)
    return np.concatenate(pieces) if pieces else np.empty(0, array.dtype)


@pytest.mark.parametrize("size", [1, 5, 7, 64, 10_000])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(210).reshape(5, 6, 7),
        np.arange(210).reshape(5, 6, 7).transpose(2, 0, 1),
        np.arange(210).reshape(5, 6, 7)[:, ::2, 1:],
        np.arange(13)[::-1],
        np.array(3.0),
        np.empty((0, 4)),
        np.empty((4, 0, 3)).transpose(2, 0, 1),
    ],
)
def test_blocks_cover_every_element_once_in_c_order(array: np.ndarray, size: int) -> None:
    assert np.array_equal(_joined(array, size), array.reshape(-1))


def test_blocks_of_a_contiguous_and_a_strided_array_stay_in_step() -> None:
    plain = np.arange(60).reshape(3, 4, 5)
    turned = np.ascontiguousarray(plain.transpose(2, 1, 0)).transpose(2, 1, 0)
    assert not turned.flags.c_contiguous
    for _, (a, b) in blocks(plain, turned, size=8):
        assert np.array_equal(a, b)


def test_index_at_is_the_index_of_a_flat_position() -> None:
    assert index_at(17, (2, 3, 4)) == (1, 1, 1)
    assert index_at(0, ()) == ()


def test_largest_difference_leaves_out_nonfinite_elements_of_either_side() -> None:
    a = np.array([1.0, np.nan, np.inf, 4.0], np.float32)
    b = np.array([1.5, 0.0, 0.0, np.nan])
    assert largest_difference(a, b) == 0.5
    assert largest_difference(np.empty(0), np.empty(0)) == 0.0


def test_largest_difference_does_not_overflow_between_float32_extremes() -> None:
    top = np.finfo(np.float32).max
    assert largest_difference(np.array([top]), np.array([-top])) == 2 * float(top)


def test_largest_magnitude_is_of_finite_elements() -> None:
    assert largest_magnitude(np.array([1.0, -3.0, np.inf, np.nan])) == 3.0
    assert largest_magnitude(np.array([np.nan])) == 0.0


def test_a_signalling_nan_is_copied_without_a_warning() -> None:
    """To copy one into a wider type is an invalid operation to the processor; numpy warns of it."""
    for bits, kind in (([0x7FA00000, 0x3F800000], "f4"), ([0x7D01, 0x3C00], "f2")):
        array = np.array(bits, f"u{kind[1]}").view(kind)
        assert largest_difference(array, np.zeros(2, kind)) == 1.0
        assert largest_magnitude(array) == 1.0


def test_complex_numbers_have_magnitudes_and_no_order() -> None:
    a, b = np.array([3 + 4j, 1, complex(np.nan, 1)], np.complex64), np.array([0.0, 1, 0])
    assert (largest_difference(a, b), largest_magnitude(a)) == (5.0, 5.0)
    assert in_unit_interval(b) and not in_unit_interval(b + 0j)
    assert largest_magnitude(np.array([complex(1e308, 1e308), 1])) == float(np.hypot(1e308, 1e308))


def test_long_integers_keep_their_last_digit() -> None:
    ids = np.array([2**53 + 1, -(2**63)])
    assert largest_difference(ids, ids.astype(np.float64)) == 1.0
    assert largest_difference(ids, ids - np.array([3, 0])) == 3.0
