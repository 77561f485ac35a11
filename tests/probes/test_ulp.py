"""One unit in the last place, up or down."""

import numpy as np
import pytest

from tensoraudit.probes.ulp import move, perturb


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_number_moves_to_a_neighbour(dtype):
    values = np.random.default_rng(0).normal(size=(7, 11)).astype(dtype)
    moved = move(values, np.random.default_rng(1))
    up, down = np.nextafter(values, dtype(np.inf)), np.nextafter(values, dtype(-np.inf))
    assert moved.dtype == dtype and moved.shape == (7, 11)
    assert ((moved == up) | (moved == down)).all() and (moved == up).any() and (moved == down).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_has_no_honest_neighbour_stays(dtype):
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, -np.finfo(dtype).max], dtype)
    for seed in range(8):
        np.testing.assert_array_equal(move(values, np.random.default_rng(seed)), values)


def test_integers_and_masks_stay_and_are_not_named():
    leaves = {"ids": np.arange(5), "mask": np.array([0.0, 1.0, 1.0]), "x": np.full(3, 0.5, np.float32), "flag": True}
    moved, names = perturb(leaves, 3)
    assert names == ["x"]
    assert moved["ids"] is leaves["ids"] and moved["mask"] is leaves["mask"] and moved["flag"] is True
    assert (moved["x"] != leaves["x"]).all()
    again, _ = perturb(leaves, 3)
    np.testing.assert_array_equal(again["x"], moved["x"])


def test_an_empty_array():
    assert move(np.zeros((0, 3), np.float32), np.random.default_rng(0)).shape == (0, 3)


@pytest.mark.parametrize(
    ("dtype", "up", "down"), [(np.complex64, 2.0**-23, 2.0**-24), (np.complex128, 2.0**-52, 2.0**-53)]
)
def test_both_parts_of_a_complex_number_move(dtype, up, down):
    moved, names = perturb({"z": np.full((8, 8), 1 + 1j, dtype), "mask": np.ones(3, dtype)}, 0)
    assert names == ["z"] and moved["z"].dtype == dtype and moved["z"].shape == (8, 8)
    for part in (moved["z"].real, moved["z"].imag):
        assert set(part.ravel().tolist()) == {1 + up, 1 - down}
