"""Zstandard, as far as small pieces of metadata need it: in plain Python, for the standard library has no decoder.

It serves headers of a few kilobytes and chunks of small arrays at about a megabyte a second. The size of what it
returns is bounded before anything is built, and every index is checked. Dictionaries are not supported, and checksums
are not verified: whoever stores such pieces has a checksum of its own. Format: RFC 8878.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tensoraudit.artifacts.zstd_entropy import (
    Bits,
    HuffmanTable,
    StateTable,
    ZstdError,
    read_distribution,
    read_huffman,
)

__all__ = ["ZstdError", "decompress"]

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_MAX_BLOCK: Final = 1 << 17
_RAW, _RLE, _COMPRESSED, _REPEATED = 0, 1, 2, 3

_LITERALS: Final = (
    *((size, 0) for size in range(16)), (16, 1), (18, 1), (20, 1), (22, 1), (24, 2), (28, 2), (32, 3), (40, 3), (48, 4),
    *((1 << bits, bits) for bits in range(6, 17)),
)  # fmt: skip
_MATCHES: Final = (
    *((size, 0) for size in range(3, 35)), (35, 1), (37, 1), (39, 1), (41, 1), (43, 2), (47, 2), (51, 3), (59, 3),
    (67, 4), (83, 4), (99, 5), *(((1 << bits) + 3, bits) for bits in range(7, 17)),
)  # fmt: skip
"""(smallest length, bits to add) by code, of runs of literals and of matches."""
_USUAL: Final = (
    ((4, 3, *(2,) * 11, 1, 1, 1, *(2,) * 9, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1), 6),
    ((*(1,) * 6, 2, 2, 2, *(1,) * 15, -1, -1, -1, -1, -1), 5),
    ((1, 4, 3, *(2,) * 6, *(1,) * 37, *(-1,) * 7), 6),
)
"""The distributions that need not be written, of literal lengths, offsets and match lengths."""
_LIMITS: Final = ((9, 35), (8, 31), (9, 52))
"""(most bits of a state, largest code), in the same order."""


@dataclass(slots=True)
class _Frame:
    """What is carried from block to block."""

    output: bytearray
    limit: int
    huffman: HuffmanTable | None = None
    tables: list[StateTable | None] = field(default_factory=lambda: [None, None, None])
    offsets: list[int] = field(default_factory=lambda: [1, 4, 8])

    def grow(self, data: bytes | bytearray) -> None:
        if len(self.output) + len(data) > self.limit:
            raise ZstdError(f"unpacks to more than {self.limit:,} bytes")
        self.output += data


def decompress(data: bytes, limit: int) -> bytes:
    """Return what the frames in `data` hold. Raises ZstdError for damage, and for more than `limit` bytes."""
    output = bytearray()
    at = 0
    try:
        while at < len(data):
            magic = int.from_bytes(data[at : at + 4], "little")
            if magic & ~0xF == _SKIPPABLE and len(data) >= at + 8:
                at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            elif magic == _MAGIC:
                at = _read_frame(data, at + 4, _Frame(output, limit))
            else:
                raise ZstdError("is no Zstandard frame")
    except IndexError as error:
        raise ZstdError("is cut short") from error
    if at > len(data):
        raise ZstdError("is cut short")
    return bytes(output)


def _read_frame(data: bytes, at: int, frame: _Frame) -> int:
    descriptor = data[at]
    single = descriptor >> 5 & 1
    if descriptor & 3:
        raise ZstdError("needs a dictionary")
    size_bytes = (single, 2, 4, 8)[descriptor >> 6]
    at += 1 + (1 - single)
    size = int.from_bytes(data[at : at + size_bytes], "little")
    if size > frame.limit:
        raise ZstdError(f"unpacks to {size:,} bytes, more than {frame.limit:,}")
    at += size_bytes
    last = False
    while not last:
        if at + 3 > len(data):
            raise ZstdError("is cut short")
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at = _read_block(data, at + 3, kind, size, frame)
    return at + 4 * (descriptor >> 2 & 1)


def _read_block(data: bytes, at: int, kind: int, size: int, frame: _Frame) -> int:
    if size > _MAX_BLOCK or kind == _REPEATED:
        raise ZstdError("has an impossible block")
    if kind == _RLE:
        frame.grow(data[at : at + 1] * size)
        return at + 1
    end = at + size
    if end > len(data):
        raise ZstdError("is cut short")
    if kind == _RAW:
        frame.grow(data[at:end])
    else:
        literals, at = _read_literals(data[:end], at, frame)
        _read_sequences(data[at:end], literals, frame)
    return end


def _read_literals(data: bytes, at: int, frame: _Frame) -> tuple[bytes, int]:
    kind, form = data[at] & 3, data[at] >> 2 & 3
    if kind in (_RAW, _RLE):
        width = (1, 2, 1, 3)[form]
        size = int.from_bytes(data[at : at + width], "little") >> (3 if width == 1 else 4)
        at += width
        if size > _MAX_BLOCK or (kind == _RAW and at + size > len(data)):
            raise ZstdError("is cut short")
        return (data[at : at + size], at + size) if kind == _RAW else (data[at : at + 1] * size, at + 1)
    width, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
    header = int.from_bytes(data[at : at + width], "little")
    size, packed = header >> 4 & ((1 << bits) - 1), header >> (4 + bits)
    at += width
    end = at + packed
    if end > len(data) or size > _MAX_BLOCK:
        raise ZstdError("is cut short")
    if kind == _COMPRESSED:
        frame.huffman, at = read_huffman(data[:end], at)
    if frame.huffman is None:
        raise ZstdError("refers to a table that is not there")
    return _huffman_streams(data[at:end], size, frame.huffman, 1 if form == 0 else 4), end


def _huffman_streams(data: bytes, size: int, table: HuffmanTable, streams: int) -> bytes:
    if streams == 1:
        return table.decode(data, size)
    lengths = [int.from_bytes(data[place : place + 2], "little") for place in (0, 2, 4)]
    at = 6
    each = (size + 3) // 4
    pieces = []
    for length in lengths:
        pieces.append(table.decode(data[at : at + length], each))
        at += length
    if at > len(data) or size < 3 * each:
        raise ZstdError("is cut short")
    pieces.append(table.decode(data[at:], size - 3 * each))
    return b"".join(pieces)


def _read_sequences(data: bytes, literals: bytes, frame: _Frame) -> None:
    count, at = data[0], 1
    if count >= 128:
        count, at = ((count - 128 << 8) + data[1], 2) if count < 255 else (data[1] + (data[2] << 8) + 0x7F00, 3)
    if count == 0:
        frame.grow(literals)
        return
    modes = data[at]
    at += 1
    for place, shift in enumerate((6, 4, 2)):
        frame.tables[place], at = _read_table(data, at, modes >> shift & 3, place, frame)
    _execute(Bits(data[at:]), count, literals, frame)


def _read_table(data: bytes, at: int, mode: int, place: int, frame: _Frame) -> tuple[StateTable, int]:
    most_bits, largest = _LIMITS[place]
    if mode == _RAW:  # by the number, of a table: the usual one
        return StateTable.build(*_USUAL[place]), at
    if mode == _RLE:
        if data[at] > largest:
            raise ZstdError("has an impossible code")
        return StateTable.constant(data[at]), at + 1
    if mode == _COMPRESSED:
        frequencies, bits, at = read_distribution(data, at, most_bits, largest)
        return StateTable.build(frequencies, bits), at
    table = frame.tables[place]
    if table is None:
        raise ZstdError("refers to a table that is not there")
    return table, at


def _execute(bits: Bits, count: int, literals: bytes, frame: _Frame) -> None:
    """Copy literals and matches as the sequences say."""
    lengths, offsets, matches = (_present(table) for table in frame.tables)
    state = [bits.read(table.bits) for table in (lengths, offsets, matches)]
    output, used = frame.output, 0
    for left in range(count - 1, -1, -1):
        code = offsets.symbols[state[1]]
        value = (1 << code) + bits.read(code)
        base, extra = _MATCHES[matches.symbols[state[2]]]
        match = base + bits.read(extra)
        base, extra = _LITERALS[lengths.symbols[state[0]]]
        run = base + bits.read(extra)
        if left:
            for place, table in ((0, lengths), (2, matches), (1, offsets)):
                state[place] = table.starts[state[place]] + bits.read(table.widths[state[place]])
        offset = _offset(frame.offsets, value, run)
        if used + run > len(literals) or not 0 < offset <= len(output) + run:
            raise ZstdError("copies bytes that are not there")
        frame.grow(literals[used : used + run])
        used += run
        start = len(output) - offset
        piece = bytes(output[start : start + match])
        if len(piece) < match:  # the match runs into itself
            piece = (piece * (match // len(piece) + 1))[:match]
        frame.grow(piece)
    frame.grow(literals[used:])


def _present(table: StateTable | None) -> StateTable:
    if table is None:
        raise ZstdError("refers to a table that is not there")
    return table


def _offset(recent: list[int], value: int, run: int) -> int:
    """Return how far back a match begins, and note it as the most recent offset."""
    if value > 3:
        recent[:] = [value - 3, recent[0], recent[1]]
        return recent[0]
    place = value - 1 + (run == 0)
    found = recent[0] - 1 if place == 3 else recent[place]
    if place:
        recent[:] = [found, recent[0], recent[1] if place > 1 else recent[2]]
    return found
