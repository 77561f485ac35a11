"""The log of one load: every event as it happens, in memory and as JSON lines, flushed one by one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from tensoraudit.errors import InputError

Event = Mapping[str, Any]


class Writable(Protocol):
    """Anything that text can be written to."""

    def write(self, text: str, /) -> object:
        """Take a line."""


class AuditLog:
    """Events in their order; `to` is a file to append to, anything with `write`, or None for memory alone.

    A line is in the file when `add` returns. Raises InputError where it cannot be written: a log with holes is none.
    """

    def __init__(self, to: str | os.PathLike[str] | Writable | None = None) -> None:
        self.events: list[Event] = []
        self._lock = Lock()
        self._path = Path(to) if isinstance(to, str | os.PathLike) else None
        self._to: Writable | None = None if isinstance(to, str | os.PathLike) else to
        if self._path is not None:
            with self._written():
                self._to = self._path.open("a", encoding="utf-8")

    def add(self, event: str, **more: Any) -> Event:
        """Write one event down and return it."""
        return self.extend(({"event": event, **more},))[0]

    def extend(self, events: Iterable[Event]) -> list[Event]:
        """Write several events down, which cost one write together."""
        new = list(events)
        with self._lock:
            self.events += new
            if self._to is not None and new:
                with self._written():
                    self._to.write("".join(f"{_line(each)}\n" for each in new))
                    flush = getattr(self._to, "flush", None)
                    if flush is not None:
                        flush()
        return new

    def close(self) -> None:
        """Close the file that was opened here; what the caller gave stays open."""
        with self._lock:
            if self._path is not None and self._to is not None:
                self._to.close()  # type: ignore[attr-defined]
            self._to = None

    def _written(self) -> _Written:
        return _Written(self._path)


class _Written:
    """Turns what a disk refuses into a sentence."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, OSError):
            raise InputError(
                f"the audit log cannot be written: {problem.strerror or problem}",
                where=str(self._path or "log"),
                remedy="Name a file in a folder that exists, can be written and has room.",
            ) from problem


def _line(event: Event) -> str:
    return json.dumps({key: _plain(value) for key, value in event.items()}, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity; they become the texts that the reports use."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
