"""A session without a worker, and specs of the models in this folder."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensoraudit.probes.protocol import LocalSession
from tensoraudit.probes.pytorch.jobs import JOBS

HERE = Path(__file__).parent


def _models(name: str) -> None:
    """Make a file of models importable by its name, without a folder on the path: a test asks what stands there."""
    made = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert made is not None and made.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(made)
    made.loader.exec_module(sys.modules[name])


_models("checkpointed_models")


@pytest.fixture
def session(tmp_path: Path) -> LocalSession:
    folder = tmp_path / "run"
    folder.mkdir()
    return LocalSession(folder)


@pytest.fixture(autouse=True)
def clean_imports() -> Iterator[None]:
    """User code is imported into this process here: take it out again, and the path with it."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "site-packages" not in file and str(HERE) in file:
            del sys.modules[name]


@pytest.fixture
def spec() -> Callable[..., dict[str, Any]]:
    """The spec of `name` in a file of this folder."""

    def make(name: str, file: str | Path = "plain_models.py", **more: Any) -> dict[str, Any]:
        return {
            "format": "python_object",
            "path": str(HERE / file),
            "module": None,
            "attribute": name,
            "state_dict": None,
            "trust": False,
            "code": [],
            **more,
        }

    return make


@pytest.fixture
def file_spec() -> Callable[..., dict[str, Any]]:
    """The spec of a model file."""

    def make(kind: str, path: Path, **more: Any) -> dict[str, Any]:
        return {
            "format": kind,
            "path": str(path),
            "module": None,
            "attribute": None,
            "trust": False,
            "code": [],
            **more,
        }

    return make


@pytest.fixture
def sample(session: LocalSession) -> Callable[..., dict[str, Any]]:
    """A sample as jobs take it, from arrays and numbers."""

    def make(name: str = "s", /, **values: Any) -> dict[str, Any]:
        arrays = {
            key.replace("__", "."): session.put(value) if isinstance(value, np.ndarray) else {"value": value}
            for key, value in values.items()
        }
        return {"name": name, "arrays": arrays}

    return make


@pytest.fixture
def job(session: LocalSession) -> Callable[..., dict[str, Any]]:
    """Call a job by its short name."""
    return lambda name, **params: JOBS[f"pytorch.{name}"](params, session)


@pytest.fixture
def arrays(session: LocalSession) -> Callable[[dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    """The arrays of a mapping of references."""
    return lambda references: {name: np.array(session.get(each)) for name, each in references.items()}


@pytest.fixture
def script(tmp_path: Path) -> Callable[[torch.nn.Module], Path]:
    """Save a module as TorchScript."""

    def make(module: torch.nn.Module) -> Path:
        path = tmp_path / "model.pt"
        torch.jit.save(torch.jit.script(module), str(path))
        return path

    return make
