"""The modes of `tensorflow.run`, told apart by models whose results depend on them."""

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

MODELS = Path(__file__).parent / "mode_models.py"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "tensorflow"
X = np.array([[1, -2, 0.5], [4, 0, 3]], np.float32)


@pytest.fixture
def run(pool):
    def call(name, mode=None, values=None, **model):
        spec = {"format": "python_object", "path": str(MODELS), "module": None, "attribute": name, "seed": 0, **model}
        arrays = {"x": pool.put(X), **(values or {})}
        params = {"model": spec, "inputs": [{"name": "a", "arrays": arrays}], "oracle": False, "perturbations": 0}
        return pool.run("tensorflow", "tensorflow.run", {**params, **({"mode": mode} if mode else {})})

    return call


@pytest.mark.parametrize(("mode", "added"), [(None, 2), ("function", 2), ("xla", 2), ("eager", 1)])
def test_a_function_runs_as_it_is_called_or_operation_by_operation(run, pool, mode, added):
    outcome = run("Told", mode)
    row = outcome.result["runs"][0]
    assert pool.get(row["outputs"]["output"]).tolist() == (X + added).tolist()
    assert outcome.result["settings"]["execution"] == (mode or "as called")


@pytest.mark.parametrize("mode", ["function", "xla"])
def test_a_scalar_argument_stays_what_it_is(run, pool, mode):
    for factor in (2.0, 0.5):
        row = run("Scaled", mode, {"factor": {"value": factor}}).result["runs"][0]
        np.testing.assert_allclose(pool.get(row["outputs"]["output"]), X * 3 * factor, rtol=1e-6)


def test_what_xla_cannot_compile_is_an_error_of_the_run(run, pool):
    assert pool.get(run("Python").result["runs"][0]["outputs"]["output"]).tolist() == (X / 2).tolist()
    row = run("Python", "xla").result["runs"][0]
    assert row["outputs"] == {} and "EagerPyFunc" in row["error"]["message"]


def test_a_stored_graph_cannot_run_operation_by_operation(run):
    outcome = run(None, "eager", format="saved_model", path=str(FIXTURES / "affine"))
    assert outcome.status == "unsupported" and "stored graph" in outcome.reason


def test_a_mode_that_is_none(run):
    outcome = run("Told", "graph")
    assert outcome.status == "failed" and "use one of eager, function, xla" in outcome.reason


def test_settings_are_pinned_and_told(run):
    settings = run("Told").result["settings"]
    assert (settings["tf32"], settings["deterministic_ops"]) == (False, False)
    assert "onednn" in settings and settings["threads"] == 1
