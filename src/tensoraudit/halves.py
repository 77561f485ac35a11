"""Work on a second processor: a forked copy of this process does its part and sends back what came of it.

A copy shares what was read so far, so that only results travel. It never outlives the call. Where there is one
processor, no fork, or a second thread (which would be missing in the copy, with its locks still held), and where the
copy comes to grief (killed, out of memory, an exception), this process does all the work itself.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def two_processors() -> bool:
    """Tell whether a copy of this process may run beside it. macOS has a fork that its own libraries do not survive."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


def both(here: Callable[[], T], there: Callable[[], T]) -> tuple[T, T]:
    """Return what two pieces of work give; that of `there` must be made of what pickle takes."""
    copy = _fork(there) if two_processors() else None
    if copy is None:
        return here(), there()
    with copy:
        mine = here()
        theirs = copy.answer()
    return mine, there() if theirs is None else theirs[0]


def _fork(work: Callable[[], Any]) -> _Copy | None:
    """Return a copy of this process that does one piece of work, None where there is no room for one."""
    pipe, end = os.pipe()
    try:
        process = os.fork()
    except OSError:
        os.close(pipe)
        os.close(end)
        return None
    if process == 0:
        os.close(pipe)
        _work_and_leave(work, end)
    os.close(end)
    return _Copy(process, pipe)


def _work_and_leave(work: Callable[[], Any], end: int) -> None:
    """Nothing of the original may run in the copy but the work: no handlers, no buffers written out twice."""
    try:
        body = pickle.dumps(work(), pickle.HIGHEST_PROTOCOL)
        with os.fdopen(end, "wb") as file:
            file.write(b"%d\n" % len(body))
            file.write(body)
    finally:
        os._exit(0)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy at work, and the end of the pipe that its result comes through."""

    process: int
    pipe: int

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, *_: object) -> None:
        os.close(self.pipe)
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def answer(self) -> tuple[Any] | None:
        """Wait for the result; None when none came, or not the whole of it."""
        with open(self.pipe, "rb", closefd=False) as file:
            size, data = file.readline(), file.read()
        whole = size.strip().isdigit() and int(size) == len(data)
        return (pickle.loads(data),) if whole else None  # noqa: S301 - written by ourselves, into a pipe nobody else has
