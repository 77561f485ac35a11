"""The items of a `.distcp` file: each is a whole file of `torch.save`, one after the other.

There may be a hundred thousand, each a zip of seven entries around one tensor. So an item of the usual form is located
by a few look-ups in its directory, and its pickle, which is the same bytes for all tensors of one shape, is interpreted
once. Whatever else it may be goes the careful way, through `SafeZip`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import Stream
from tensoraudit.artifacts.pickles import StoredTensor
from tensoraudit.artifacts.torch_files import is_legacy, open_legacy, open_torch_zip, read_pickle
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints.torch_tree import plain
from tensoraudit.errors import InputError

_END: Final = struct.Struct("<4s4HLLH")
_LARGE_END: Final = struct.Struct("<4sQ2H2L4Q4sLQL")
"""The end record for archives of any size with its locator, which torch always writes before the usual one."""
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_MOST_ENTRIES: Final = 16
_PICKLE_LIMIT: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Item:
    """A saved object: its plain value, and the places of its storages in the file, in bytes."""

    value: Any
    places: dict[str, tuple[int | None, int]]


class Items:
    """Reads the items of one checkpoint; `globals` are what their pickles want to import."""

    def __init__(self) -> None:
        self.globals: dict[str, None] = {}
        self._known: dict[bytes, Any] = {}

    def read(self, view: memoryview, offset: int, length: int, where: str) -> Item:
        """Read the item at an offset, of so many bytes. Raises InputError for a damaged one."""
        segment = view[offset : offset + length]
        entries = _usual_entries(segment)
        if entries is None or "data.pkl" not in entries:
            return self._carefully(segment, offset, where)
        at, size = entries["data.pkl"]
        places: dict[str, tuple[int | None, int]] = {
            name.removeprefix("data/"): (offset + start, count)
            for name, (start, count) in entries.items()
            if name.startswith("data/")
        }
        return Item(self._value(bytes(segment[at : at + size]), where), places)

    def _value(self, pickle: bytes, where: str) -> Any:
        if pickle not in self._known:
            if len(pickle) > _PICKLE_LIMIT:
                raise InputError(f"holds a pickled value of {len(pickle):,} bytes", where=where)
            wishes = Wishes()
            value = plain(read_pickle(Stream(memoryview(pickle)), wishes, where))
            self.globals.update(wishes.globals)
            if not isinstance(value, StoredTensor):
                return value
            self._known[pickle] = value
        return self._known[pickle]

    def _carefully(self, segment: memoryview, offset: int, where: str) -> Item:
        legacy = is_legacy(segment)
        opened = open_legacy(segment, where) if legacy else open_torch_zip(SafeZip(segment, where))
        self.globals.update(opened.wishes.globals)
        moved = {key: (None if at is None else at + offset, size) for key, (at, size) in opened.storages.items()}
        return Item(plain(opened.root), moved)


def _usual_entries(segment: memoryview) -> dict[str, tuple[int, int]] | None:
    """Return (start, size) of the entries of a small zip, all of them stored; None for one of any other form."""
    if len(segment) < _END.size:
        return None
    mark, _, _, here, count, size, start, comment = _END.unpack_from(segment, len(segment) - _END.size)
    if mark != b"PK\x05\x06" or comment or here != count or not 0 < count <= _MOST_ENTRIES:
        return None
    end = start + size
    if not _agrees(segment, end, count, size, start):
        return None
    found: dict[str, tuple[int, int]] = {}
    at = start
    for _ in range(count):
        entry = _usual_entry(segment, at, end)
        if entry is None:
            return None
        name, place, length, at = entry
        found[name] = (place, length)
    return found if at == end and len(found) == count else None


def _agrees(segment: memoryview, end: int, count: int, size: int, start: int) -> bool:
    """Whether nothing stands between the directory and its end record but the other end record, of the same numbers."""
    between = len(segment) - _END.size - end
    if between != _LARGE_END.size:
        return between == 0
    record = _LARGE_END.unpack_from(segment, end)
    marks = record[0] == b"PK\x06\x06" and record[10] == b"PK\x06\x07"
    return marks and record[6:10] == (count, count, size, start) and record[12] == end


def _usual_entry(segment: memoryview, at: int, end: int) -> tuple[str, int, int, int] | None:
    if at + _ENTRY.size > end:
        return None
    mark, _, _, _, method, _, _, _, packed, whole, name_size, extra, comment, _, _, _, local = _ENTRY.unpack_from(
        segment, at
    )
    following = at + _ENTRY.size + name_size + extra + comment
    if mark != b"PK\x01\x02" or method or packed != whole or following > end or local + _LOCAL.size > end:
        return None
    name = bytes(segment[at + _ENTRY.size : at + _ENTRY.size + name_size]).decode("utf-8", "replace")
    head = _LOCAL.unpack_from(segment, local)
    place = local + _LOCAL.size + head[-2] + head[-1]
    if head[0] != b"PK\x03\x04" or place + whole > end:
        return None
    return name.partition("/")[2], place, whole, following
