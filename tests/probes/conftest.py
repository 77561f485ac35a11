"""A pool of workers whose framework misbehaves on demand (`fake_framework`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensoraudit.probes.limits import Limits
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

HERE = Path(__file__).parent
MakePool = Callable[..., Pool]


@pytest.fixture
def make_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePool]:
    """Make pools with the fake framework, whose run folders lie in `tmp_path / "runs"`; all are closed at the end."""
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(runs))
    pools = []

    def make(environment: dict[str, str] | None = None, **options: Any) -> Pool:
        options = {"limits": Limits(timeout=60, memory=1 << 30), "frameworks": {"fake": "fake_framework"}} | options
        pools.append(Pool(environment={"PYTHONPATH": str(HERE)} | (environment or {}), **options))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
    assert not list(runs.iterdir()), "a run folder was left"


@pytest.fixture
def pool(make_pool: MakePool) -> Pool:
    return make_pool()


@pytest.fixture
def job(pool: Pool) -> Callable[..., Outcome]:
    """Run one fake job by its short name."""
    return lambda name, timeout=None, **params: pool.run("fake", f"fake.{name}", params, timeout=timeout)


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Poll, generously: the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def is_gone(pid: int) -> bool:
    """No such process, or nothing but its zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def gone() -> Callable[[int], bool]:
    return lambda pid: wait_until(lambda: is_gone(pid))


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], bool]:
    return wait_until
