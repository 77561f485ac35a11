"""TensorStore's OCDBT database, in which Orbax keeps arrays: a B+tree of keys in log files, read from its manifest.

The tree is walked once and gives where each value lies. Every length is checked against what encloses it, every node is
visited once, checksums are verified, and no file outside the database's folder is opened. Format: the section "Storage
format" of TensorStore's documentation of the `ocdbt` driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tensoraudit.artifacts.crc32c import crc32c
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.artifacts.protobuf import WireError, varint
from tensoraudit.artifacts.zstd import ZstdError, decompress
from tensoraudit.errors import InputError

MANIFEST: Final = "manifest.ocdbt"
MAX_KEYS: Final = 2_000_000
_MANIFEST_MAGIC, _NODE_MAGIC = 0x0CDB3A2A, 0x0CDB20DE
_MAX_DECODED: Final = 64 << 20
_MAX_ALL_DECODED: Final = 512 << 20
_MAX_FILES: Final = 1 << 16
_MAX_PATH: Final = 4096
_AGAIN: Final = "Copy the whole folder of the checkpoint again, or save it again."


class Place(NamedTuple):
    """Where a value lies: bytes of a file, relative to the database's folder."""

    file: str
    offset: int
    length: int


class _DamagedError(ValueError):
    """The database cannot be read; the message is a clause."""


def read_database(folder: Path) -> dict[str, Place | bytes]:
    """Return every key of the newest version with its value, or the place of one that stands apart.

    Raises InputError where the database is damaged or is larger than MAX_KEYS.
    """
    try:
        return _Database(folder).read()
    except (_DamagedError, WireError, ZstdError, IndexError) as error:
        message = f"is a damaged OCDBT database: {error}"
        raise InputError(message, where=str(folder / MANIFEST), remedy=_AGAIN) from error


@dataclass(slots=True)
class _Cursor:
    data: bytes
    at: int = 0

    def varint(self) -> int:
        value, self.at = varint(self.data, self.at, len(self.data))
        return value

    def varints(self, count: int) -> list[int]:
        if count > len(self.data) - self.at:
            raise _DamagedError(f"{count:,} numbers are declared where {len(self.data) - self.at:,} bytes are left")
        return [self.varint() for _ in range(count)]

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise _DamagedError(f"{size:,} bytes are declared where {len(self.data) - self.at:,} are left")
        self.at += size
        return self.data[self.at - size : self.at]


@dataclass(slots=True)
class _Database:
    folder: Path
    found: dict[str, Place | bytes] = field(default_factory=dict)
    seen: set[Place] = field(default_factory=set)
    views: dict[str, memoryview] = field(default_factory=dict)
    decoded: int = 0

    def read(self) -> dict[str, Place | bytes]:
        cursor = self._decode(map_file(self.folder / MANIFEST), _MANIFEST_MAGIC)
        cursor.take(16)  # the database's identifier
        if cursor.varint() != 0:
            raise _DamagedError("its manifests are numbered, a kind that Orbax does not write")
        cursor.varints(2)  # sizes of inline values and of nodes
        cursor.take(1)  # arity of the tree of versions
        if cursor.varint():
            cursor.take(4)  # level of compression
        files = _files(cursor, "")
        versions = cursor.varint()
        if not versions:
            return self.found
        cursor.varints(versions)  # generations, the newest last
        heights = cursor.take(versions)
        numbers, offsets, lengths = (cursor.varints(versions) for _ in range(3))
        if numbers[-1] >= len(files):
            raise _DamagedError("a version refers to a file that is not listed")
        base, name = files[numbers[-1]]
        if lengths[-1]:
            self._node(Place(name, offsets[-1], lengths[-1]), heights[-1], base, b"")
        return self.found

    def _decode(self, data: memoryview, magic: int) -> _Cursor:
        """Check and unpack a manifest or a node."""
        if len(data) < 18 or int.from_bytes(data[:4], "big") != magic:
            raise _DamagedError("a node does not begin as one")
        if int.from_bytes(data[4:12], "little") != len(data):
            raise _DamagedError("a node has another length than it says")
        if crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise _DamagedError("a checksum is wrong")
        if data[12] != 0 or data[13] > 1:
            raise _DamagedError(f"a node is of version {data[12]}, compression {data[13]}")
        body = bytes(data[14:-4])
        content = decompress(body, _MAX_DECODED) if data[13] else body
        self.decoded += len(content)
        if self.decoded > _MAX_ALL_DECODED:
            raise _DamagedError(f"its nodes unpack to more than {_MAX_ALL_DECODED:,} bytes")
        return _Cursor(content)

    def _node(self, place: Place, height: int, base: str, prefix: bytes) -> None:
        if place in self.seen:
            raise _DamagedError("a node is part of the tree twice")
        self.seen.add(place)
        cursor = self._decode(self._bytes(place), _NODE_MAGIC)
        if cursor.take(1)[0] != height:
            raise _DamagedError("a node stands at another height than its parent says")
        files = _files(cursor, base)
        count = cursor.varint()
        shared = [0, *cursor.varints(count - 1)] if count else []
        lengths = cursor.varints(count)
        if height:
            common = cursor.varints(count)
            keys = _keys(cursor, shared, lengths, prefix)
            places = list(_places(cursor, files, count))
            for key, size, (own_base, child) in zip(keys, common, places, strict=True):
                self._node(child, height - 1, own_base, key[: len(prefix) + size])
        else:
            self._leaf(cursor, files, _keys(cursor, shared, lengths, prefix))

    def _leaf(self, cursor: _Cursor, files: list[tuple[str, str]], keys: list[bytes]) -> None:
        lengths = cursor.varints(len(keys))
        kinds = cursor.take(len(keys))
        apart = [length for length, kind in zip(lengths, kinds, strict=True) if kind]
        numbers, offsets = cursor.varints(len(apart)), cursor.varints(len(apart))
        if max(kinds, default=0) > 1 or max(numbers, default=-1) >= len(files):
            raise _DamagedError("a leaf refers to a file that is not listed")
        places = iter([Place(files[number][1], *rest) for number, *rest in zip(numbers, offsets, apart, strict=True)])
        for key, length, kind in zip(keys, lengths, kinds, strict=True):
            self.found[str(key, "utf-8", "backslashreplace")] = next(places) if kind else cursor.take(length)
        if len(self.found) > MAX_KEYS:
            raise _DamagedError(f"it has more than {MAX_KEYS:,} keys")

    def _bytes(self, place: Place) -> memoryview:
        if place.file not in self.views:
            status = Neighbours(self.folder).status(place.file)
            if status != "ok":
                raise _DamagedError(f"its file {place.file!r} is {status}")
            self.views[place.file] = map_file(self.folder / place.file)
        view = self.views[place.file]
        if place.offset + place.length > len(view):
            raise _DamagedError(f"its file {place.file!r} ends before byte {place.offset + place.length:,}")
        return view[place.offset : place.offset + place.length]


def _files(cursor: _Cursor, base: str) -> list[tuple[str, str]]:
    """Return the table of files of a node: (base of the paths in what it refers to, whole path)."""
    count = cursor.varint()
    if count > _MAX_FILES:
        raise _DamagedError(f"a node lists {count:,} files")
    shared = [0, *cursor.varints(count - 1)] if count else []
    lengths, bases = cursor.varints(count), cursor.varints(count)
    found: list[tuple[str, str]] = []
    last = b""
    for start, length, own in zip(shared, lengths, bases, strict=True):
        if start > len(last) or start + length > _MAX_PATH:
            raise _DamagedError("a node lists a file with an impossible name")
        last = last[:start] + cursor.take(length)
        path = str(last, "utf-8", "backslashreplace")
        found.append((base + str(last[:own], "utf-8", "backslashreplace"), base + path))
    return found


def _keys(cursor: _Cursor, shared: list[int], lengths: list[int], prefix: bytes) -> list[bytes]:
    found: list[bytes] = []
    last = b""
    for start, length in zip(shared, lengths, strict=True):
        if start > len(last) or start + length > _MAX_PATH:
            raise _DamagedError("a key has an impossible length")
        last = last[:start] + cursor.take(length)
        found.append(prefix + last)
    return found


def _places(cursor: _Cursor, files: list[tuple[str, str]], count: int) -> Iterator[tuple[str, Place]]:
    """Yield (base of its paths, place) of each child of a node."""
    numbers, offsets, lengths = (cursor.varints(count) for _ in range(3))
    for number, offset, length in zip(numbers, offsets, lengths, strict=True):
        if number >= len(files):
            raise _DamagedError("a node refers to a file that is not listed")
        base, name = files[number]
        yield base, Place(name, offset, length)
