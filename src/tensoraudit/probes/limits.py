"""How long and how large a worker may get, and the watch that enforces it from the main process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tensoraudit.errors import ConfigError
from tensoraudit.probes import procfs
from tensoraudit.probes.outcome import Status

TICK = 0.05  # seconds between two looks at a worker; memory grows by at most some hundred MB in one
_GROUP_INTERVAL = 0.5  # seconds between two looks at a worker's own children
_GROUP_SHARE = 20  # looking for them may take one part in this many of the time, however many processes there are
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_UNKNOWN_MACHINE = 8 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one worker: `timeout` seconds per job, `memory` bytes of its own, `start` seconds until it greets.

    Memory that the system can take back (mapped files) does not count. The default is three quarters of what is
    available now. Raises ConfigError for a limit that no job could keep.
    """

    timeout: float = 600.0
    memory: int = field(default_factory=lambda: available_memory() // 4 * 3)
    start: float = 120.0

    def __post_init__(self) -> None:
        for name in ("timeout", "memory", "start"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"The {name} limit of a worker must be more than 0, not {getattr(self, name)}")


def available_memory() -> int:
    """Return the bytes that can be used now: what the machine has available, or what the container may have."""
    limits = [procfs.machine_memory()]
    for path in _CONTAINER_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        limits.append(int(text) if text.isdecimal() else 0)  # "max" means no limit
    return min(filter(None, limits), default=_UNKNOWN_MACHINE)


class StoppedError(Exception):
    """A worker has to be stopped; `status` and `reason` go into the outcome."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Watch:
    """Look after one worker during one job; `peak` is the most memory seen, in bytes."""

    def __init__(self, leader: int, seconds: float, memory: int, stop: Callable[[], bool]) -> None:
        self.peak = 0
        self._leader, self._seconds, self._memory, self._stop = leader, seconds, memory, stop
        self._started = self._last_look = time.monotonic()
        self._next_group = self._started + _GROUP_INTERVAL
        self._children: list[int] = []

    @property
    def seconds(self) -> float:
        """Seconds since the watch began."""
        return time.monotonic() - self._started

    def check(self) -> None:
        """Raise StoppedError when the worker must be stopped; costs next to nothing more often than once a tick."""
        now = time.monotonic()
        if now - self._last_look < TICK:
            return
        self._last_look = now
        if self._stop():
            raise StoppedError("crashed", "was stopped because the audit ended")
        if self.seconds > self._seconds:
            raise StoppedError("timeout", f"was stopped after {self._seconds:g} s (the limit)")
        used = self._used(now)
        self.peak = max(self.peak, used)
        if used > self._memory:
            raise StoppedError("crashed", f"was stopped at {gibibytes(used)} (limit {gibibytes(self._memory)})")

    def _used(self, now: float) -> int:
        if now >= self._next_group:
            self._children = [pid for pid in procfs.session_members(self._leader) if pid != self._leader]
            cost = time.monotonic() - now
            self._next_group = now + max(_GROUP_INTERVAL, _GROUP_SHARE * cost)
        return sum(map(procfs.private_memory, [self._leader, *self._children]))


def gibibytes(size: int) -> str:
    """Write a number of bytes in GiB with two digits after the point at most."""
    return f"{round(size / 2**30, 2):g} GiB"
