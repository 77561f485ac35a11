"""A TensorFlow Lite worker in the interpreter that TENSORAUDIT_TF_PYTHON names."""

import os
from pathlib import Path

import pytest

from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool

FIXTURES = Path(__file__).parents[3] / "fixtures" / "tflite"


@pytest.fixture(scope="session")
def pool():
    interpreter = os.environ.get("TENSORAUDIT_TF_PYTHON")
    if not interpreter:
        pytest.skip("TENSORAUDIT_TF_PYTHON names no interpreter that has ai-edge-litert")
    with Pool(Limits(timeout=120), {"litert": interpreter}, threads=1) as workers:
        if workers.hello("litert").status != "ok":
            pytest.skip("the interpreter has no ai-edge-litert")
        yield workers


@pytest.fixture
def ask(pool):
    """Ask the worker for a job on a fixture; arrays go in by name."""

    def call(job, name, inputs=None, **params):
        model = {"format": "tflite", "path": str(FIXTURES / f"{name}.tflite")}
        given = {}
        if inputs is not None:
            samples = [{"name": "s", "arrays": {n: pool.put(array) for n, array in inputs.items()}}]
            given = {"inputs": samples[0] if job == "trace" else samples}
        return pool.run("litert", f"litert.{job}", {"model": model, **given, **params})

    return call
