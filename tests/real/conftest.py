"""Audits of whole models: each starts workers and takes seconds."""

from pathlib import Path

import pytest

from tensoraudit.audit import samples

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="module", autouse=True)
def _workers(warm_workers):
    """Every module here keeps its workers from one audit to the next."""


@pytest.fixture
def few_inputs(monkeypatch):
    """One random draw and a batch of two, for an audit of a model whose larger batch another test asks about: that
    batch takes as long as the rest."""
    monkeypatch.setattr(samples, "BATCH_SIZES", (1, 2))
    monkeypatch.setattr(samples, "RANDOM_DRAWS", 1)
