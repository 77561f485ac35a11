"""Finite differences against derivatives that are known, and where there is none."""

import numpy as np
import pytest

from tensoraudit.probes import finite_differences
from tensoraudit.probes.finite_differences import check_gradients


def checks(loss, gradients, point, **more):
    return {each["tensor"]: each for each in check_gradients(loss, gradients, point, seed=0, **more)}


A = np.random.default_rng(0).normal(size=(6, 5))


def quadratic(point):
    return float(((A @ point["x"]) ** 2).sum() + point["s"] ** 3)


def derivative(point):
    return {"x": 2 * A.T @ (A @ point["x"]), "s": np.asarray(3 * point["s"] ** 2)}


POINT = {"x": np.random.default_rng(1).normal(size=5), "s": np.asarray(1.5)}


def test_a_right_gradient_passes():
    found = checks(quadratic, derivative, POINT)
    assert [each["status"] for each in found.values()] == ["ok", "ok"]
    assert found["x"]["directions"] == 5, "every element of a small tensor"


@pytest.mark.parametrize("size", [5, 300, 20_000])
def test_a_gradient_that_is_off_by_a_hundredth_is_found_at_any_size(size):
    scale = np.random.default_rng(2).normal(size=size)
    point = {"x": np.random.default_rng(3).normal(size=size), "y": np.random.default_rng(4).normal(size=3)}

    def loss(p):
        return float((scale * np.sin(p["x"])).sum() + (p["y"] ** 2).sum())

    def wrong(p):
        return {"x": 1.01 * scale * np.cos(p["x"]), "y": 2 * p["y"]}

    found = checks(loss, wrong, point)
    assert (found["x"]["status"], found["y"]["status"]) == ("differs", "ok")
    assert found["x"]["analytic"] / found["x"]["numeric"] == pytest.approx(1.01, rel=1e-3)


def test_one_wrong_element_of_many_is_found():
    point = {"x": np.random.default_rng(3).normal(size=400)}

    def wrong(p):
        gradient = np.cos(p["x"])
        gradient[17] *= 3
        return {"x": gradient}

    assert checks(lambda p: float(np.sin(p["x"]).sum()), wrong, point)["x"]["status"] == "differs"


def test_relu_at_zero_and_ties_of_a_maximum_are_no_false_alarm():
    """All inputs exactly at the kink: the point is moved away from there."""
    point = {"x": np.zeros(12), "t": np.full(12, 0.7)}

    def loss(p):
        return float(np.maximum(p["x"], 0).sum() + p["t"].max())

    def gradients(p):
        ties = (p["t"] == p["t"].max()).astype(float)
        return {"x": (p["x"] > 0).astype(float), "t": ties / ties.sum()}

    assert {each["status"] for each in checks(loss, gradients, point).values()} == {"ok"}


def test_where_every_direction_meets_a_kink_nothing_is_claimed():
    """The kinks move along with the point, so that there is no way around them."""
    point = {"x": np.random.default_rng(5).normal(size=12)}
    places = []

    def loss(p):
        places.append(p["x"])
        return float(np.maximum(p["x"] - places[0], 0).sum())

    found = checks(loss, lambda p: {"x": np.zeros(12)}, point)
    assert (found["x"]["status"], found["x"]["reason"]) == (
        "unverified",
        "the function is not differentiable here, along any direction that was tried",
    )


def test_a_missing_gradient_of_something_that_matters_differs_and_of_nothing_is_fine():
    found = checks(lambda p: float(p["x"].sum()), lambda p: {}, {"x": np.ones(3) * 2, "unused": np.ones(2) * 3})
    assert (found["x"]["status"], found["unused"]["status"]) == ("differs", "ok")
    assert "no gradient" in found["x"]["reason"]


def test_a_cut_on_purpose_is_told_apart():
    found = checks(lambda p: float(p["x"].sum()), lambda p: {}, {"x": np.ones(3) * 2}, cuts={"x": "detach at m.py:3"})
    assert found["x"]["status"] == "cut" and found["x"]["reason"].endswith("detach at m.py:3")


def test_complex_numbers_are_two_real_ones():
    point = {"z": np.array([1 + 2j, -0.5j, 3.0])}

    def loss(p):
        return float((np.abs(p["z"]) ** 2).sum() + p["z"].real.sum())

    assert checks(loss, lambda p: {"z": 2 * p["z"] + 1}, point)["z"]["status"] == "ok"
    assert checks(loss, lambda p: {"z": np.conj(2 * p["z"] + 1)}, point)["z"]["status"] == "differs"


def test_a_gradient_below_the_tolerance_is_no_pass():
    point = {"x": np.random.default_rng(6).normal(size=20)}
    found = checks(lambda p: 1e-7 * float(np.sin(p["x"]).sum()), lambda p: {"x": 2e-7 * np.cos(p["x"])}, point)
    assert found["x"]["status"] == "unverified" and "too small" in found["x"]["reason"]


def test_what_is_not_finite_is_not_judged():
    found = checks(lambda p: float("nan"), lambda p: {"x": p["x"]}, {"x": np.ones(3) * 2})
    assert found["x"]["status"] == "unverified"


def test_what_the_time_did_not_suffice_for_says_so(monkeypatch):
    monkeypatch.setattr(finite_differences, "BUDGET", -1.0)
    assert {each["status"] for each in checks(quadratic, derivative, POINT).values()} == {"unverified"}
