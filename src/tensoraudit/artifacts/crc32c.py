"""CRC-32C (Castagnoli), the checksum that TensorFlow and TensorStore keep; for the few kilobytes of an index."""

from __future__ import annotations

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78


def _table() -> tuple[int, ...]:
    values = list(range(256))
    for _ in range(8):
        values = [value >> 1 ^ (_POLYNOMIAL if value & 1 else 0) for value in values]
    return tuple(values)


_TABLE: Final = _table()


def crc32c(data: bytes | memoryview) -> int:
    """Return the checksum of `data`, at some ten megabytes a second."""
    value, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF
