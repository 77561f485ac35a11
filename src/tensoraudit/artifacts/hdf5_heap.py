"""What HDF5 keeps of groups and objects with many links or attributes: a heap of pieces and a tree that lists them.

HDF5 File Format Specification 3.0, III.A.2 (version 2 B-trees) and III.G (fractal heaps). Pieces that are too large for
the heap's blocks, and heaps that are compressed, are refused: no writer of weights makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensoraudit.artifacts.hdf5 import Hdf5Error, Hdf5File

_MOST_DEPTH = 20
_NODE = 10
"""Bytes of a node beside its records: signature, version, kind, checksum."""


def pieces(file: Hdf5File, heap: int, tree: int, skip: int) -> Iterator[tuple[int, int]]:
    """Yield (start, size) of each piece that the tree lists; `skip` bytes of a record precede the piece's heap id.

    Raises Hdf5Error.
    """
    opened = _heap(file, heap)
    for record in _records(file, tree):
        yield _piece(opened, record + skip)


@dataclass(frozen=True, slots=True)
class _Heap:
    file: Hdf5File
    offset_width: int
    length_width: int
    width: int
    start_size: int
    largest: int
    root: int
    rows: int


def _heap(file: Hdf5File, at: int) -> _Heap:
    if file.bytes_at(at, 4) != b"FRHP":
        raise Hdf5Error(f"no heap of links or attributes at byte {at:,}")
    filters, most = file.number(at + 7, 2), file.number(at + 10, 4)
    if filters:
        raise Hdf5Error("a compressed heap of links")
    table = at + 14 + 10 * file.length_size + 2 * file.offset_size
    width, start = file.number(table, 2), file.length(table + 2)
    largest = file.length(table + 2 + file.length_size)
    after = table + 2 + 2 * file.length_size
    bits, root = file.number(after, 2), file.address(after + 4)
    rows = file.number(after + 4 + file.offset_size, 2)
    if not (width and start and largest and bits) or start & (start - 1) or largest & (largest - 1):
        raise Hdf5Error("a heap of links whose blocks have impossible sizes")
    lengths = min(_bytes_for(largest), _bytes_for(most))
    return _Heap(file, -(-bits // 8), lengths, width, start, largest, root, rows)


def _bytes_for(most: int) -> int:
    """How many bytes a number up to `most` takes."""
    return (max(most, 1).bit_length() - 1) // 8 + 1


def _piece(heap: _Heap, at: int) -> tuple[int, int]:
    """Where the piece stands that a heap id names."""
    file = heap.file
    kind = file.number(at, 1) >> 4 & 3
    if kind != 0:
        raise Hdf5Error("a link or an attribute that is kept outside of its heap")
    offset = file.number(at + 1, heap.offset_width)
    size = file.number(at + 1 + heap.offset_width, heap.length_width)
    block, rows = heap.root, heap.rows
    for _ in range(_MOST_DEPTH):
        if rows == 0:
            return block + offset, size
        row, column, offset = _cell(heap, offset)
        if row >= rows:
            break
        # Behind the signature, the version, the heap's address and the block's own offset stand the addresses.
        first = block + 5 + file.offset_size + heap.offset_width
        if file.bytes_at(block, 4) != b"FHIB":
            raise Hdf5Error(f"no block of a heap at byte {block:,}")
        block = file.address(first + (row * heap.width + column) * file.offset_size)
        rows = _rows_of(heap, row)
    raise Hdf5Error("a link or an attribute outside of its heap")


def _cell(heap: _Heap, offset: int) -> tuple[int, int, int]:
    """(row, column, offset within) of a byte of an indirect block: rows double in size from the third on."""
    row, size, begin = 0, heap.start_size, 0
    while offset >= begin + size * heap.width:
        begin += size * heap.width
        row += 1
        size = heap.start_size << max(0, row - 1)
    return row, (offset - begin) // size, (offset - begin) % size


def _rows_of(heap: _Heap, row: int) -> int:
    """The rows of the blocks in a row: 0 where they are direct ones."""
    size = heap.start_size << max(0, row - 1)
    if size <= heap.largest:
        return 0
    return size.bit_length() - (heap.start_size * heap.width).bit_length() + 1


def _records(file: Hdf5File, at: int) -> Iterator[int]:
    """Yield where the records of a B-tree stand, in its order."""
    if file.bytes_at(at, 4) != b"BTHD":
        raise Hdf5Error(f"no tree of links or attributes at byte {at:,}")
    node, record, depth = file.number(at + 6, 4), file.number(at + 10, 2), file.number(at + 12, 2)
    root, count = file.address(at + 16), file.number(at + 16 + file.offset_size, 2)
    if not record or node <= _NODE + record or depth > _MOST_DEPTH:
        raise Hdf5Error("a tree of links whose nodes have impossible sizes")
    if not file.is_nowhere(root):
        yield from _node(file, (root, count, depth), record, _pointers(file, node, record, depth))


def _pointers(file: Hdf5File, node: int, record: int, depth: int) -> tuple[int, list[int]]:
    """(bytes of a count of records, for each level the bytes of a count of all records below)."""
    most = (node - _NODE) // record
    count_width, totals, total = _bytes_for(most), [0], most
    for _ in range(depth):
        pointer = file.offset_size + count_width + totals[-1]
        here = max(0, node - _NODE - pointer) // (record + pointer)
        total = (here + 1) * total + here
        totals.append(_bytes_for(total))
    return count_width, totals


def _node(file: Hdf5File, place: tuple[int, int, int], record: int, pointers: tuple[int, list[int]]) -> Iterator[int]:
    """Yield the records at and below a node, which `place` gives as (address, records, levels below)."""
    at, count, level = place
    if file.bytes_at(at, 4) != (b"BTIN" if level else b"BTLF"):
        raise Hdf5Error(f"no node of a tree at byte {at:,}")
    first = at + 6
    count_width, totals = pointers
    child = first + count * record
    step = file.offset_size + count_width + totals[level - 1] if level else 0
    for number in range(count + 1):
        file.spend()
        if level:
            spot = child + number * step
            below = (file.address(spot), file.number(spot + file.offset_size, count_width), level - 1)
            yield from _node(file, below, record, pointers)
        if number < count:
            yield first + number * record
