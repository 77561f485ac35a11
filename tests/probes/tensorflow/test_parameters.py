"""What a Keras model's variables mean, what its layers see, and other weights put into it; in a real worker."""

from pathlib import Path

import numpy as np
import pytest

PORTED = Path(__file__).parents[3] / "fixtures" / "ported" / "keras_model.py"

pytestmark = pytest.mark.slow

IMAGES = np.random.default_rng(0).standard_normal((2, 22, 14, 3)).astype(np.float32)


@pytest.fixture
def job(pool):
    def call(name, factory="make_model", weights=None, **params):
        base = {"module": None, "trust": False, "seed": 0, "code": []}
        model = {**base, "format": "python_object", "path": str(PORTED), "attribute": factory}
        model = {**model, "weights": weights} if weights else model
        outcome = pool.run("tensorflow", f"tensorflow.{name}", {"model": model, **params})
        assert outcome.status == "ok", outcome.reason
        return outcome.result

    return call


def wired(pool):
    return {"name": "s", "arrays": {"image": pool.put(IMAGES)}}


def test_every_variable_says_what_it_is(job):
    rows = {row["name"]: row for row in job("parameters")["parameters"]}
    meant = {name: (row["kind"], row["axes"], row["gates"], row["part"]) for name, row in rows.items()}
    assert meant == {
        "ported/conv/kernel": ("kernel", "hwio", "", ""),
        "ported/conv/bias": ("bias", "o", "", ""),
        "ported/norm/gamma": ("gamma", "c", "", ""),
        "ported/norm/beta": ("beta", "c", "", ""),
        "ported/norm/moving_mean": ("mean", "c", "", ""),
        "ported/norm/moving_variance": ("variance", "c", "", ""),
        "ported/dense/kernel": ("kernel", "io", "", ""),
        "ported/dense/bias": ("bias", "o", "", ""),
        "ported/gru/gru_cell/kernel": ("kernel", "io", "zrn", "input"),
        "ported/gru/gru_cell/recurrent_kernel": ("kernel", "io", "zrn", "state"),
        "ported/gru/gru_cell/bias": ("bias", "po", "zrn", ""),
        "ported/head/kernel": ("kernel", "io", "", ""),
        "ported/head/bias": ("bias", "o", "", ""),
    }
    assert (rows["ported/gru/gru_cell/bias"]["module"], rows["ported/gru/gru_cell/bias"]["class"]) == ("gru", "GRU")


def test_a_run_tells_order_settings_and_tensors(job, pool):
    result = job("parameters", values=True, inputs=wired(pool))
    rows = {row["path"]: row for row in result["modules"]}
    assert list(rows)[:5] == ["ported", "conv", "norm", "gelu", "flat"]
    assert "gru_cell" not in rows and not rows["ported"]["leaf"]
    assert (rows["conv"]["config"]["padding"], rows["conv"]["config"]["strides"]) == ("same", [2, 2])
    assert (rows["norm"]["config"]["epsilon"], rows["gru"]["config"]["reset_after"]) == (1e-3, True)
    assert rows["gelu"]["config"]["activation"] == "gelu"
    weights = {row["name"]: pool.get(row["tensor"]) for row in result["parameters"]}
    state, head = (pool.get(rows["head"][key][0]) for key in ("inputs", "outputs"))
    np.testing.assert_allclose(head, state @ weights["ported/head/kernel"] + weights["ported/head/bias"], atol=1e-5)
    x, y = (pool.get(rows["norm"][key][0]) for key in ("inputs", "outputs"))
    gamma, beta, mean, variance = (
        weights[f"ported/norm/{name}"] for name in ("gamma", "beta", "moving_mean", "moving_variance")
    )
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta, atol=1e-5)


def test_other_weights_are_in_every_run_the_double_one_too(job, pool):
    weights = {"ported/head/kernel": pool.put(np.zeros((19, 19), np.float32))}
    run = job("run", weights=weights, inputs=[wired(pool)], perturbations=0)["runs"][0]
    bias = {row["name"]: pool.get(row["tensor"]) for row in job("parameters", values=True)["parameters"]}[
        "ported/head/bias"
    ]
    expected = np.broadcast_to(bias, (2, 19))
    np.testing.assert_array_equal(pool.get(run["outputs"]["output"]), expected)
    np.testing.assert_allclose(pool.get(run["oracle"]["output"]), expected, atol=1e-12)
    own = job("run", inputs=[wired(pool)], perturbations=0, oracle=False)["runs"][0]
    assert np.abs(pool.get(own["outputs"]["output"]) - expected).max() > 1e-2


def test_weights_that_do_not_fit_are_refused(pool):
    base = {"module": None, "trust": False, "seed": 0, "code": [], "format": "python_object", "path": str(PORTED)}
    for name, shape, words in (("none", (1,), "no variable 'none'"), ("ported/head/bias", (4,), "[19], the weight")):
        weights = {name: pool.put(np.zeros(shape, np.float32))}
        model = {**base, "attribute": "make_model", "weights": weights}
        outcome = pool.run("tensorflow", "tensorflow.parameters", {"model": model})
        assert outcome.status == "failed" and words in outcome.reason


BARE = """
import keras


def make():
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(7), keras.layers.Dense(7)])
"""


def test_a_model_that_keras_numbers_anew_gets_each_weight_at_its_place(pool, tmp_path):
    path = tmp_path / "bare.py"
    path.write_text(BARE)
    base = {"module": None, "trust": False, "seed": 0, "code": [], "format": "python_object", "path": str(path)}

    def ask(**more):
        model = {**base, "attribute": "make", **more}
        result = pool.run("tensorflow", "tensorflow.parameters", {"model": model, "values": True}).result
        return {row["name"]: pool.get(row["tensor"]) for row in result["parameters"]}

    first = ask()
    weights = {name: np.full(array.shape, n, np.float32) for n, (name, array) in enumerate(first.items())}
    again = ask(weights={name: pool.put(array) for name, array in reversed(weights.items())})
    assert list(again) != list(first)
    assert [float(array.max()) for array in again.values()] == [0.0, 1.0, 2.0, 3.0]
