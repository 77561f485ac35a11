"""Read a FlatBuffer in place, every offset checked against the file. Knows no schema and copies no data.

A table names its fields by number. Its first four bytes say how far in front of it its list of fields lies; that list
has, for each number, the distance from the table to the field, or 0 for a field that is not there. A field of a fixed
size stands at its place; texts, vectors and tables stand elsewhere, and the field holds the distance to them.

Offsets may make a file of a few bytes look endless (many entries that all name one table, tables that name each other),
so a `Reader` counts what is taken from it and gives up at `LIMIT`.

A worker uses it too: Python 3.9, standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

LIMIT: Final = 8_000_000
"""Numbers in vectors that are read from one file (the scales of a large language model are 3 million)."""
TABLE: Final = 16
"""What a table costs of that, by the time that it takes; the largest models have some 100,000."""
_FORMATS: Final = {name: struct.Struct(f"<{name}") for name in "bBhHiIqQf"}


class FlatBufferError(ValueError):
    """The bytes are no FlatBuffer; the text says what is wrong in a few words."""


class Reader:
    """The bytes of a file, and how much may still be taken from them."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._left = LIMIT

    def __len__(self) -> int:
        return len(self._view)

    def number(self, place: int, kind: str) -> int:
        """Return the whole number at a place; `kind` is a letter of `struct`.

        Raises FlatBufferError outside of the file.
        """
        form = _FORMATS[kind]
        if place < 0 or place + form.size > len(self._view):
            raise FlatBufferError(f"an offset leads to byte {place:,}, outside of the file")
        value: int = form.unpack_from(self._view, place)[0]
        return value

    def spend(self, numbers: int) -> None:
        """Count what is going to be read. Raises FlatBufferError past the limit."""
        self._left -= numbers
        if self._left < 0:
            raise FlatBufferError("its vectors name more entries than any model has")

    def bytes_at(self, start: int, size: int) -> bytes:
        """Return a copy of checked bytes."""
        return bytes(self._view[start : start + size])

    def root(self) -> Table:
        """Return the table that the file begins with."""
        return table_at(self, self.number(0, "I"))


@dataclass(frozen=True)
class Table:
    """One table. A field that is not there gives its default, "", or an empty vector."""

    reader: Reader
    place: int
    fields: int
    count: int

    def at(self, field: int) -> int:
        """Return the place of a field, 0 when it is not there."""
        if field >= self.count:
            return 0
        offset = self.reader.number(self.fields + 4 + 2 * field, "H")
        return self.place + offset if offset else 0

    def number(self, field: int, kind: str, default: int = 0) -> int:
        """Return a field of a fixed size."""
        place = self.at(field)
        return self.reader.number(place, kind) if place else default

    def span(self, field: int, size: int) -> tuple[int, int]:
        """Return where a vector of entries of `size` bytes starts, and how many it has."""
        place = self.at(field)
        if not place:
            return 0, 0
        start = place + self.reader.number(place, "I")
        count = self.reader.number(start, "I")
        if start + 4 + count * size > len(self.reader):
            raise FlatBufferError(f"a vector of {count:,} entries ends behind the file")
        return start + 4, count

    def text(self, field: int, most: int = 1_000) -> str:
        """Return a text, cut off after `most` bytes."""
        start, size = self.span(field, 1)
        return self.reader.bytes_at(start, min(size, most)).decode("utf-8", "replace")

    def numbers(self, field: int, kind: str) -> tuple[Any, ...]:
        """Return a vector of numbers."""
        size = _FORMATS[kind].size
        start, count = self.span(field, size)
        self.reader.spend(count)
        return struct.unpack(f"<{count}{kind}", self.reader.bytes_at(start, count * size))

    def table(self, field: int) -> Table | None:
        """Return the table that a field names."""
        place = self.at(field)
        return table_at(self.reader, place + self.reader.number(place, "I")) if place else None

    def tables(self, field: int) -> Iterator[Table]:
        """Yield the tables of a vector."""
        start, count = self.span(field, 4)
        self.reader.spend(TABLE * count)
        for place in range(start, start + 4 * count, 4):
            yield table_at(self.reader, place + self.reader.number(place, "I"))


def table_at(reader: Reader, place: int) -> Table:
    """Return the table at a place. Raises FlatBufferError when it or its list of fields lies outside of the file."""
    fields = place - reader.number(place, "i")
    size = reader.number(fields, "H")
    if size < 4 or size % 2 or fields + size > len(reader):
        raise FlatBufferError(f"a table at byte {place:,} has a list of fields of {size} bytes")
    return Table(reader, place, fields, (size - 4) // 2)
