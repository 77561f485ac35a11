"""Zstandard frames with a bound on what they unpack to."""

from __future__ import annotations

from typing import Final

import zstandard

_SLICE: Final = 512
"""Bytes that are given to the decoder at once: four of them are enough for a block of 128 KiB."""
_WINDOW: Final = 1 << 27
"""The largest window that is granted, in bytes; the encoder's own default level wants 2 MiB."""


class ZstdError(ValueError):
    """Bytes that are no Zstandard, are damaged, or unpack to too much."""


def decompress(data: bytes, limit: int) -> bytes:
    """Return what the frames in `data` hold. Raises ZstdError for damage, and for more than `limit` bytes."""
    output, decoder = bytearray(), None
    rest = memoryview(data)
    while rest:
        decoder = decoder or zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        piece, rest = rest[:_SLICE], rest[_SLICE:]
        try:
            output += decoder.decompress(piece)
        except zstandard.ZstdError as error:
            raise ZstdError(f"is no Zstandard frame, or a damaged one ({error})") from error
        if len(output) > limit:
            raise ZstdError(f"unpacks to more than {limit:,} bytes")
        if decoder.eof:
            rest = memoryview(data)[len(data) - len(rest) - len(decoder.unused_data) :]
            decoder = None
    if decoder is not None:
        raise ZstdError("is cut short")
    return bytes(output)
