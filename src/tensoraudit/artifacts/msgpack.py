"""MessagePack read as places: containers and small values are built, long ones stay where they are in the file.

Declared counts and lengths are checked against the bytes that are left before anything is built, depth and the number
of values are bounded, and a key twice in one map is refused. Knows nothing of what the values mean.
Format: https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.protobuf import Buffer

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 2_000_000
MAX_KEY: Final = 4096
"""Bytes of a key; the longest names of parameters have a few hundred."""
MAX_TEXT: Final = 1 << 16


class MsgpackError(ValueError):
    """The bytes are no MessagePack that is read here; the message is a clause."""


class Blob(NamedTuple):
    """Bytes, or a text of more than MAX_TEXT bytes, at data[start:end]."""

    start: int
    end: int


class Extension(NamedTuple):
    """An application's own type, its payload at data[start:end]."""

    code: int
    start: int
    end: int


def read_msgpack(data: Buffer, start: int, end: int) -> tuple[Any, int]:
    """Return the value at `start` and where it ends. Maps are dicts with text keys (numbers become their digits).

    Raises MsgpackError for what is no whole value within these bounds, or is too deep or too large.
    """
    reader = _Reader(data, end)
    value = reader.value(start, 0)
    return value, reader.at


@dataclass(slots=True)
class _Reader:
    data: Buffer
    end: int
    at: int = 0
    left: int = MAX_VALUES

    def value(self, at: int, depth: int) -> Any:
        """Read one value and leave `self.at` behind it."""
        self.left -= 1
        if self.left < 0:
            raise MsgpackError(f"holds more than {MAX_VALUES:,} values")
        if depth > MAX_DEPTH:
            raise MsgpackError(f"nests more than {MAX_DEPTH} levels deep")
        if at >= self.end:
            raise MsgpackError(f"ends at byte {at:,} in the middle of a value")
        code = self.data[at]
        self.at = at + 1
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code < 0x90:
            return self._map(code & 0x0F, depth)
        if code < 0xA0:
            return self._array(code & 0x0F, depth)
        if code < 0xC0:
            return self._text(code & 0x1F)
        return _READ[code](self, depth)

    def number(self, form: str) -> Any:
        """Read a number of `struct` format `form`."""
        size = struct.calcsize(form)
        place = self.take(size)
        return struct.unpack_from(form, self.data, place)[0]

    def take(self, size: int) -> int:
        """Pass over `size` bytes and return where they begin."""
        start = self.at
        if size > self.end - start:
            raise MsgpackError(f"declares {size:,} bytes at byte {start:,}, where {self.end - start:,} are left")
        self.at = start + size
        return start

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        self._check_count(2 * count)
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self.value(self.at, depth + 1)
            if isinstance(key, bool) or not isinstance(key, str | int) or len(str(key)) > MAX_KEY:
                raise MsgpackError(f"has a key before byte {self.at:,} that is no name")
            name = str(key)
            if name in found:
                raise MsgpackError(f"has the key {name[:100]!r} twice in one map")
            found[name] = self.value(self.at, depth + 1)
        return found

    def _array(self, count: int, depth: int) -> list[Any]:
        self._check_count(count)
        return [self.value(self.at, depth + 1) for _ in range(count)]

    def _check_count(self, count: int) -> None:
        if count > min(self.end - self.at, self.left):
            raise MsgpackError(f"declares {count:,} values at byte {self.at:,}, more than there can be")

    def _text(self, size: int) -> str | Blob:
        start = self.take(size)
        if size > MAX_TEXT:
            return Blob(start, start + size)
        return str(bytes(self.data[start : start + size]), "utf-8", "backslashreplace")

    def sized(self, form: str, kind: str, depth: int) -> Any:
        """Read a value whose size or count stands in front of it in format `form`."""
        size = self.number(form)
        if kind == "map":
            return self._map(size, depth)
        if kind == "array":
            return self._array(size, depth)
        if kind == "text":
            return self._text(size)
        if kind == "extension":
            return self.extension(size)
        start = self.take(size)
        return Blob(start, start + size)

    def extension(self, size: int) -> Extension:
        """Read an application's own type of `size` bytes."""
        code = self.number(">b")
        start = self.take(size)
        return Extension(code, start, start + size)


def _constant(value: Any) -> Callable[[_Reader, int], Any]:
    return lambda reader, depth: value


def _number(form: str) -> Callable[[_Reader, int], Any]:
    return lambda reader, depth: reader.number(form)


def _sized(form: str, kind: str) -> Callable[[_Reader, int], Any]:
    return lambda reader, depth: reader.sized(form, kind, depth)


def _fixed_extension(size: int) -> Callable[[_Reader, int], Any]:
    return lambda reader, depth: reader.extension(size)


def _unused(reader: _Reader, depth: int) -> Any:
    raise MsgpackError(f"has the unused code 0xc1 at byte {reader.at - 1:,}")


_READ: Final[dict[int, Callable[[_Reader, int], Any]]] = {
    0xC0: _constant(None), 0xC1: _unused, 0xC2: _constant(False), 0xC3: _constant(True),
    0xC4: _sized(">B", "bytes"), 0xC5: _sized(">H", "bytes"), 0xC6: _sized(">I", "bytes"),
    0xC7: _sized(">B", "extension"), 0xC8: _sized(">H", "extension"), 0xC9: _sized(">I", "extension"),
    0xCA: _number(">f"), 0xCB: _number(">d"),
    0xCC: _number(">B"), 0xCD: _number(">H"), 0xCE: _number(">I"), 0xCF: _number(">Q"),
    0xD0: _number(">b"), 0xD1: _number(">h"), 0xD2: _number(">i"), 0xD3: _number(">q"),
    0xD4: _fixed_extension(1), 0xD5: _fixed_extension(2), 0xD6: _fixed_extension(4), 0xD7: _fixed_extension(8),
    0xD8: _fixed_extension(16),
    0xD9: _sized(">B", "text"), 0xDA: _sized(">H", "text"), 0xDB: _sized(">I", "text"),
    0xDC: _sized(">H", "array"), 0xDD: _sized(">I", "array"), 0xDE: _sized(">H", "map"), 0xDF: _sized(">I", "map"),
}  # fmt: skip
