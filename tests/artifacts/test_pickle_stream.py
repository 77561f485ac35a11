from __future__ import annotations

import pytest

from tensoraudit.artifacts import pickle_stream
from tensoraudit.artifacts.pickle_stream import Stream


def test_lines_are_bounded() -> None:
    stream = Stream(memoryview(b"a\n" + b"b" * 300 + b"\n" + b"c" * 70_000))
    assert stream.readline() == b"a\n"
    assert stream.readline() == b"b" * 300 + b"\n"
    assert stream.readline() == b"c" * 65_536


def test_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_stream, "MAX_BYTES", 10)
    stream = Stream(memoryview(bytes(30)))
    assert stream.read(4) == bytes(4) and stream.tell() == 4
    assert len(stream.bounded()) == 14
    assert stream.end_of(stream.bounded()) == "more than 10 bytes of pickle"
    with pytest.raises(ValueError, match="more than 10 bytes"):
        stream.read(20)
    whole = Stream(memoryview(b"N"))
    assert whole.end_of(whole.bounded()) == "no opcode STOP"
