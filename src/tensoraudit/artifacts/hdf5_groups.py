"""The links of an HDF5 group: names and the objects they lead to.

HDF5 File Format Specification 3.0: old groups have a B-tree and a heap of names, new ones have messages, or, from nine
links on, a heap of messages. Links to other files and links by name are yielded and never followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tensoraudit.artifacts.hdf5 import Hdf5Error, Hdf5File, Message
from tensoraudit.artifacts.hdf5_heap import pieces

LINK_INFO, LINK, SYMBOL_TABLE = 0x02, 0x06, 0x11
_HARD, _EXTERNAL = 0, 64
_HASH: Final = 4
"""Bytes before the heap id in a tree of links: the hash of the name."""
_MOST_NAME: Final = 1 << 16


class Link(NamedTuple):
    """A name in a group, and where the header of its object stands. `target` is None for a link by name;
    `external` tells that it leads to another file."""

    name: bytes
    target: int | None
    external: bool = False


def links(file: Hdf5File, found: list[Message]) -> Iterator[Link]:
    """Yield the links of the group whose messages are given, in the order of the file. Raises Hdf5Error."""
    for message in found:
        if message.kind == SYMBOL_TABLE:
            yield from _old(file, message.start)
        elif message.kind == LINK:
            yield _link(file, message.start, message.start + message.size)
        elif message.kind == LINK_INFO:
            yield from _many(file, message.start)


def _many(file: Hdf5File, start: int) -> Iterator[Link]:
    """The links of a group that has a heap for them; none where the heap was never made."""
    at = start + 2 + (8 if file.number(start + 1, 1) & 1 else 0)
    heap, tree = file.address(at), file.address(at + file.offset_size)
    if not file.is_nowhere(heap):
        for place, size in pieces(file, heap, tree, _HASH):
            yield _link(file, place, place + size)


def _link(file: Hdf5File, at: int, end: int) -> Link:
    flags = file.number(at + 1, 1)
    at += 2
    kind = file.number(at, 1) if flags & 8 else _HARD
    at += (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
    width = 1 << (flags & 3)
    size = file.number(at, width)
    at += width
    if size > _MOST_NAME or at + size > end:
        raise Hdf5Error(f"a link with a name of {size:,} bytes")
    name = file.bytes_at(at, size)
    return Link(name, file.address(at + size) if kind == _HARD else None, kind == _EXTERNAL)


def _old(file: Hdf5File, start: int) -> Iterator[Link]:
    """The links of an old group: a B-tree over nodes of symbols, whose names stand in a heap."""
    tree, heap = file.address(start), file.address(start + file.offset_size)
    if file.bytes_at(heap, 4) != b"HEAP":
        raise Hdf5Error(f"no heap of names at byte {heap:,}")
    size = file.length(heap + 8)
    names = file.address(heap + 8 + 2 * file.length_size)
    for node in _symbol_nodes(file, tree):
        if file.bytes_at(node, 4) != b"SNOD":
            raise Hdf5Error(f"no symbols at byte {node:,}")
        width = 2 * file.offset_size + 24
        for number in range(file.number(node + 6, 2)):
            file.spend()
            at = node + 8 + number * width
            target = file.address(at + file.offset_size)
            by_name = file.number(at + 2 * file.offset_size, 4) == 2
            yield Link(_name(file, names, size, file.address(at)), None if by_name else target)


def _symbol_nodes(file: Hdf5File, root: int) -> Iterator[int]:
    """Yield the addresses of the nodes of symbols, in the order of the names."""
    waiting = [root]
    seen: set[int] = set()
    while waiting:
        at = waiting.pop()
        if at in seen:
            raise Hdf5Error("a tree of names that goes round in circles")
        seen.add(at)
        if file.bytes_at(at, 4) == b"SNOD":
            yield at
            continue
        if file.bytes_at(at, 4) != b"TREE" or file.number(at + 4, 1) != 0:
            raise Hdf5Error(f"no tree of names at byte {at:,}")
        count = file.number(at + 6, 2)
        first = at + 8 + 2 * file.offset_size + file.length_size  # behind the siblings' addresses and the first key
        step = file.offset_size + file.length_size
        file.spend(1 + count)
        waiting.extend(file.address(first + number * step) for number in reversed(range(count)))


def _name(file: Hdf5File, names: int, size: int, offset: int) -> bytes:
    """A name that ends with a zero byte."""
    if offset >= size:
        raise Hdf5Error("a name outside of its heap")
    start = names + offset
    text = file.bytes_at(start, min(size - offset, _MOST_NAME, len(file.view) - start))
    end = text.find(b"\x00")
    if end < 0:
        raise Hdf5Error("a name without an end")
    return text[:end]
