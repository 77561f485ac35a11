"""A TensorFlow worker in the interpreter that TENSORAUDIT_TF_PYTHON names, and the models it runs."""

import os
from pathlib import Path

import pytest

from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool

MODELS = Path(__file__).parent / "models.py"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "tensorflow"


def interpreter():
    named = os.environ.get("TENSORAUDIT_TF_PYTHON")
    if not named:
        pytest.skip("TENSORAUDIT_TF_PYTHON names no interpreter that has TensorFlow")
    return named


@pytest.fixture(scope="session")
def tensorflow():
    return interpreter()


@pytest.fixture(scope="session")
def pool(tensorflow):
    with Pool(Limits(timeout=300, memory=8 << 30), {"tensorflow": tensorflow}) as workers:
        yield workers


def spec(name, **more):
    """The description of a model: an object of models.py, or a file of the fixtures."""
    known = {".keras": "keras", ".h5": "keras_h5", "": "saved_model"}
    path = FIXTURES / name
    base = {"module": None, "attribute": None, "trust": False, "seed": 0, "code": [], **more}
    if path.exists():
        return {**base, "format": known[path.suffix], "path": str(path)}
    return {**base, "format": "python_object", "path": str(MODELS), "attribute": name}


@pytest.fixture
def ask(pool):
    """Ask the worker for a job on a model; arrays go in by name."""

    def send(arrays):
        return {name: pool.put(array) for name, array in arrays.items()}

    def call(job, name, inputs=None, sample=None, trust=False, **params):
        given = {} if inputs is None else {"inputs": [{"name": n, "arrays": send(a)} for n, a in inputs.items()]}
        given = given if sample is None else {"inputs": {"name": "sample", "arrays": send(sample)}}
        return pool.run("tensorflow", f"tensorflow.{job}", {"model": spec(name, trust=trust), **given, **params})

    return call
