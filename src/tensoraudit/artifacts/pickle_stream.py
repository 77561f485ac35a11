"""The bytes of one or several pickles, one behind the other: bounded in size, and read as pickletools reads a file."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 256 << 20
"""Bytes of one stream of pickles; the data of tensors is not part of it."""

_MAX_LINE: Final = 1 << 16
_USUAL_LINE: Final = 256


class BrokenPickleError(ValueError):
    """The bytes are no (whole) pickle."""


class Stream:
    """The file that pickletools reads: a view with a position, and lines of bounded length."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.at, self._left = view, 0, MAX_BYTES

    def bounded(self) -> memoryview:
        """Return the view up to MAX_BYTES behind the position."""
        return self.view[: self.at + MAX_BYTES]

    def end_of(self, bounded: memoryview) -> str:
        """Return why a pickle goes no further than that view."""
        return f"more than {MAX_BYTES:,} bytes of pickle" if len(bounded) < len(self.view) else "no opcode STOP"

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end. Raises ValueError once MAX_BYTES have been returned."""
        chunk = bytes(self.view[self.at : self.at + min(size, self._left)])
        self._left -= len(chunk)
        if self._left <= 0:
            raise ValueError(f"more than {MAX_BYTES:,} bytes of pickle")
        self.at += len(chunk)
        return chunk

    def readline(self) -> bytes:
        """Return the bytes up to a line end, without one when it is too far."""
        for length in (_USUAL_LINE, _MAX_LINE):
            chunk = bytes(self.view[self.at : self.at + length])
            end = chunk.find(b"\n")
            if end >= 0:
                break
        line = chunk[: end + 1] or chunk
        self.at += len(line)
        return line

    def tell(self) -> int:
        """Return the position."""
        return self.at
