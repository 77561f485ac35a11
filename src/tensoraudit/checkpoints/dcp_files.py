"""The `.distcp` files of torch.distributed.checkpoint: where each chunk's bytes are, and the values among them."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.artifacts.pickles import StoredTensor, item_bytes
from tensoraudit.artifacts.torch_files import last_byte
from tensoraudit.checkpoints.dcp_index import Chunk, Index, Leaf, Place
from tensoraudit.checkpoints.schema import Observation, Part
from tensoraudit.checkpoints.torch_entries import is_contiguous
from tensoraudit.checkpoints.torch_items import Item, Items
from tensoraudit.errors import InputError

_RANK: Final = re.compile(r"__(\d{1,9})_\d{1,9}\.distcp")
_MOST: Final = 1_000
_MOST_VALUES: Final = 20_000
_WORDS: Final = {"file_missing": "is not there", "file_outside": "lies outside the folder and is not read"}

_Row = tuple[Chunk, Place]


def rank_of(file: str) -> int | None:
    """Return the rank that wrote a file, None where its name does not say."""
    match = _RANK.fullmatch(file)
    return int(match[1]) if match else None


class ItemFiles:
    """Reads the items of an index, file by file, so that one is open at a time.

    `parts` has every chunk of the index, without an offset where its bytes cannot be reached: that is the file's
    fault and no hole in the tensor. `values` are the plain values by flat name, `observations` what was wrong.
    """

    def __init__(self, root: Path, index: Index) -> None:
        self._root, self._index = root, index
        self._items = Items()
        self.parts: dict[Chunk, Part] = {}
        self.values: dict[str, Any] = {}
        self.observations: list[Observation] = []

    @property
    def globals(self) -> tuple[str, ...]:
        """What the items' pickles want to import."""
        return tuple(self._items.globals)

    def read(self) -> None:
        """Read all files."""
        rows_of: dict[str, list[_Row]] = {}
        for chunk, place in self._index.places.items():
            rows_of.setdefault(place.file, []).append((chunk, place))
        beside = Neighbours(self._root)
        for file, rows in rows_of.items():
            status = beside.status(file)
            if status != "ok":
                kind = "file_missing" if status in ("missing", "not-a-file") else "file_outside"
                message = f"{file} {_WORDS[kind]}; {len(rows):,} items should be in it"
                value = {"status": status, "items": len(rows)}
                self.observations.append(Observation(kind, file, value, message, file))
                self._lose(rows, "missing")
                continue
            try:
                view = map_file(self._root / file)
            except InputError as error:
                message = f"{file} {error.message}"
                self.observations.append(Observation("file_unread", file, error.message, message, file))
                self._lose(rows, "unread")
                continue
            self._read_file(view, file, rows)

    def _read_file(self, view: memoryview, file: str, rows: list[_Row]) -> None:
        cut = [row for row in rows if row[1].offset + row[1].length > len(view)]
        if cut:
            message = f"{file} ends at byte {len(view):,}; {len(cut):,} of its {len(rows):,} items lie beyond that"
            names = [chunk[0] for chunk, _ in cut[:_MOST]]
            self.observations.append(Observation("file_truncated", file, names, message, file))
            self._lose(cut, "truncated")
        unread: list[tuple[_Row, str]] = []
        for row in rows:
            if row[1].offset + row[1].length > len(view):
                continue
            try:
                self._read_item(view, row)
            except InputError as error:
                unread.append((row, f"{row[0][0]}: {error.message}"))
        if unread:
            message = f"{len(unread):,} of {len(rows):,} items of {file} cannot be read, the first: {unread[0][1]}"
            value = [words for _, words in unread[:_MOST]]
            self.observations.append(Observation("file_unread", file, value, message, file))
            self._lose([row for row, _ in unread], "damaged")

    def _read_item(self, view: memoryview, row: _Row) -> None:
        (name, _), place = row
        leaf = self._index.tensors.get(name)
        if place.transforms:
            self._lose([row], ",".join(place.transforms))
        elif leaf is not None:
            self._read_chunk(view, row, leaf)
        elif len(self.values) < _MOST_VALUES:
            self.values[name] = self._items.read(view, place.offset, place.length, place.file).value

    def _read_chunk(self, view: memoryview, row: _Row, leaf: Leaf) -> None:
        chunk, place = row
        item = self._items.read(view, place.offset, place.length, place.file)
        tensor, shape = item.value, _shape(leaf, chunk[1])
        if isinstance(tensor, StoredTensor) and (tensor.shape, tensor.dtype) == (shape, leaf.dtype):
            self.parts[chunk] = _part(item, tensor, leaf, row)
            return
        held = f"{tensor.dtype}{list(tensor.shape)}" if isinstance(tensor, StoredTensor) else type(tensor).__name__
        message = f"The index says that {place.file} holds {leaf.dtype}{list(shape)} of {chunk[0]}; it holds {held}"
        self.observations.append(Observation("tensor_missing", chunk[0], held, message, place.file))
        self._lose([row], "damaged")

    def _lose(self, rows: list[_Row], codec: str) -> None:
        for chunk, place in rows:
            leaf = self._index.tensors.get(chunk[0])
            if leaf is not None:
                shape = _shape(leaf, chunk[1])
                box = _box(leaf, chunk, shape)
                size = prod(shape) * item_bytes(leaf.dtype)
                self.parts[chunk] = Part(place.file, None, size, *box, (), rank_of(place.file), codec)


def _part(item: Item, tensor: StoredTensor, leaf: Leaf, row: _Row) -> Part:
    chunk, place = row
    at, size = item.places.get(tensor.storage, (None, 0))
    first, end = tensor.offset * tensor.item_bytes, last_byte(tensor)
    if at is None or end > size:
        raise InputError("the stored tensor is cut short")
    stride = () if is_contiguous(tensor.shape, tensor.stride) else tensor.stride
    box = _box(leaf, chunk, tensor.shape)
    return Part(place.file, at + first, max(0, end - first), *box, stride, rank_of(place.file))


def _box(leaf: Leaf, chunk: Chunk, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start and shape of a part; both () where the chunk is the whole tensor."""
    return ((), ()) if shape == leaf.shape else (chunk[1] or (), shape)


def _shape(leaf: Leaf, start: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape that the index gives a chunk; the start of an only chunk may be left out."""
    if start is None and len(leaf.chunks) == 1:
        return next(iter(leaf.chunks.values()))
    return leaf.chunks.get(start or (), ())
