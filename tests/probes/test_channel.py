from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from tensoraudit.probes import channel as channels
from tensoraudit.probes.channel import Channel, ChannelClosedError, Tail, printable
from tensoraudit.probes.protocol import ProtocolError, encode


class Enough(Exception):
    """Raised by a check to stop waiting."""


def stop() -> None:
    raise Enough


class Ends:
    """A channel and the worker's ends of its pipes."""

    def __init__(self) -> None:
        self.requests, ours = os.pipe()
        theirs, self.replies = os.pipe()
        self.channel = Channel(ours, theirs)

    def close_theirs(self) -> None:
        os.close(self.requests)
        os.close(self.replies)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.channel.close()


def nothing() -> None:
    pass


def test_messages_arrive_whole_however_they_are_cut(ends: Ends) -> None:
    data = encode({"n": 1}) + encode({"n": 2, "text": "x" * 200_000}) + encode({"n": 3})

    def write() -> None:
        for start in range(0, len(data), 4099):
            os.write(ends.replies, data[start : start + 4099])

    writer = threading.Thread(target=write)
    writer.start()
    messages = ends.channel.messages(nothing)
    assert [next(messages)["n"] for _ in range(3)] == [1, 2, 3]
    writer.join()
    ends.close_theirs()
    with pytest.raises(ChannelClosedError):
        next(messages)


def test_waiting_ends_when_the_check_says_so(ends: Ends) -> None:
    checks = []

    def check() -> None:
        checks.append(1)
        if len(checks) == 4:
            raise Enough

    started = time.monotonic()
    with pytest.raises(Enough):
        next(ends.channel.messages(check))
    assert time.monotonic() - started >= 3 * channels.TICK * 0.9
    ends.close_theirs()


def test_a_stream_of_messages_cannot_keep_the_check_away(ends: Ends) -> None:
    os.write(ends.replies, encode({"progress": "."}) * 100)
    checks = []
    messages = ends.channel.messages(lambda: checks.append(1))
    for _ in range(100):
        next(messages)
    assert len(checks) >= 100
    ends.close_theirs()


def test_a_line_without_end_is_not_kept_for_ever(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "MAX_LINE", 1000)
    os.write(ends.replies, b"x" * 1500)
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        next(ends.channel.messages(nothing))
    ends.close_theirs()


def test_a_long_line_with_an_end_is_refused_too(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "MAX_LINE", 1000)
    os.write(ends.replies, encode({"text": "x" * 1500}))
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        next(ends.channel.messages(nothing))
    ends.close_theirs()


def test_sending_to_one_that_does_not_read_waits_for_the_check_only(ends: Ends) -> None:
    checks = []

    def check() -> None:
        checks.append(1)
        if len(checks) > 6:
            raise Enough

    with pytest.raises(Enough):
        ends.channel.send(b"x" * (4 << 20), check)
    ends.close_theirs()


def test_sending_to_one_that_is_gone_says_so(ends: Ends) -> None:
    ends.close_theirs()
    with pytest.raises(ChannelClosedError):
        ends.channel.send(b"{}\n", nothing)


def test_the_tail_keeps_the_end_of_a_flood() -> None:
    theirs, ours = os.pipe()
    tail = Tail(theirs)
    for _ in range(64):
        os.write(ours, b"x" * (1 << 16))
    os.write(ours, b"the end\n")
    os.close(ours)
    tail.finish(10)
    assert tail.total() == (64 << 16) + 8
    assert tail.text().endswith("xthe end\n")
    assert len(tail.text()) <= 1 << 16


def test_the_tail_of_one_job_leaves_out_what_came_before() -> None:
    theirs, ours = os.pipe()
    tail = Tail(theirs)
    os.write(ours, b"before\n")
    while tail.total() < 7:
        time.sleep(0.005)
    seen = tail.total()
    assert tail.text(seen) == ""
    os.write(ours, b"after\n")
    os.close(ours)
    tail.finish(10)
    assert tail.text(seen) == "after\n"


def test_text_for_people_steers_no_terminal() -> None:
    assert printable("a\tb\r\nc\x1b[31m\x9b\udc80é\n") == "a\tb\nc\ufffd[31m\ufffd\ufffdé\n"
