"""Sorted string tables: what is written comes back, and tables made to hurt are refused at once."""

from __future__ import annotations

import contextlib
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.checkpoints.sstable import MAGIC, TableError, is_table, items


def read(raw):
    return list(items(memoryview(raw)))


@settings(max_examples=100)
@given(st.dictionaries(st.binary(max_size=20), st.binary(max_size=300), max_size=60), st.integers(1, 9))
def test_what_was_written_comes_back(make_table, content, block):
    pairs = sorted(content.items())
    raw = make_table(pairs, block)
    assert is_table(memoryview(raw)) and read(raw) == pairs


def test_long_names_share_their_beginnings(make_table):
    pairs = [(b"a/very/long/beginning/%05d" % number, b"x") for number in range(3_000)]
    raw = make_table(pairs, 500)
    assert read(raw) == pairs and len(raw) < 40_000


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def entry(shared, fresh, value=b""):
    return varint(shared) + varint(len(fresh)) + varint(len(value)) + fresh + value


def table(block, packed=0, index=None):
    body = block + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    data = body + bytes((packed,)) + bytes(4)
    listing = index or entry(0, b"z", varint(0) + varint(len(body)))
    listing += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    handles = varint(0) + varint(0) + varint(len(data)) + varint(len(listing))
    return data + listing + bytes(5) + handles.ljust(40, b"\0") + MAGIC


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "does not end as a table"),
        (table(entry(0, b"a"))[:-1], "does not end as a table"),
        (table(entry(0, b"a"), packed=1), "packed by method 1"),
        (table(entry(3, b"a")), "does not fit"),
        (table(entry(0, b"a" * 70_000)), "does not fit"),
        (table(b"\0\xff\xff"), "damaged"),
        (
            table(entry(0, b"a"), index=entry(0, b"z", varint(0) + varint(1 << 40))),
            "a block of 1,099,511,627,776 bytes",
        ),
        (table(entry(0, b"a"), index=entry(0, b"z", varint(1 << 50) + varint(9))), "a block of 9 bytes at byte"),
        (table(entry(0, b"a"), index=entry(0, b"z", b"")), "damaged"),
        (MAGIC.rjust(48, b"\0"), "a block of 0 bytes"),
        (bytes(53) + (bytes(2) + b"\0\x08").ljust(40, b"\0") + MAGIC, "0 restarts in 8 bytes"),
        (MAGIC.rjust(48, b"\xff"), "damaged"),
    ],
)
def test_damage(raw, words):
    with pytest.raises(TableError, match=words):
        read(raw)
    if raw:
        assert is_table(memoryview(raw)) == (raw[-8:] == MAGIC)


def refused(raw):
    """The seconds of work until a table is refused for what it spells out."""
    start = time.process_time()
    with pytest.raises(TableError, match="more than"):
        for _ in items(memoryview(raw)):
            pass
    return time.process_time() - start


def test_short_entries_that_spell_out_long_names():
    raw = table(entry(0, b"a" * 60_000) + entry(60_000, b"b") * 100_000)
    tracemalloc.start()
    assert refused(raw) < 10
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


@pytest.mark.slow
def test_ten_million_keys():
    block = entry(0, b"a") * 1_000_000
    listing = entry(0, b"z", varint(0) + varint(len(block) + 8)) * 10
    assert refused(table(block, index=listing)) < 30


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_random_bytes(content, end):
    with contextlib.suppress(TableError):
        read(content + end.ljust(40, b"\0") + MAGIC)
