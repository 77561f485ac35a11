from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensoraudit.equivalence.samples import edge_samples, perturb, redraw_sample, resize_sample

RNG = np.random.default_rng(0)
SAMPLE = {
    "ids": np.array([[101, 7592, 2088, 102], [101, 2204, 102, 0]]),
    "mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]]),
    "image": RNG.random((2, 3, 8, 8)).astype(np.float32),
    "scale": np.array(3.0, np.float32),
    "rate": 16000,
    "nothing": None,
}
DIMS = {"ids": {"0": "batch", "1": "length"}, "mask": {0: "batch", 1: "length"}, "image": {0: "batch", -1: "width"}}


def test_a_resized_sample_keeps_vocabulary_masks_and_ranges() -> None:
    resized = resize_sample(SAMPLE, DIMS, {"batch": 5, "length": 13, "width": 11}, seed=0)
    assert resized["ids"].shape == resized["mask"].shape == (5, 13)
    assert resized["image"].shape == (5, 3, 8, 11)
    assert set(np.unique(resized["ids"])) <= set(np.unique(SAMPLE["ids"]))
    assert set(np.unique(resized["mask"])) == {0, 1}
    assert (resized["mask"][:, 0] == 1).all()
    low, high = SAMPLE["image"].min(), SAMPLE["image"].max()
    assert low <= resized["image"].min()
    assert resized["image"].max() <= high
    assert abs(resized["image"].mean() - SAMPLE["image"].mean()) < 0.05
    for name in ("ids", "mask", "image"):
        assert resized[name].dtype == SAMPLE[name].dtype


def test_what_does_not_change_is_the_same_object() -> None:
    resized = resize_sample(SAMPLE, DIMS, {"batch": 2, "length": 13}, seed=0)
    for name in ("image", "scale", "rate", "nothing"):
        assert resized[name] is SAMPLE[name]


def test_a_resized_sample_depends_on_the_seed_alone() -> None:
    first, again, other = (resize_sample(SAMPLE, DIMS, {"length": 50}, seed)["ids"] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_an_axis_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="'ids' has 2 axes; there is no axis 2 for dimension 'x'"):
        resize_sample(SAMPLE, {"ids": {"2": "x"}}, {"x": 3}, 0)


def test_an_empty_sample_has_no_integers_to_draw_from() -> None:
    empty = {"x": np.empty((0, 3), np.float32), "i": np.empty((0, 3), np.int64)}
    assert resize_sample({"x": empty["x"]}, {"x": {0: "b"}}, {"b": 2}, 0)["x"].tolist() == [[0.0] * 3] * 2
    with pytest.raises(ValueError, match="'i' is empty"):
        resize_sample(empty, {"i": {0: "b"}}, {"b": 2}, 0)


def test_a_redrawn_sample_has_new_floats_and_ids_and_the_same_masks() -> None:
    drawn = redraw_sample(SAMPLE, 1)
    assert not np.array_equal(drawn["image"], SAMPLE["image"])
    assert set(np.unique(drawn["ids"])) <= set(np.unique(SAMPLE["ids"]))
    assert np.array_equal(drawn["mask"], SAMPLE["mask"])
    assert (drawn["rate"], drawn["nothing"]) == (16000, None)
    assert {name: getattr(value, "shape", None) for name, value in drawn.items()} == {
        name: getattr(value, "shape", None) for name, value in SAMPLE.items()
    }


def test_edges_change_floats_only() -> None:
    edges = edge_samples(SAMPLE)
    assert list(edges) == ["zeros", "large", "tiny", "negative"]
    for sample in edges.values():
        assert sample["ids"] is SAMPLE["ids"]
        assert sample["image"].dtype == np.float32
    assert not edges["zeros"]["image"].any()
    assert np.abs(edges["large"]["image"]).max() == pytest.approx(1e4)
    assert np.abs(edges["tiny"]["image"]).max() == pytest.approx(1e-6)
    assert (edges["negative"]["image"] <= 0).all()


def test_edges_of_half_precision_stay_finite_and_normal() -> None:
    edges = edge_samples({"x": np.array([1, -3], np.float16)})
    assert np.isfinite(edges["large"]["x"]).all()
    assert np.abs(edges["tiny"]["x"]).min() > np.finfo(np.float16).smallest_normal


@given(arrays.arrays("float64", arrays.array_shapes(max_dims=3, max_side=6), elements=st.floats()), st.integers(0, 99))
def test_every_float_moves_by_one_ulp_but_zero_inf_and_nan(values: np.ndarray, seed: int) -> None:
    moved = perturb({"x": values}, seed)["x"]
    assert moved.shape == values.shape
    for before, after in zip(values.reshape(-1), moved.reshape(-1), strict=True):
        if before == 0 or not math.isfinite(before):
            assert after == before or (math.isnan(after) and math.isnan(before))
        else:
            neighbours = {math.nextafter(before, math.inf), math.nextafter(before, -math.inf)} - {math.inf, -math.inf}
            assert after in neighbours or (len(neighbours) == 1 and after == before)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_both_directions_occur_and_the_dtype_stays(dtype: str) -> None:
    values = np.ones(1000, dtype)
    moved = perturb({"x": values}, 0)["x"]
    assert moved.dtype == values.dtype
    assert 400 < (moved > 1).sum() < 600
    assert ((moved > 1) | (moved < 1)).all()


def test_draws_differ_by_seed_and_integers_stay() -> None:
    first, again, other = (perturb(SAMPLE, seed) for seed in (0, 0, 1))
    assert np.array_equal(first["image"], again["image"])
    assert not np.array_equal(first["image"], other["image"])
    assert first["ids"] is SAMPLE["ids"]
    assert first["rate"] == 16000
