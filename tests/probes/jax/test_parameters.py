"""What a Flax model's parameters mean, what its modules see, and other weights put into it; in a real worker."""

from pathlib import Path

import numpy as np
import pytest

PORTED = Path(__file__).parents[3] / "fixtures" / "ported" / "flax_model.py"

pytestmark = pytest.mark.slow

IMAGES = np.random.default_rng(0).standard_normal((2, 22, 14, 3)).astype(np.float32)


@pytest.fixture
def ask(pool):
    def call(name, factory="make_right", file=PORTED, weights=None, **params):
        base = {"module": None, "trust": False, "seed": 0, "code": []}
        model = {**base, "format": "python_object", "path": str(file), "attribute": factory}
        model = {**model, "weights": weights} if weights else model
        return pool.run("jax", f"jax.{name}", {"model": model, **params})

    return call


@pytest.fixture
def done(ask):
    def call(*args, **params):
        outcome = ask(*args, **params)
        assert outcome.status == "ok", outcome.reason
        return outcome.result

    return call


def wired(pool, **arrays):
    arrays = arrays or {"image": IMAGES}
    return {"name": "s", "arrays": {name: pool.put(array) for name, array in arrays.items()}}


def test_every_parameter_says_what_it_is(done, pool):
    rows = {row["name"]: row for row in done("parameters", inputs=wired(pool))["parameters"]}
    meant = {name: (row["kind"], row["axes"], row["gates"], row["part"]) for name, row in rows.items()}
    assert meant["params/conv/kernel"] == ("kernel", "hwio", "", "")
    assert meant["params/dense/kernel"] == ("kernel", "io", "", "")
    assert meant["params/norm/scale"] == ("gamma", "c", "", "")
    assert meant["params/norm/bias"] == ("beta", "c", "", "")
    assert meant["batch_stats/norm/var"] == ("variance", "c", "", "")
    assert meant["params/gru/ir/kernel"] == ("kernel", "io", "r", "input")
    assert meant["params/gru/hz/kernel"] == ("kernel", "io", "z", "state")
    assert meant["params/gru/iz/bias"] == ("bias", "o", "z", "both")
    assert meant["params/gru/in/bias"] == ("bias", "o", "n", "input")
    assert meant["params/gru/hn/bias"] == ("bias", "o", "n", "state")
    assert (rows["params/gru/ir/kernel"]["module"], rows["params/gru/ir/kernel"]["class"]) == ("gru", "GRUCell")


def test_a_run_tells_order_settings_lines_and_tensors(done, pool):
    result = done("parameters", values=True, inputs=wired(pool))
    rows = {row["path"]: row for row in result["modules"]}
    assert list(rows)[:4] == ["", "conv", "norm", "dense"]
    assert (rows["conv"]["config"]["padding"], rows["norm"]["config"]["epsilon"]) == ("SAME", 1e-3)
    assert 'name="conv"' in rows["conv"]["source"]["text"]
    weights = {row["name"]: pool.get(row["tensor"]) for row in result["parameters"]}
    x, y = (pool.get(rows["dense"][key][0]) for key in ("inputs", "outputs"))
    np.testing.assert_allclose(y, x @ weights["params/dense/kernel"] + weights["params/dense/bias"], atol=1e-5)
    assert rows["gru"]["inputs"][0]["shape"] == [2, 17, 13], "a cell in a scan has the tensors of the layer around it"
    np.testing.assert_array_equal(pool.get(rows["gru"]["outputs"][0])[:, -1], pool.get(rows["head"]["inputs"][0]))


def test_modules_of_nnx_are_told_by_their_place(done, pool):
    models = Path(__file__).parent / "jax_models.py"
    described = done("describe", "make_nnx", models)
    sample = {"name": "s", "arrays": described["samples"][0]["arrays"]}
    result = done("parameters", "make_nnx", models, values=True, inputs=sample)
    paths = {row["path"] for row in result["modules"]}
    owners = {row["module"] for row in result["parameters"] if row["name"].startswith("params/")}
    assert owners <= paths and len(owners) > 1
    assert all(row["outputs"] for row in result["modules"])


def test_other_weights_are_in_every_run(done, pool):
    weights = {"params/head/kernel": pool.put(np.zeros((19, 19), np.float32))}
    run = done("run", weights=weights, inputs=[wired(pool)], perturbations=0)["runs"][0]
    rows = done("parameters", values=True)["parameters"]
    bias = next(pool.get(row["tensor"]) for row in rows if row["name"] == "params/head/bias")
    for side in (run["outputs"], run["oracle"]):
        np.testing.assert_allclose(pool.get(side["output"]), np.broadcast_to(bias, (2, 19)), atol=1e-12)
    own = done("run", inputs=[wired(pool)], perturbations=0, oracle=False)["runs"][0]
    assert np.abs(pool.get(own["outputs"]["output"]) - bias).max() > 1e-2


def test_weights_that_do_not_fit_are_refused(ask, pool):
    for name, shape, words in (("none", (1,), "no parameter 'none'"), ("params/head/bias", (4,), "[19], the weight")):
        outcome = ask("parameters", weights={name: pool.put(np.zeros(shape, np.float32))})
        assert outcome.status == "failed" and words in outcome.reason


def test_a_bare_function_has_parameters_and_no_modules(done, pool):
    models = Path(__file__).parent / "jax_models.py"
    described = done("describe", "make_mlp", models)
    result = done("parameters", "make_mlp", models, inputs={"name": "s", "arrays": described["samples"][0]["arrays"]})
    assert result["parameters"] and result["modules"] == []
