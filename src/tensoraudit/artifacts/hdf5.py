"""The foundations of HDF5: superblock, object headers and texts in attributes. Standard library only.

HDF5 File Format Specification 3.0. Read are superblocks of version 0 to 3 and both kinds of object headers; a text may
stand in the attribute (of fixed length) or in a global heap (of variable length). Attributes that have a heap of their
own are read by `hdf5_attributes`, groups by `hdf5_groups`, datasets by `hdf5_datasets`. Every offset is checked
against the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_ROOT: Final = {0: 24, 1: 28, 2: 12, 3: 12}
"""Where the addresses begin, by the version of the superblock."""
ATTRIBUTE, _CONTINUATION = 0x0C, 0x10
_MOST_BLOCKS: Final = 100
_MOST_MESSAGES: Final = 10_000
_HEADS: Final = (struct.Struct("<HHB"), struct.Struct("<BHB"))
"""Kind, size and flags of a message in an object header of the first and of the second version."""
_MOST_STEPS: Final = 16_000_000
_FREE_STEPS: Final = 20_000
_STRING, _VARIABLE = 3, 9


class Hdf5Error(ValueError):
    """The bytes are no HDF5 file as this reader knows them; the text says what is wrong."""


class Message(NamedTuple):
    """A message of an object header: its kind, where its body stands, and whether that is elsewhere (`shared`)."""

    kind: int
    start: int
    size: int
    shared: bool


@dataclass(slots=True)
class Hdf5File:
    """The bytes of a file, and how wide its addresses and lengths are, in bytes. All reads raise Hdf5Error.

    `steps` are left for walking its structures: structures that share bytes would let a small file describe a long way.
    """

    view: memoryview
    offset_size: int
    length_size: int
    steps: int
    heaps: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def spend(self, steps: int = 1) -> None:
        """Count steps of a walk. Raises Hdf5Error when there are more than a file of this size can need."""
        self.steps -= steps
        if self.steps < 0:
            raise Hdf5Error("structures that share bytes or go round in circles, or more than can be read")

    def number(self, place: int, size: int) -> int:
        """Return the unsigned number of `size` bytes at `place`."""
        if place < 0 or place + size > len(self.view):
            raise Hdf5Error(f"an address leads to byte {place:,}, outside of the file")
        return int.from_bytes(self.view[place : place + size], "little")

    def address(self, place: int) -> int:
        """Return the address that stands at `place`."""
        return self.number(place, self.offset_size)

    def length(self, place: int) -> int:
        """Return the length that stands at `place`."""
        return self.number(place, self.length_size)

    def is_nowhere(self, address: int) -> bool:
        """Whether an address is the one that means "none"."""
        return address == (1 << 8 * self.offset_size) - 1

    def bytes_at(self, place: int, size: int) -> bytes:
        """Return a copy of `size` bytes at `place`."""
        if place < 0 or size < 0 or place + size > len(self.view):
            raise Hdf5Error(f"{size:,} bytes at byte {place:,} end behind the file")
        return bytes(self.view[place : place + size])


def root_attribute(view: memoryview, name: str) -> bytes | None:
    """Return the text attribute `name` of the root group, None where there is none. Raises Hdf5Error."""
    file, header = open_hdf5(view)
    for message in messages(file, header):
        if message.kind == ATTRIBUTE:
            found = attribute(file, message.start, message.size)
            if found is not None and found[0] == name.encode():
                return b"".join(found[1][:1])
    return None


def open_hdf5(view: memoryview) -> tuple[Hdf5File, int]:
    """Return the file and the address of the root group's object header. Raises Hdf5Error."""
    version = view[8] if len(view) > 14 else -1
    if version not in _ROOT:
        raise Hdf5Error(f"a superblock of version {version}")
    sizes = (view[13], view[14]) if version < 2 else (view[9], view[10])
    if any(size not in (2, 4, 8) for size in sizes):
        raise Hdf5Error(f"addresses of {sizes[0]} bytes")
    file = Hdf5File(view, *sizes, steps=min(_MOST_STEPS, _FREE_STEPS + len(view) // 4))
    # Versions 0 and 1: four addresses, then the root's symbol table entry (link name offset, header address).
    # Versions 2 and 3: base, extension and end of file, then the header's address itself.
    steps = 5 if version < 2 else 3
    return file, file.address(_ROOT[version] + steps * file.offset_size)


def messages(file: Hdf5File, header: int) -> Iterator[Message]:
    """Yield the messages of an object header, following its continuation blocks. Raises Hdf5Error."""
    second = file.bytes_at(header, 4) == b"OHDR"
    head = _HEADS[second]
    blocks = [_first_block(file, header, second=second)]
    count = 0
    for number in range(_MOST_BLOCKS):
        if number >= len(blocks):
            return
        start, end, prefix = blocks[number]
        while start + prefix <= end and count < _MOST_MESSAGES:
            count += 1
            file.spend()
            body = start + prefix
            if not 0 <= start <= len(file.view) - prefix:
                raise Hdf5Error(f"a message at byte {start:,}, outside of the file")
            kind, size, flags = head.unpack_from(file.view, start)
            if body + size > end:
                return
            if kind == _CONTINUATION:
                place, length = file.address(body), file.length(body + file.offset_size)
                skip = 4 if second else 0  # the signature OCHK, and a checksum at its end
                blocks.append((place + skip, place + length - skip, prefix))
            yield Message(kind, body, size, bool(flags & 2))
            start = body + size


def _first_block(file: Hdf5File, header: int, *, second: bool) -> tuple[int, int, int]:
    """(start, end, bytes before each message) of the messages in an object header itself."""
    if not second:
        return header + 16, header + 16 + file.number(header + 8, 4), 8
    flags = file.number(header + 5, 1)
    start = header + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    size = file.number(start, width)
    return start + width, start + width + size, 6 if flags & 4 else 4


def attribute(file: Hdf5File, start: int, size: int) -> tuple[bytes, list[bytes]] | None:
    """Return (name, texts) of an attribute message, None for one that holds no texts. Raises Hdf5Error."""
    version = file.number(start, 1)
    if version not in (1, 2, 3):
        return None
    sizes = [file.number(start + 2 + 2 * place, 2) for place in range(3)]
    place = start + (9 if version == 3 else 8)
    padded = [-(-each // 8) * 8 if version == 1 else each for each in sizes]
    name = file.bytes_at(place, sizes[0]).rstrip(b"\x00")
    datatype = place + padded[0]
    value = datatype + padded[1] + padded[2]
    if value > start + size:
        raise Hdf5Error("an attribute that ends behind its message")
    kind, length = file.number(datatype, 1) & 0x0F, file.number(datatype + 4, 4)
    count = _elements(file, datatype + padded[1])
    room = start + size - value
    if kind == _STRING and length:
        count = min(count, max(1, room // length))
        return name, [file.bytes_at(value + length * n, min(length, room)).rstrip(b"\x00") for n in range(count)]
    if kind == _VARIABLE:
        width = 8 + file.offset_size
        return name, [_from_heap(file, value + width * n) for n in range(min(count, room // width))]
    return None


def _elements(file: Hdf5File, dataspace: int) -> int:
    """The number of values of an attribute: of a scalar or of one axis."""
    version, rank = file.number(dataspace, 1), file.number(dataspace + 1, 1)
    sizes = dataspace + (8 if version == 1 else 4)
    return file.length(sizes) if rank else 1


def _from_heap(file: Hdf5File, place: int) -> bytes:
    """A text of variable length: its length, and where it stands in a global heap."""
    length = file.number(place, 4)
    if length == 0:
        return b""
    heap, index = file.address(place + 4), file.number(place + 4 + file.offset_size, 4)
    objects = file.heaps.get(heap)
    if objects is None:
        objects = file.heaps[heap] = _heap(file, heap)
    if index not in objects:
        raise Hdf5Error(f"a heap at byte {heap:,} without object {index}")
    start, size = objects[index]
    file.spend(1 + min(length, size) // 16)
    return file.bytes_at(start, min(length, size))


def _heap(file: Hdf5File, heap: int) -> dict[int, tuple[int, int]]:
    """(start, size) of the objects of a global heap, by their numbers."""
    if file.bytes_at(heap, 4) != b"GCOL":
        raise Hdf5Error(f"no heap at byte {heap:,}")
    found: dict[int, tuple[int, int]] = {}
    end = heap + file.length(heap + 8)
    head = 8 + file.length_size
    at = heap + head
    while at + head <= end:
        file.spend()
        number, size = file.number(at, 2), file.length(at + 8)
        if number == 0:  # the free space at the end
            break
        found.setdefault(number, (at + head, size))
        at += head + -(-size // 8) * 8
    return found
