"""Folders of `torch.distributed.checkpoint`: `.metadata` is the index, `__<rank>_<n>.distcp` hold the items.

The index is a pickled `Metadata` of three tables: what each name is (shape, dtype, chunks), which keys a flat name
came from, and in which file, at which offset, each chunk lies. torch reads it with `pickle.load`; here it is data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.artifacts.pickle_machine import Stream, Wishes
from tensoraudit.artifacts.pickles import StoredTensor, dtype_of, item_bytes
from tensoraudit.artifacts.torch_files import read_pickle
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.checkpoints.tiling import tiles
from tensoraudit.checkpoints.torch_entries import is_contiguous, mark_averages
from tensoraudit.checkpoints.torch_items import Item, Items
from tensoraudit.checkpoints.torch_tree import Instance, Keys, plain
from tensoraudit.checkpoints.training_state import Found, find_training_state, plain_value
from tensoraudit.errors import InputError

_INDEX: Final = ".metadata"
_DATA: Final = ".distcp"
_RANK: Final = re.compile(r"__(\d+)_\d+\.distcp")
_OWN: Final = re.compile(r"torch\.distributed\.checkpoint\.[\w.]+|torch\.serialization\._get_layout|pathlib\.\w+Path")
_MOST: Final = 1_000
_MOST_FILES: Final = 200_000
_MOST_VALUES: Final = 20_000
_AGAIN: Final = "Copy the folder again, or save again with torch.distributed.checkpoint.save."


class _Place(NamedTuple):
    """Where the index says that an item lies."""

    file: str
    offset: int
    length: int
    transforms: tuple[str, ...]


class _Leaf(NamedTuple):
    """A tensor of the index; `chunks` are (start, shape)."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


_Chunk = tuple[str, tuple[int, ...] | None]
"""A flat name, and the start of the chunk (None for what is no tensor)."""


@dataclass(slots=True)
class _Index:
    """The three tables, read. `values` are the names of what is no tensor."""

    tensors: dict[str, _Leaf]
    values: list[str]
    keys: dict[str, Keys]
    places: dict[_Chunk, _Place]
    version: str
    globals: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """What the files hold: the part of each chunk, the plain values, and what was wrong."""

    parts: dict[_Chunk, Part] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)


def recognises(path: Path) -> bool:
    """Whether the path is such a folder, finished or not, or the index of one."""
    try:
        folder = path if path.is_dir() else path.parent if path.name == _INDEX else None
        if folder is None:
            return False
        index = folder / _INDEX
        if index.is_file():
            with index.open("rb") as file:
                return b"torch.distributed.checkpoint" in file.read(4096)
        return any(True for _ in folder.glob(f"*{_DATA}"))
    except OSError:
        return False


def read(path: Path) -> StoredCheckpoint:
    """Read the index and the headers of the items. Raises InputError when the index is damaged.

    A folder without an index has no names: it is no error, but an observation "unfinished" and no entry.
    """
    root = path if path.is_dir() else path.parent
    there = tuple(sorted(islice((each.name for each in root.glob(f"*{_DATA}")), _MOST_FILES)))
    if not (root / _INDEX).is_file():
        return _unfinished(path, root, there)
    index = _read_index(root / _INDEX)
    items = Items()
    found = _read_files(root, index, items)
    training = find_training_state(_tree(index, found.values))
    entries = mark_averages([_entry(name, leaf, index, found, training) for name, leaf in index.tensors.items()])
    files = tuple(sorted({place.file for place in index.places.values()}))
    wanted = tuple(sorted({*index.globals, *items.globals}))
    return StoredCheckpoint(
        path=path,
        root=root,
        format="torch_distributed",
        framework="pytorch",
        files=(_INDEX, *files),
        entries=tuple(entries),
        training=training.training,
        writer=f"torch.distributed.checkpoint {index.version}".strip(),
        imports=tuple(name for name in wanted if not is_harmless(name) and _OWN.fullmatch(name) is None),
        all_imports=wanted,
        metadata=_metadata(index, found, files),
        observations=(*found.observations, *_unlisted(files, there), *tiles(entries)),
    )


def _unfinished(path: Path, root: Path, there: tuple[str, ...]) -> StoredCheckpoint:
    message = f"{len(there):,} data files and no {_INDEX}, which is written last: the save did not end, names are lost"
    observation = Observation("unfinished", "checkpoint", {"files": len(there)}, message, _INDEX)
    return StoredCheckpoint(path, root, "torch_distributed", "pytorch", there, (), observations=(observation,))


# the index


def _read_index(path: Path) -> _Index:
    wishes = Wishes()
    root = plain(read_pickle(Stream(map_file(path)), wishes, str(path)))
    tables = root.fields if isinstance(root, Instance) else {}
    described, located = tables.get("state_dict_metadata"), tables.get("storage_data")
    if not isinstance(described, dict) or not isinstance(located, list | dict):
        message = "is no index of torch.distributed.checkpoint (its tables are missing)"
        raise InputError(message, where=str(path), remedy=_AGAIN)
    tensors = {str(name): leaf for name, each in described.items() if (leaf := _leaf(each)) is not None}
    values = [str(name) for name in described if str(name) not in tensors]
    keys = tables.get("planner_data")
    origin = (
        {str(name): tuple(each) for name, each in keys.items() if isinstance(each, list)}
        if isinstance(keys, dict)
        else {}
    )
    places = dict(filter(None, map(_located, located if isinstance(located, list) else ())))
    version = tables.get("version")
    return _Index(tensors, values, origin, places, version if isinstance(version, str) else "", wishes.globals)


def _leaf(node: Any) -> _Leaf | None:
    fields = node.fields if isinstance(node, Instance) else {}
    shape, chunks, properties = _sizes(fields.get("size")), fields.get("chunks"), fields.get("properties")
    if shape is None or not isinstance(chunks, list) or not isinstance(properties, Instance):
        return None
    state = properties.state
    dtype = state[0] if isinstance(state, list) and state else properties.fields.get("dtype")
    pieces = [
        (_sizes(each.fields.get("offsets")), _sizes(each.fields.get("sizes")))
        for each in chunks
        if isinstance(each, Instance)
    ]
    kept = tuple((start, size) for start, size in pieces if start is not None and size is not None)
    return _Leaf(dtype_of(dtype.cls) if isinstance(dtype, Instance) else "?", shape, kept)


def _located(row: Any) -> tuple[_Chunk, _Place] | None:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(each, Instance) for each in row):
        return None
    key, place = row[0].fields, row[1].fields
    file, offset, length = place.get("relative_path"), place.get("offset"), place.get("length")
    if not isinstance(file, str) or not _is_count(offset) or not _is_count(length):
        return None
    transforms = place.get("transform_descriptors")
    words = tuple(map(str, transforms)) if isinstance(transforms, list) else ()
    return (str(key.get("fqn")), _sizes(key.get("offset"))), _Place(file, offset, length, words)


def _sizes(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and len(value) <= 64 and all(map(_is_count, value)) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


# the files


def _read_files(root: Path, index: _Index, items: Items) -> _Found:
    """Read the items file by file, so that one is open at a time."""
    by_file: dict[str, list[tuple[_Chunk, _Place]]] = {}
    for chunk, place in index.places.items():
        by_file.setdefault(place.file, []).append((chunk, place))
    found = _Found()
    beside = Neighbours(root, root.resolve())
    for file, rows in by_file.items():
        status = beside.status(file)
        if status != "ok":
            kind = "file_missing" if status in ("missing", "not-a-file") else "file_outside"
            message = f"{file} {_WORDS[kind]}; {len(rows):,} items should be in it"
            found.observations.append(Observation(kind, file, {"status": status, "items": len(rows)}, message, file))
            _note_lost(rows, index, found, "missing")
            continue
        try:
            view = map_file(root / file)
        except InputError as error:
            found.observations.append(Observation("file_unread", file, error.message, f"{file} {error.message}", file))
            _note_lost(rows, index, found, "unread")
            continue
        _read_file(view, file, rows, index, items, found)
    return found


_WORDS: Final = {"file_missing": "is not there", "file_outside": "lies outside the folder and is not read"}


def _read_file(
    view: memoryview, file: str, rows: list[tuple[_Chunk, _Place]], index: _Index, items: Items, found: _Found
) -> None:
    cut = [row for row in rows if row[1].offset + row[1].length > len(view)]
    if cut:
        message = f"{file} ends at byte {len(view):,}; {len(cut):,} of its {len(rows):,} items lie beyond that"
        names = [chunk[0] for chunk, _ in cut[:_MOST]]
        found.observations.append(Observation("file_truncated", file, names, message, file))
        _note_lost(cut, index, found, "truncated")
    unread: list[str] = []
    for chunk, place in rows if not cut else [row for row in rows if row not in cut]:
        if place.transforms:
            _note_lost([(chunk, place)], index, found, ",".join(place.transforms))
            continue
        try:
            _read_item(view, chunk, place, index, items, found)
        except InputError as error:
            unread.append(f"{chunk[0]}: {error.message}")
            _note_lost([(chunk, place)], index, found, "damaged")
    if unread:
        message = f"{len(unread):,} of {len(rows):,} items of {file} cannot be read, the first: {unread[0]}"
        found.observations.append(Observation("file_unread", file, unread[:_MOST], message, file))


def _read_item(view: memoryview, chunk: _Chunk, place: _Place, index: _Index, items: Items, found: _Found) -> None:
    name, start = chunk
    leaf = index.tensors.get(name)
    if leaf is None and len(found.values) >= _MOST_VALUES:
        return
    item = items.read(view, place.offset, place.length, place.file)
    if leaf is None:
        found.values[name] = item.value
        return
    shape = _shape_of(leaf, start)
    tensor = item.value
    if not isinstance(tensor, StoredTensor) or tensor.shape != shape or tensor.dtype != leaf.dtype:
        message = (
            f"The index says that {place.file} holds {leaf.dtype}{list(shape)} of {name}; it holds {_words(tensor)}"
        )
        found.observations.append(Observation("tensor_missing", name, _words(tensor), message, place.file))
        _note_lost([(chunk, place)], index, found, "damaged")
        return
    found.parts[chunk] = _part(item, tensor, leaf, chunk, place)


def _part(item: Item, tensor: StoredTensor, leaf: _Leaf, chunk: _Chunk, place: _Place) -> Part:
    at, size = item.places.get(tensor.storage, (None, 0))
    first, whole = tensor.offset * tensor.item_bytes, tensor.numel * tensor.item_bytes
    stride = () if is_contiguous(tensor.shape, tensor.stride) else tensor.stride
    reach = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride, strict=True)) + 1
    needed = 0 if not tensor.numel else reach * tensor.item_bytes
    if at is None or first + needed > size:
        raise InputError("the stored tensor is cut short")
    start, shape = _box(leaf, chunk, tensor.shape)
    return Part(place.file, at + first, needed if stride else whole, start, shape, stride, _rank(place.file))


def _note_lost(rows: list[tuple[_Chunk, _Place]], index: _Index, found: _Found, codec: str) -> None:
    """Chunks whose bytes cannot be reached are parts without an offset: they are no holes, the file is at fault."""
    for chunk, place in rows:
        leaf = index.tensors.get(chunk[0])
        if leaf is not None:
            shape = _shape_of(leaf, chunk[1])
            start, size = _box(leaf, chunk, shape)
            needed = prod(shape) * item_bytes(leaf.dtype)
            found.parts[chunk] = Part(place.file, None, needed, start, size, (), _rank(place.file), codec)


def _box(leaf: _Leaf, chunk: _Chunk, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Start and shape of a part; both () where the chunk is the whole tensor."""
    return ((), ()) if shape == leaf.shape else (chunk[1] or (), shape)


def _shape_of(leaf: _Leaf, start: tuple[int, ...] | None) -> tuple[int, ...]:
    if len(leaf.chunks) == 1:
        return leaf.chunks[0][1]
    return next((size for at, size in leaf.chunks if at == start), ())


def _rank(file: str) -> int | None:
    match = _RANK.fullmatch(file)
    return int(match[1]) if match else None


def _words(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, StoredTensor) else type(value).__name__


# the checkpoint


def _tree(index: _Index, values: dict[str, Any]) -> dict[Any, Any]:
    """The tree that was saved: leaves of the index and values of the files, each under the keys it came from."""
    tree: dict[Any, Any] = {}
    leaves: list[tuple[str, Any]] = [*index.tensors.items(), *((name, values.get(name)) for name in index.values)]
    for name, leaf in leaves:
        keys = index.keys.get(name) or (name,)
        node = tree
        for key in keys[:-1]:
            inner = node.setdefault(key, {})
            node = inner if isinstance(inner, dict) else {}
        node.setdefault(keys[-1], leaf)
    return tree


def _entry(name: str, leaf: _Leaf, index: _Index, found: _Found, training: Found) -> Entry:
    keys = index.keys.get(name) or (name,)
    group, path, last = training.place_of(keys)
    if len(leaf.chunks) == 1:
        parts = tuple(filter(None, (found.parts.get((name, start)) for start in (leaf.chunks[0][0], None))))[:1]
    else:
        parts = tuple(part for start, _ in leaf.chunks if (part := found.parts.get((name, start))) is not None)
    return Entry(last, leaf.dtype, leaf.shape, parts, group, path)


def _unlisted(files: tuple[str, ...], there: tuple[str, ...]) -> Iterator[Observation]:
    for file in islice(sorted({*there} - {*files}), _MOST):
        message = f"{file} is not named by {_INDEX}: it is left from another save, perhaps of more processes"
        yield Observation("file_unlisted", file, file, message, file)


def _metadata(index: _Index, found: _Found, files: tuple[str, ...]) -> dict[str, Any]:
    ranks = {rank for rank in map(_rank, files) if rank is not None}
    top = dict.fromkeys(str((index.keys.get(name) or (name,))[0]) for name in (*index.tensors, *index.values))
    values = {name: plain_value(value) for name, value in islice(found.values.items(), _MOST)}
    return {
        "keys": list(top)[:_MOST],
        "world_size": max(ranks) + 1 if ranks else None,
        "version": index.version,
        "values": {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)},
        "sharded": sum(len(leaf.chunks) > 1 for leaf in index.tensors.values()),
    }
