"""One text attribute of an HDF5 file's root group: where Keras keeps a model's configuration. Standard library only.

HDF5 File Format Specification 3.0. Read are superblocks of version 0 to 3 and both kinds of object headers; the value
may stand in the attribute (a text of fixed length) or in a global heap (of variable length). What is stored otherwise
(a root group whose attributes are in a B-tree of their own) is not found. Every offset is checked against the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_ROOT: Final = {0: 24, 1: 28, 2: 12, 3: 12}
"""Where the addresses begin, by the version of the superblock."""
_ATTRIBUTE, _CONTINUATION = 0x0C, 0x10
_MOST_BLOCKS: Final = 100
_MOST_MESSAGES: Final = 10_000
_STRING, _VARIABLE = 3, 9


class Hdf5Error(ValueError):
    """The bytes are no HDF5 file as this reader knows them; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class _File:
    view: memoryview
    offset_size: int
    length_size: int

    def number(self, place: int, size: int) -> int:
        if place < 0 or place + size > len(self.view):
            raise Hdf5Error(f"an address leads to byte {place:,}, outside of the file")
        return int.from_bytes(self.view[place : place + size], "little")

    def address(self, place: int) -> int:
        return self.number(place, self.offset_size)

    def length(self, place: int) -> int:
        return self.number(place, self.length_size)

    def bytes_at(self, place: int, size: int) -> bytes:
        if place < 0 or size < 0 or place + size > len(self.view):
            raise Hdf5Error(f"{size:,} bytes at byte {place:,} end behind the file")
        return bytes(self.view[place : place + size])


def root_attribute(view: memoryview, name: str) -> bytes | None:
    """Return the text attribute `name` of the root group, None where there is none. Raises Hdf5Error."""
    file, header = _opened(view)
    for kind, start, size in _messages(file, header):
        if kind == _ATTRIBUTE:
            found = _attribute(file, start, size, name.encode())
            if found is not None:
                return found
    return None


def _opened(view: memoryview) -> tuple[_File, int]:
    """The file and the address of the root group's object header."""
    version = view[8] if len(view) > 14 else -1
    if version not in _ROOT:
        raise Hdf5Error(f"a superblock of version {version}")
    sizes = (view[13], view[14]) if version < 2 else (view[9], view[10])
    if any(size not in (2, 4, 8) for size in sizes):
        raise Hdf5Error(f"addresses of {sizes[0]} bytes")
    file = _File(view, *sizes)
    # Versions 0 and 1: four addresses, then the root's symbol table entry (link name offset, header address).
    # Versions 2 and 3: base, extension and end of file, then the header's address itself.
    steps = 5 if version < 2 else 3
    return file, file.address(_ROOT[version] + steps * file.offset_size)


def _messages(file: _File, header: int) -> Iterator[tuple[int, int, int]]:
    """Yield (kind, start, size) of the messages of an object header, following its continuation blocks."""
    second = file.bytes_at(header, 4) == b"OHDR"
    blocks = [_first_block(file, header, second=second)]
    count = 0
    for number in range(_MOST_BLOCKS):
        if number >= len(blocks):
            return
        start, end, prefix = blocks[number]
        while start + prefix <= end and count < _MOST_MESSAGES:
            count += 1
            kind = file.number(start, 1 if second else 2)
            size = file.number(start + (1 if second else 2), 2)
            body = start + prefix
            if body + size > end:
                return
            if kind == _CONTINUATION:
                place, length = file.address(body), file.length(body + file.offset_size)
                skip = 4 if second else 0  # the signature OCHK, and a checksum at its end
                blocks.append((place + skip, place + length - skip, prefix))
            yield kind, body, size
            start = body + size


def _first_block(file: _File, header: int, *, second: bool) -> tuple[int, int, int]:
    """(start, end, bytes before each message) of the messages in an object header itself."""
    if not second:
        return header + 16, header + 16 + file.number(header + 8, 4), 8
    flags = file.number(header + 5, 1)
    start = header + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    size = file.number(start, width)
    return start + width, start + width + size, 6 if flags & 4 else 4


def _attribute(file: _File, start: int, size: int, name: bytes) -> bytes | None:
    """The value of an attribute message if it has this name and is one text."""
    version = file.number(start, 1)
    if version not in (1, 2, 3):
        return None
    sizes = [file.number(start + 2 + 2 * place, 2) for place in range(3)]
    place = start + (9 if version == 3 else 8)
    padded = [-(-each // 8) * 8 if version == 1 else each for each in sizes]
    if file.bytes_at(place, sizes[0]).rstrip(b"\x00") != name:
        return None
    datatype = place + padded[0]
    value = datatype + padded[1] + padded[2]
    if value > start + size:
        raise Hdf5Error("an attribute that ends behind its message")
    kind, length = file.number(datatype, 1) & 0x0F, file.number(datatype + 4, 4)
    if kind == _STRING:
        return file.bytes_at(value, min(length, start + size - value)).rstrip(b"\x00")
    return _from_heap(file, value) if kind == _VARIABLE else None


def _from_heap(file: _File, place: int) -> bytes:
    """A text of variable length: its length, and where it stands in a global heap."""
    length = file.number(place, 4)
    heap, index = file.address(place + 4), file.number(place + 4 + file.offset_size, 4)
    if file.bytes_at(heap, 4) != b"GCOL":
        raise Hdf5Error(f"no heap at byte {heap:,}")
    end = heap + file.length(heap + 8)
    at = heap + 8 + file.length_size
    for _ in range(_MOST_MESSAGES):
        if at + 8 + file.length_size > end:
            break
        number, size = file.number(at, 2), file.length(at + 8)
        if number == index:
            return file.bytes_at(at + 8 + file.length_size, min(length, size))
        if number == 0:
            break
        at += 8 + file.length_size + -(-size // 8) * 8
    raise Hdf5Error(f"a heap at byte {heap:,} without object {index}")
