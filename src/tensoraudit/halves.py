"""Work on a second processor: a forked copy of this process does a part of it and sends back what came of that.

A copy shares what is there already, so that only results travel. It never outlives the call. Where there is one
processor, no fork, or a second thread (which would be missing in the copy, with its locks still held), there is none.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Exchange = Callable[[Any], tuple[Any, ...]]
"""Hands a value to the other half, and returns those of both in the order of the halves."""

_LENGTH: Final = 8
"""Bytes that tell how long the message behind them is."""


class _LostError(Exception):
    """The other side is gone, or its message is not whole."""


def alone(value: Any) -> tuple[Any, ...]:
    """The exchange of one who does all the work."""
    return (value,)


def two_processors() -> bool:
    """Tell whether a copy of this process may run beside it. macOS has a fork that its own libraries do not survive."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threads() == 1


def threads() -> int:
    """Return how many threads this process has, those of libraries too; 2 where the system does not say."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 2


def in_two(work: Callable[[T, Exchange], R], first: T, second: T) -> tuple[R, R] | None:
    """Return what `work` makes of two halves, the second in a copy of this process; both may exchange the same number
    of values. What travels must be what pickle takes.

    None where there is no copy or it came to grief (killed, out of memory, an exception): nothing is lost but time.
    """
    copy = _fork(work, second) if two_processors() else None
    if copy is None:
        return None
    try:
        with copy:
            mine = work(first, copy.exchange)
            return mine, copy.receive()
    except _LostError:
        return None


@contextmanager
def ahead(work: Callable[[], R]) -> Iterator[Callable[[], R | None]]:
    """Begin `work` in a copy of this process; what is handed out waits for its result, once.

    None where there is no copy or it came to grief: nothing is lost but time. With the block the copy ends too.
    """
    copy = _fork(lambda *_: work(), None) if two_processors() else None
    if copy is None:
        yield lambda: None
        return
    with copy:
        yield copy.result


def _fork(work: Callable[[T, Exchange], Any], half: T) -> _Copy | None:
    """Return a copy at work, None where there is no room for one."""
    (here, to_here), (there, to_there) = os.pipe(), os.pipe()
    try:
        process = os.fork()
    except OSError:
        for end in (here, to_here, there, to_there):
            os.close(end)
        return None
    if process == 0:
        try:  # nothing of the original may go on in the copy, not even its handling of Ctrl-C
            os.close(here)
            os.close(to_there)
            _work(work, half, _Ends(os.fdopen(there, "rb"), os.fdopen(to_here, "wb")))
        finally:
            os._exit(0)
    os.close(there)
    os.close(to_here)
    return _Copy(_Ends(os.fdopen(here, "rb"), os.fdopen(to_there, "wb")), process)


def _work(work: Callable[[T, Exchange], Any], half: T, ends: _Ends) -> None:
    def exchange(value: Any) -> tuple[Any, Any]:
        ends.send(value)  # it sends first and the original reads first, or both would wait with full pipes
        return ends.receive(), value

    gc.disable()  # a copy leaves before there is much to collect
    ends.send(work(half, exchange))


@dataclass(frozen=True, slots=True)
class _Ends:
    """The ends of the two pipes that one side holds."""

    source: BinaryIO
    sink: BinaryIO

    def send(self, value: Any) -> None:
        body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        try:
            self.sink.write(len(body).to_bytes(_LENGTH, "big"))
            self.sink.write(body)
            self.sink.flush()
        except OSError as error:
            raise _LostError from error

    def receive(self) -> Any:
        size = int.from_bytes(self.source.read(_LENGTH), "big")
        body = self.source.read(size)
        if not size or len(body) < size:
            raise _LostError
        return pickle.loads(body)  # noqa: S301 - from our own copy, by a pipe that nobody else holds


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy at work, as the original sees it."""

    ends: _Ends
    process: int

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, *_: object) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.ends.source.close()
        try:
            self.ends.sink.close()
        except OSError:  # what it holds can go nowhere any more
            return

    def exchange(self, value: Any) -> tuple[Any, Any]:
        """Take the copy's value and give it ours."""
        theirs = self.receive()
        self.ends.send(value)
        return value, theirs

    def receive(self) -> Any:
        """Wait for what the copy sends. Raises _LostError."""
        return self.ends.receive()

    def result(self) -> Any:
        """Wait for what the copy sends, None where that does not come."""
        try:
            return self.receive()
        except _LostError:
            return None
