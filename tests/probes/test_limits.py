from __future__ import annotations

import os
from pathlib import Path

import pytest

from tensoraudit.errors import ConfigError
from tensoraudit.probes import limits, procfs
from tensoraudit.probes.limits import Limits, StoppedError, Watch, available_memory, gibibytes


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"timeout": float("nan")}, {"memory": -1}, {"start": 0.0}])
def test_a_limit_that_no_job_could_keep_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"The {next(iter(wrong))} limit of a worker must be more than 0"):
        Limits(**wrong)  # type: ignore[arg-type]


def test_the_default_leaves_a_quarter_of_the_memory() -> None:
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < Limits().memory < total * 0.76


@pytest.mark.parametrize(("text", "expected"), [("max\n", 1000), ("700\n", 700), ("9223372036854771712\n", 1000)])
def test_a_container_has_what_it_may_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: int
) -> None:
    (tmp_path / "memory.max").write_text(text)
    monkeypatch.setattr(limits, "_CONTAINER_LIMITS", (tmp_path / "memory.max", tmp_path / "absent"))
    monkeypatch.setattr(procfs, "machine_memory", lambda: 1000)
    assert available_memory() == expected


def test_an_unknown_machine_gets_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_CONTAINER_LIMITS", ())
    monkeypatch.setattr(procfs, "machine_memory", lambda: 0)
    assert available_memory() == 8 << 30


@pytest.mark.parametrize(
    ("size", "text"),
    [(1 << 30, "1 GiB"), (3 << 29, "1.5 GiB"), (10**9, "0.93 GiB"), (1 << 40, "1024 GiB"), (0, "0 GiB")],
)
def test_gibibytes(size: int, text: str) -> None:
    assert gibibytes(size) == text


class Clock:
    """A time that passes only when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(limits.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_watch_looks_once_a_tick(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(procfs, "private_memory", lambda pid: looks.append(pid) or 10)
    watch = Watch(5, 60, 100, lambda: False)
    for _ in range(100):
        watch.check()
        clock.now += limits.TICK / 10
    assert 8 <= len(looks) <= 10
    assert watch.peak == 10


def test_a_watch_stops_for_time(clock: Clock) -> None:
    watch = Watch(os.getpid(), 2.5, 1 << 60, lambda: False)
    clock.now += 2.5
    watch.check()
    clock.now += 0.1
    with pytest.raises(StoppedError, match=r"was stopped after 2.5 s \(the limit\)") as stopped:
        watch.check()
    assert stopped.value.status == "timeout"
    assert watch.seconds == pytest.approx(2.6)


def test_a_watch_stops_for_the_memory_of_all(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {5: 3 << 29, 6: 1 << 30}
    monkeypatch.setattr(procfs, "private_memory", sizes.__getitem__)
    monkeypatch.setattr(procfs, "session_members", lambda session: [5, 6] if session == 5 else [])
    watch = Watch(5, 60, 2 << 30, lambda: False)
    clock.now += 0.1
    watch.check()
    clock.now += 1.0
    with pytest.raises(StoppedError, match=r"was stopped at 2.5 GiB \(limit 2 GiB\)") as stopped:
        watch.check()
    assert stopped.value.status == "crashed"
    assert watch.peak == 5 << 29


def test_a_watch_stops_when_the_audit_ends(clock: Clock) -> None:
    watch = Watch(os.getpid(), 60, 1 << 60, lambda: True)
    clock.now += 0.1
    with pytest.raises(StoppedError, match="the audit ended"):
        watch.check()
