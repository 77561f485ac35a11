"""Sorted string tables, the format of LevelDB and of TensorFlow's `.index` files: keys and values, in the keys' order.

A table ends with 48 bytes that say where its index block stands; that block names the data blocks. In a block each key
drops what it shares with the key before it. Blocks' checksums are not computed: reading a header must not cost more
than the header, and whatever a block says is checked against the files by who uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensoraudit.artifacts.protobuf import WireError, varint

MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER: Final = 48
_TRAILER: Final = 5
"""Bytes behind a block: how it is packed, and a checksum."""
_MOST_BLOCK: Final = 16 << 20
_MOST_KEY: Final = 1 << 16
_MOST_KEY_BYTES: Final = 256 << 20
"""Of all keys together: shared beginnings let a small file spell out very long keys."""
_MOST_KEYS: Final = 1_000_000


class TableError(ValueError):
    """The bytes are no sorted string table that this reader knows; the text says what is wrong."""


def is_table(view: memoryview) -> bool:
    """Whether the bytes end as a table does."""
    return len(view) >= _FOOTER and bytes(view[-8:]) == MAGIC


def items(view: memoryview) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) in the order of the table. Raises TableError for damage and for more than a million keys."""
    if not is_table(view):
        raise TableError("it does not end as a table does")
    end = len(view) - _FOOTER
    try:
        at = end
        for _ in range(2):  # the block of filters, which nobody writes, then the index
            _, at = varint(view, at, len(view))
        start, at = varint(view, at, len(view))
        size, _ = varint(view, at, len(view))
        yield from _bounded(view, end, _block(view, start, size, end))
    except (WireError, IndexError) as error:
        raise TableError(f"a block that is damaged ({error})") from error


def _bounded(view: memoryview, end: int, index: bytes) -> Iterator[tuple[bytes, bytes]]:
    keys = spelled = 0
    for _, handle in _entries(index):
        start, at = varint(handle, 0, len(handle))
        size, _ = varint(handle, at, len(handle))
        for key, value in _entries(_block(view, start, size, end)):
            keys += 1
            spelled += len(key)
            if keys > _MOST_KEYS or spelled > _MOST_KEY_BYTES:
                raise TableError(f"more than {keys - 1:,} keys, {spelled:,} bytes of names")
            yield key, value


def _block(view: memoryview, start: int, size: int, end: int) -> bytes:
    if size > _MOST_BLOCK or start + size + _TRAILER > end:
        raise TableError(f"a block of {size:,} bytes at byte {start:,}, {end:,} bytes are there")
    if view[start + size] != 0:
        raise TableError(f"a block packed by method {view[start + size]}, which TensorFlow does not use")
    return bytes(view[start : start + size])


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if end < 0 or restarts == 0:
        raise TableError(f"a block that declares {restarts:,} restarts in {len(block):,} bytes")
    at, key = 0, b""
    while at < end:
        shared, at = _number(block, at, end)
        fresh, at = _number(block, at, end)
        length, at = _number(block, at, end)
        middle, stop = at + fresh, at + fresh + length
        if shared > len(key) or stop > end or shared + fresh > _MOST_KEY:
            raise TableError(f"an entry at byte {at:,} of a block that does not fit")
        key = key[:shared] + block[at:middle]
        yield key, block[middle:stop]
        at = stop


def _number(block: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint, nearly always of one byte."""
    return (block[at], at + 1) if at < end and block[at] < 0x80 else varint(block, at, end)
