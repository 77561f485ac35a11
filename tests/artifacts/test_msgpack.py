"""MessagePack: every code of the format by hand, and bytes that promise more than there is."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.msgpack import MAX_DEPTH, MAX_VALUES, Blob, Extension, MsgpackError, read_msgpack


def value(data: bytes):
    found, end = read_msgpack(data, 0, len(data))
    assert end == len(data)
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\xff", -1),
        (b"\xe0", -32),
        (b"\xc0", None),
        (b"\xc2", False),
        (b"\xc3", True),
        (b"\xcc\xff", 255),
        (b"\xcd\x01\x00", 256),
        (b"\xce\x00\x01\x00\x00", 65536),
        (b"\xcf" + b"\xff" * 8, 2**64 - 1),
        (b"\xd0\x80", -128),
        (b"\xd1\x80\x00", -32768),
        (b"\xd2\x80\x00\x00\x00", -(2**31)),
        (b"\xd3\x80" + bytes(7), -(2**63)),
        (b"\xca" + struct.pack(">f", 1.5), 1.5),
        (b"\xcb" + struct.pack(">d", 0.1), 0.1),
        (b"\xa2ab", "ab"),
        (b"\xd9\x02ab", "ab"),
        (b"\xda\x00\x02ab", "ab"),
        (b"\xdb\x00\x00\x00\x02ab", "ab"),
        (b"\xa1\xff", "\\xff"),
        (b"\x92\x01\x02", [1, 2]),
        (b"\xdc\x00\x01\x03", [3]),
        (b"\xdd\x00\x00\x00\x01\x03", [3]),
        (b"\x81\xa1a\x01", {"a": 1}),
        (b"\x81\x05\x01", {"5": 1}),
        (b"\xde\x00\x01\xa1a\x01", {"a": 1}),
        (b"\xdf\x00\x00\x00\x01\xa1a\x01", {"a": 1}),
        (b"\xc4\x02ab", Blob(2, 4)),
        (b"\xc5\x00\x02ab", Blob(3, 5)),
        (b"\xc6\x00\x00\x00\x02ab", Blob(5, 7)),
        (b"\xd4\x07a", Extension(7, 2, 3)),
        (b"\xd6\x07abcd", Extension(7, 2, 6)),
        (b"\xd8\xff" + bytes(16), Extension(-1, 2, 18)),
        (b"\xc7\x02\x07ab", Extension(7, 3, 5)),
        (b"\xc8\x00\x02\x07ab", Extension(7, 4, 6)),
        (b"\xc9\x00\x00\x00\x02\x07ab", Extension(7, 6, 8)),
    ],
)
def test_every_code(data, expected):
    assert value(data) == expected
    for cut in range(len(data)):
        with pytest.raises(MsgpackError):
            read_msgpack(data[:cut], 0, cut)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xc1", "unused"),
        (b"\xdd\xff\xff\xff\xff", "more than there can be"),
        (b"\xdf\xff\xff\xff\xff", "more than there can be"),
        (b"\xc6\xff\xff\xff\xff", "declares 4,294,967,295 bytes"),
        (b"\x82\xa1a\x01\xa1a\x02", "twice"),
        (b"\x82\x05\x01\xa15\x02", "twice"),
        (b"\x81\x90\x01", "no name"),
        (b"\x81\xc3\x01", "no name"),
        (b"\x81\xda\x20\x00" + b"k" * 8192 + b"\x01", "no name"),
        (b"\x91" * (MAX_DEPTH + 2) + b"\x01", "levels deep"),
        (b"\x91" * 1_000_000, "levels deep"),
        (b"\xdd" + struct.pack(">I", MAX_VALUES + 1) + bytes(MAX_VALUES + 1), "more than"),
    ],
)
def test_bombs_and_ambiguities_are_refused(data, words):
    tracemalloc.start()
    with pytest.raises(MsgpackError, match=words):
        read_msgpack(data, 0, len(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_many_small_values_end_at_the_bound():
    inner = b"\xdd" + struct.pack(">I", 1000) + bytes(1000)
    outer = b"\xdd" + struct.pack(">I", 3000) + inner * 3000
    with pytest.raises(MsgpackError, match="more than"):
        read_msgpack(outer, 0, len(outer))


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_any_bytes_give_an_answer_or_a_refusal(data):
    try:
        _, end = read_msgpack(data, 0, len(data))
    except MsgpackError:
        return
    assert 0 < end <= len(data)
