"""A pool whose JAX worker runs in the interpreter that TENSORAUDIT_JAX_PYTHON names: this one has no JAX."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

HERE = Path(__file__).parent
VARIABLE = "TENSORAUDIT_JAX_PYTHON"
REASON = f"set {VARIABLE} to a Python with JAX and Flax (requirements/frameworks.txt)"


@pytest.fixture(scope="session")
def jax_python() -> str:
    """The interpreter with JAX."""
    interpreter = os.environ.get(VARIABLE)
    if not interpreter:
        pytest.skip(REASON)
    return interpreter


@pytest.fixture(scope="session")
def pool(jax_python: str) -> Iterator[Pool]:
    with Pool(interpreters={"jax": jax_python}, threads=1) as pool:
        yield pool


@pytest.fixture
def attempt(pool: Pool) -> Callable[..., Outcome]:
    """Run a job on a model of this folder and return how it ended."""

    def make(job: str, name: str, file: str = "jax_models.py", **params: Any) -> Outcome:
        return pool.run("jax", f"jax.{job}", {"model": spec(name, file), **params})

    return make


@pytest.fixture
def job(attempt: Callable[..., Outcome]) -> Callable[..., dict[str, Any]]:
    """Run a job that must succeed and return its result."""

    def make(*args: Any, **params: Any) -> dict[str, Any]:
        outcome = attempt(*args, **params)
        assert outcome.status == "ok", (outcome.reason, outcome.error)
        assert outcome.result is not None
        return outcome.result

    return make


def spec(name: str, file: str | Path = "jax_models.py", **more: Any) -> dict[str, Any]:
    """The spec of a name in a file of this folder, or of a serialized program."""
    plain = {"path": str(HERE / file), "module": None, "trust": False, "code": [], "seed": 0}
    return {"format": "python_object", "attribute": name, **plain, **more}


@pytest.fixture
def sample(pool: Pool) -> Callable[..., dict[str, Any]]:
    """A sample as jobs take it, from arrays and numbers."""

    def make(name: str = "s", /, **values: Any) -> dict[str, Any]:
        arrays = {
            key.replace("__", "."): pool.put(value) if isinstance(value, np.ndarray) else {"value": value}
            for key, value in values.items()
        }
        return {"name": name, "arrays": arrays}

    return make


@pytest.fixture
def arrays(pool: Pool) -> Callable[[dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    """The arrays of a mapping of references."""
    return lambda references: {name: np.array(pool.get(each)) for name, each in references.items()}


@pytest.fixture(scope="session")
def exported_file(jax_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A serialized jax.export program: tanh(x @ w), batch left open."""
    path = tmp_path_factory.mktemp("exported") / "model.bin"
    code = """
import sys, jax, jax.numpy as jnp
from jax import export
sys.path.insert(0, sys.argv[1])
from jax_models import MLP_WEIGHT
(b,) = export.symbolic_shape("b")
program = export.export(jax.jit(lambda x: jnp.tanh(x @ MLP_WEIGHT)))(jax.ShapeDtypeStruct((b, 8), jnp.float32))
open(sys.argv[2], "wb").write(program.serialize())
"""
    environment = {"JAX_PLATFORMS": "cpu", "PATH": os.environ.get("PATH", "")}
    subprocess.run([jax_python, "-c", code, str(HERE), str(path)], check=True, env=environment)
    return path
