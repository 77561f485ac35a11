"""The main process's end of a worker's pipes: bounded, and never waiting longer than a tick.

The other side may run anybody's code: it may stop reading, never end a line, or write for ever.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tensoraudit.probes.limits import TICK
from tensoraudit.probes.protocol import MAX_LINE, ProtocolError, decode

_CHUNK = 1 << 16
_TAIL = 1 << 16  # bytes kept of what a worker wrote to stderr
_TAKEN_AT_ONCE = 32  # chunks; a pipe holds one, and a writer may refill it meanwhile
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class ChannelClosedError(Exception):
    """The worker closed its end of the control channel."""


class Channel:
    """Send and receive control messages over a pair of pipes, which it owns."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests, self._replies = requests, replies
        os.set_blocking(requests, False)
        os.set_blocking(replies, False)
        self._received = bytearray()
        self._searched = 0

    def send(self, line: bytes, check: Callable[[], None]) -> None:
        """Write one line; `check` runs meanwhile and stops the wait by raising. Raises ChannelClosedError."""
        rest = memoryview(line)
        while rest:
            check()
            try:
                rest = rest[os.write(self._requests, rest[:_CHUNK]) :]
            except BlockingIOError:
                _wait(self._requests, select.POLLOUT)
            except OSError as problem:
                raise ChannelClosedError from problem

    def messages(self, check: Callable[[], None]) -> Iterator[dict[str, Any]]:
        """Yield what arrives; `check` runs at least once a tick and stops the wait by raising.

        Raises ChannelClosedError at the end of the channel, ProtocolError for a line that is none of ours.
        """
        while True:
            check()
            if line := self._line():
                yield decode(line)
                continue
            if not _wait(self._replies, select.POLLIN):
                continue
            chunk = os.read(self._replies, _CHUNK)
            if not chunk:
                raise ChannelClosedError
            self._received += chunk

    def _line(self) -> bytes:
        end = self._received.find(b"\n", self._searched)
        if max(end, len(self._received) if end < 0 else 0) > MAX_LINE:
            raise ProtocolError(f"a line of more than {MAX_LINE} bytes")
        if end < 0:
            self._searched = len(self._received)
            return b""
        line = bytes(self._received[: end + 1])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def close(self) -> None:
        """Close both pipes, which tells the worker to end."""
        os.close(self._requests)
        os.close(self._replies)


def _wait(descriptor: int, event: int) -> bool:
    poll = select.poll()  # unlike select.select it takes descriptors beyond 1023
    poll.register(descriptor, event)
    return bool(poll.poll(TICK * 1000))


class Tail:
    """Drain a pipe in a thread of its own and keep the end of what came, so that a flood neither blocks nor fills."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._ended = False
        self._chunks: deque[bytes] = deque()
        self._kept = self._total = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, name="tensoraudit-stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not self._ended:
            poll.poll()
            self._take()
        os.close(self._descriptor)

    def _take(self) -> None:
        """Take what is in the pipe now; bounded, so that a flood does not hold the caller."""
        with self._lock:
            for _ in range(_TAKEN_AT_ONCE):
                try:
                    chunk = b"" if self._ended else os.read(self._descriptor, _CHUNK)
                except BlockingIOError:
                    return
                if not chunk:
                    self._ended = True
                    return
                self._chunks.append(chunk)
                self._kept += len(chunk)
                self._total += len(chunk)
                while self._kept - len(self._chunks[0]) >= _TAIL:
                    self._kept -= len(self._chunks.popleft())

    def total(self) -> int:
        """Return how many bytes were written until now, for `text`."""
        self._take()  # the thread may not have had its turn yet
        return self._total

    def text(self, since: int = 0) -> str:
        """Return the end of what came after the first `since` bytes, fit for a terminal."""
        wanted = min(self.total() - since, _TAIL)
        with self._lock:
            kept = b"".join(self._chunks)
        return printable(kept[-wanted:].decode(errors="replace")) if wanted > 0 else ""

    def finish(self, patience: float) -> None:
        """Wait until the last writer closed the pipe, at most `patience` seconds."""
        self._thread.join(patience)


def printable(text: str) -> str:
    """Replace what would steer a terminal or cannot be encoded: the text comes from anybody's code."""
    return _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n"))
