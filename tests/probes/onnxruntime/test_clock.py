from __future__ import annotations

import math
import signal
import time

import pytest

from tensoraudit.probes.onnxruntime.clock import Clock, OutOfTimeError


def sample(*shape):
    return {"name": "s", "arrays": {"x": {"file": "x", "shape": list(shape)}, "flag": {"value": True}}}


def busy():
    until = time.monotonic() + 30
    while time.monotonic() < until:
        pass


def test_a_loop_is_stopped_and_nothing_is_left_after_it():
    clock = Clock(0.1, "counting")
    started = time.monotonic()
    why = r"counting takes more than the 0\.1 s that all input sets together"
    with pytest.raises(OutOfTimeError, match=why), clock.turn(sample(2)):
        busy()
    assert time.monotonic() - started < 20
    with pytest.raises(OutOfTimeError), clock.turn(sample(2)):
        raise AssertionError("there was no time to begin this")


def test_what_would_take_too_long_is_not_begun():
    clock = Clock(1.0, "counting")
    with clock.turn(sample(10)):
        time.sleep(0.05)
    with pytest.raises(OutOfTimeError), clock.turn(sample(10, 100)):  # 5 s by the rate of the first
        raise AssertionError("100 times the elements")
    with clock.turn(sample(10)):
        pass


def test_without_a_limit_there_is_no_alarm():
    before = signal.getsignal(signal.SIGALRM)
    with Clock(math.inf, "").turn(sample(2)):
        assert signal.getsignal(signal.SIGALRM) is before


def test_an_alarm_of_others_goes_on():
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    before, _ = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with Clock(10, "counting").turn(sample(2)):
            time.sleep(0.05)
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.2
        time.sleep(0.25)
        assert rung == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, before)
