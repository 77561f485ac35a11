"""A budget of time for the NumPy evaluator, which nothing else stops while it loops in Python."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class OutOfTimeError(Exception):
    """There is no time left; the text is a reason for the report."""


class Clock:
    """What is left of a budget in seconds, and what an input set will take at least, by those before it."""

    def __init__(self, budget: float, what: str) -> None:
        self._left, self._rate = budget, 0.0
        self._reason = f"{what} takes more than the {budget:g} s that all input sets together have for it"

    @contextmanager
    def turn(self, sample: Mapping[str, Any]) -> Iterator[None]:
        """Run the body, which evaluates a sample, on what is left.

        Raises OutOfTimeError when that is over, and before the body where it is known already.
        """
        elements = _elements(sample)
        if self._left <= 0 or self._rate * elements > self._left:
            raise OutOfTimeError(self._reason)
        started = time.monotonic()
        try:
            with _time_limit(self._left, self._reason):
                yield
        finally:
            taken = time.monotonic() - started
            self._left -= taken
            self._rate = max(self._rate, taken / elements)


def _elements(sample: Mapping[str, Any]) -> int:
    total = 0
    for reference in sample["arrays"].values():
        size = 1
        for length in reference.get("shape", ()):
            size *= length
        total += size
    return max(1, total)


@contextmanager
def _time_limit(seconds: float, reason: str) -> Iterator[None]:
    """Raise OutOfTimeError in the main thread, where jobs run, and leave an alarm of others as it was."""
    if math.isinf(seconds):
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise OutOfTimeError(reason)

    handler, started = signal.signal(signal.SIGALRM, stop), time.monotonic()
    before, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if before:
            signal.setitimer(signal.ITIMER_REAL, max(1e-3, before - (time.monotonic() - started)), interval)
