"""The data of a chunked HDF5 dataset, put together in memory: for who asks for values, never for a header.

HDF5 File Format Specification 3.0: chunks under a version 1 B-tree, which every h5py writes unless it is told
otherwise, or one chunk alone; filters deflate, shuffle and fletcher32 (whose checksum is not computed). Other indexes
and filters are refused in words.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.hdf5 import Hdf5Error, Hdf5File, messages, open_hdf5
from tensoraudit.artifacts.hdf5_datasets import FILTERS, LAYOUT, dataset

_DEFLATE, _SHUFFLE, _CHECKSUM = 1, 2, 3
_NAMES: Final = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf", 32001: "blosc", 32004: "lz4", 32015: "zstd"}
_OWN_NAMES: Final = 256
"""Filters from this number on bear a name in the newer form of the message."""
_MOST_FILTERS: Final = 32
_MOST_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class _Layout:
    """`tree` is the address of the index, `alone` that of the only chunk with its stored size and filters' mask."""

    chunk: tuple[int, ...]
    width: int
    tree: int | None = None
    alone: tuple[int, int, int] | None = None


def read_chunks(view: memoryview, header: int, most: int) -> bytes:
    """Return the bytes, in C order, of the chunked dataset whose object header is at `header`.

    Chunks that were never written are zeros. Raises Hdf5Error for damage, for more than `most` bytes, and for an index
    or a filter that is not read.
    """
    file, _ = open_hdf5(view)
    found = list(messages(file, header))
    data = dataset(file, found)
    if data is None or data.bytes > most:
        raise Hdf5Error("no dataset of a size that is read" if data is None else f"{data.bytes:,} bytes")
    by_kind = {message.kind: message for message in found}
    layout = _layout(file, by_kind[LAYOUT].start, len(data.shape))
    filters = _filters(file, by_kind[FILTERS].start) if FILTERS in by_kind else []
    if layout.width * prod(data.shape) != data.bytes or prod(layout.chunk) * layout.width > max(most, 1):
        raise Hdf5Error("chunks that do not fit their dataset")
    whole = np.zeros((*data.shape, layout.width), np.uint8)
    left = prod(-(-size // step) for size, step in zip(data.shape, layout.chunk, strict=True))
    for place, address, size, mask in _chunks(file, layout, len(data.shape)):
        left -= 1
        if left < 0:
            raise Hdf5Error("more chunks than the dataset has room for")
        applied = [number for bit, number in enumerate(filters) if not mask >> bit & 1]
        _put(whole, place, _unpacked(file.bytes_at(address, size), applied, layout))
    return whole.tobytes()


def _layout(file: Hdf5File, at: int, rank: int) -> _Layout:
    version, kind = file.number(at, 1), file.number(at + 1, 1)
    if version == 3 and kind == 2 and file.number(at + 2, 1) == rank + 1:
        first = at + 3 + file.offset_size
        sizes = [file.number(first + 4 * axis, 4) for axis in range(rank + 1)]
        tree = file.address(at + 3)
        layout = _Layout(tuple(sizes[:-1]), sizes[-1], tree=None if file.is_nowhere(tree) else tree)
    elif version == 4 and kind == 2 and file.number(at + 3, 1) == rank + 1:
        layout = _one_chunk(file, at, rank)
    else:
        raise Hdf5Error(f"a layout of version {version} and kind {kind}, no chunks")
    if not layout.width or not all(layout.chunk):
        raise Hdf5Error("chunks without a size")
    return layout


def _one_chunk(file: Hdf5File, at: int, rank: int) -> _Layout:
    """The newer form of the message, as far as it names one chunk itself."""
    flags, encoded = file.number(at + 2, 1), file.number(at + 4, 1)
    sizes = [file.number(at + 5 + encoded * axis, encoded) for axis in range(rank + 1)]
    after = at + 5 + encoded * (rank + 1)
    if file.number(after, 1) != 1:
        raise Hdf5Error("chunks under an index of the newest form, which is not read")
    size, mask, place = prod(sizes), 0, after + 1
    if flags & 2:
        size, mask = file.length(place), file.number(place + file.length_size, 4)
        place += file.length_size + 4
    address = file.address(place)
    return _Layout(tuple(sizes[:-1]), sizes[-1], alone=None if file.is_nowhere(address) else (address, size, mask))


def _filters(file: Hdf5File, at: int) -> list[int]:
    """The numbers of the filters, in the order in which they were applied."""
    version, count = file.number(at, 1), file.number(at + 1, 1)
    if version not in (1, 2) or count > _MOST_FILTERS:
        raise Hdf5Error(f"{count} filters (version {version})")
    place = at + (8 if version == 1 else 2)
    found = []
    for _ in range(count):
        number = file.number(place, 2)
        named = version == 1 or number >= _OWN_NAMES
        name = file.number(place + 2, 2) if named else 0
        values = file.number(place + (6 if named else 4), 2)
        place += (8 if named else 6) + (-(-name // 8) * 8 if version == 1 else name) + 4 * values
        place += 4 if version == 1 and values % 2 else 0
        found.append(number)
    unknown = [number for number in found if number not in (_DEFLATE, _SHUFFLE, _CHECKSUM)]
    if unknown:
        raise Hdf5Error(f"chunks packed by {_NAMES.get(unknown[0], f'filter {unknown[0]}')}, which is not read")
    return found


def _chunks(file: Hdf5File, layout: _Layout, rank: int) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """Yield (place, address, stored bytes, mask of the filters left out) of each chunk."""
    if layout.alone is not None:
        yield (0,) * rank, *layout.alone
    waiting = [(layout.tree, _MOST_DEPTH)] if layout.tree is not None else []
    while waiting:
        at, depth = waiting.pop()
        if file.bytes_at(at, 4) != b"TREE" or file.number(at + 4, 1) != 1 or not depth:
            raise Hdf5Error(f"no tree of chunks at byte {at:,}")
        leaf, count = file.number(at + 5, 1) == 0, file.number(at + 6, 2)
        key = 8 + 8 * (rank + 1)
        for number in range(count):
            file.spend()
            spot = at + 8 + 2 * file.offset_size + number * (key + file.offset_size)
            child = file.address(spot + key)
            if leaf:
                place = tuple(file.number(spot + 8 + 8 * axis, 8) for axis in range(rank))
                yield place, child, file.number(spot, 4), file.number(spot + 4, 4)
            else:
                waiting.append((child, depth - 1))


def _unpacked(raw: bytes, filters: list[int], layout: _Layout) -> Any:
    """A chunk's bytes as an array of its shape, the bytes of an element last."""
    size = prod(layout.chunk) * layout.width
    for number in reversed(filters):
        raw = raw[:-4] if number == _CHECKSUM else _inflated(raw, size + 4) if number == _DEFLATE else raw
        if number == _SHUFFLE and len(raw) == size:
            raw = np.frombuffer(raw, np.uint8).reshape(layout.width, -1).T.tobytes()
    if len(raw) != size:
        raise Hdf5Error(f"a chunk that unpacks to {len(raw):,} bytes, not {size:,}")
    return np.frombuffer(raw, np.uint8).reshape(*layout.chunk, layout.width)


def _inflated(raw: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(raw, most)
    except zlib.error as error:
        raise Hdf5Error(f"a chunk that is damaged ({error})") from error


def _put(whole: Any, place: tuple[int, ...], chunk: Any) -> None:
    """Copy a chunk to its place; what reaches over the edge is cut off."""
    shape = whole.shape[:-1]
    if any(start >= size for start, size in zip(place, shape, strict=True)):
        raise Hdf5Error("a chunk outside of its dataset")
    ends = [min(start + size, end) for start, size, end in zip(place, chunk.shape[:-1], shape, strict=True)]
    target = tuple(slice(start, end) for start, end in zip(place, ends, strict=True))
    whole[target] = chunk[tuple(slice(0, end - start) for start, end in zip(place, ends, strict=True))]
