"""Files that the tests of this folder share."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BROKEN = Path(__file__).parents[2] / "fixtures" / "broken"


@pytest.fixture(scope="session")
def broken() -> Path:
    """The folder of broken artifacts."""
    return BROKEN


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """fixtures/broken/make.py, for its pieces of pickles, zips and protobuf."""
    spec = importlib.util.spec_from_file_location("broken_make", BROKEN / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs in an empty folder: a pickle that runs would leave `pwned` there."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob("pwned"))
