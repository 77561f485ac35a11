"""One item of an Orbax checkpoint: a tree of arrays, described by `_METADATA` and kept in Zarr arrays.

`_METADATA` has the tree with its keys but neither types nor whole shapes; those stand with each array. `_sharding` has
the devices that each array lay on when it was saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.bounded_json import read_json
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.checkpoints.jax_tree import is_counter, place_of
from tensoraudit.checkpoints.orbax_store import ArrayStore, DatabaseStore, chunk_of, find_array, open_store
from tensoraudit.checkpoints.schema import Entry, Observation, Part
from tensoraudit.checkpoints.zarr_arrays import ZarrArray, ZarrError, read_chunk
from tensoraudit.errors import InputError

METADATA: Final = "_METADATA"
_SHARDING, _STRINGS = "_sharding", "_strings.json"
_MAX_DEPTH: Final = 64
_MAX_CHUNKS: Final = 100_000
_MAX_ALL_CHUNKS: Final = 1_000_000
_MOST: Final = 1000
_AGAIN: Final = "Copy the whole folder of the checkpoint again, or save it again."


@dataclass(frozen=True, slots=True)
class _Source:
    """Where an item's arrays come from: `folder` relative to the root, `prefix` the keys that lead to the item.
    `complete` says that a chunk which is not there is a fault: Zarr may leave out those that hold the fill value."""

    store: ArrayStore
    folder: str
    prefix: tuple[str, ...]
    complete: bool


@dataclass(slots=True)
class Item:
    """What an item holds. `plain` are values that are no arrays, by their keys; `devices` is the largest number of
    devices that an array was spread over, None where it is not said."""

    entries: list[Entry] = field(default_factory=list)
    plain: dict[tuple[str, ...], Any] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)
    devices: int | None = None
    mesh: dict[str, Any] = field(default_factory=dict)
    shardings: Counter[str] = field(default_factory=Counter)
    value_types: Counter[str] = field(default_factory=Counter)


def read_item(root: Path, folder: str, prefix: tuple[str, ...]) -> Item:
    """Read the item in `root / folder`; `prefix` are the keys that lead to it.

    Raises InputError where its tree or its database cannot be read.
    """
    place = root / folder
    store = open_store(place)
    item = Item()
    leaves = _leaves(place, item) if (place / METADATA).is_file() else _names_only(store)
    source = _Source(store, folder, prefix, _stores_all(place))
    chunks = 0
    for keys in leaves:
        chunks += _add(item, source, keys)
        if chunks > _MAX_ALL_CHUNKS:
            raise InputError(f"has more than {_MAX_ALL_CHUNKS:,} chunks", where=str(place), remedy=_AGAIN)
    _read_strings(place, item, prefix)
    _read_sharding(place, item)
    return item


def _leaves(place: Path, item: Item) -> list[tuple[str, ...]]:
    """The keys of every array in the tree."""
    tree = _json(place, METADATA)
    nodes = tree.get("tree_metadata") if isinstance(tree, dict) else None
    if not isinstance(nodes, dict):
        raise InputError("has no tree of arrays", where=str(place / METADATA), remedy=_AGAIN)
    found = []
    for node in nodes.values():
        try:
            keys = tuple(str(each["key"]) for each in node["key_metadata"])
            value = node["value_metadata"]
            kind, absent = str(value["value_type"])[:40], value.get("skip_deserialize", False)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"has a node without {error}", where=str(place / METADATA), remedy=_AGAIN) from error
        if not keys or len(keys) > _MAX_DEPTH:
            raise InputError("nests a tree too deep", where=str(place / METADATA), remedy=_AGAIN)
        item.value_types[kind] += 1
        if not absent and kind != "string":
            found.append(keys)
    return found


def _stores_all(place: Path) -> bool:
    """Whether the item was saved with every chunk, also one that holds nothing but zeros."""
    tree = _json(place, METADATA) if (place / METADATA).is_file() else {}
    return bool(tree.get("store_array_data_equal_to_fill_value", False)) if isinstance(tree, dict) else False


def _names_only(store: ArrayStore) -> list[tuple[str, ...]]:
    """The arrays of a database without a tree: where one key ends and the next begins is lost."""
    return [tuple(name.split(".")) for name in store.arrays()] if isinstance(store, DatabaseStore) else []


def _add(item: Item, source: _Source, keys: tuple[str, ...]) -> int:
    """Add the array at these keys to the item, and return how many chunks it has."""
    stored_name, folder = ".".join(keys), source.folder
    path, name, group = place_of((*source.prefix, *keys))
    full = ".".join((*path, name))
    try:
        array = find_array(source.store, stored_name, folder)
        if array is None:
            message = f"The tree names {full!r}, and no array is stored for it"
            _observe(item, Observation("tensor_missing", full, {"file": folder or "."}, message, folder))
            return 0
        parts = list(_parts(array, source, stored_name))
    except (ZarrError, InputError) as error:
        reason = error.message if isinstance(error, InputError) else str(error)
        _observe(item, Observation("file_unread", full, reason, f"{full!r} {reason}", folder))
        return 0
    total = prod(array.grid)
    if len(parts) < total and source.complete:
        value = {"chunks": total, "missing": total - len(parts)}
        message = f"{total - len(parts):,} of the {total:,} chunks of {full!r} are not stored; they restore as zeros"
        _observe(item, Observation("tensor_hole", full, value, message, folder))
    item.entries.append(Entry(name, array.dtype, array.shape, tuple(parts), group, path))
    if is_counter((*source.prefix, *keys)) and not array.shape:
        _read_counter(item, array, source, keys)
    return total


def _parts(array: ZarrArray, source: _Source, name: str) -> Iterator[Part]:
    total = prod(array.grid)
    if total > _MAX_CHUNKS:
        raise ZarrError(f"is cut into {total:,} chunks, more than {_MAX_CHUNKS:,}")
    folder = source.folder
    above = f"{folder}/" if folder else ""
    for place in array.places(total):
        key = f"{name}/{array.key(place)}"
        found = source.store.place(key)
        if found is None:
            continue
        file, offset, stored = found
        start, shape = array.box(place)
        size = prod(shape) * array.item
        box = ((), ()) if total == 1 else (start, shape)
        if array.is_plain and shape == array.chunks and offset is not None and stored == size:
            yield Part(above + file, offset, size, *box)
        else:
            digits = ",".join(map(str, place))
            yield Part(above + file, None, size, *box, codec=f"zarr:{digits}:{folder}//{name}")


def inflate(root: Path, part: Part) -> bytes:
    """Return the bytes, in C order, of a part whose codec is "zarr:INDICES:FOLDER//NAME".

    Raises ValueError where they cannot be had; the message is a clause.
    """
    _, digits, place_and_name = part.codec.split(":", 2)
    folder, _, name = place_and_name.partition("//")
    place = tuple(int(each) for each in digits.split(",") if each)
    try:
        store = open_store(root / folder)
        array = find_array(store, name, folder)
    except InputError as error:
        raise ZarrError(error.message) from error
    if array is None:
        raise ZarrError(f"does not hold {name!r}")
    return read_chunk(array, place, chunk_of(store, f"{name}/{array.key(place)}"))


def _read_counter(item: Item, array: ZarrArray, source: _Source, keys: tuple[str, ...]) -> None:
    """Note a step or an epoch: a single number, which tells more than that there is one."""
    try:
        content = read_chunk(array, (), chunk_of(source.store, f"{'.'.join(keys)}/{array.key(())}"))
        item.plain[(*source.prefix, *keys)] = np.frombuffer(content, array.dtype)[0].item()
    except (ZarrError, TypeError, ValueError, IndexError):
        return


def _read_strings(place: Path, item: Item, prefix: tuple[str, ...]) -> None:
    if not _is_beside(place, _STRINGS):
        return
    strings = _json(place, _STRINGS)
    if isinstance(strings, dict):
        for name, text in list(strings.items())[:_MOST]:
            item.plain[(*prefix, name)] = str(text)[:2000]


def _read_sharding(place: Path, item: Item) -> None:
    """Note on how many devices the arrays lay. The values are JSON within JSON."""
    if not _is_beside(place, _SHARDING):
        return
    try:
        table = _json(place, _SHARDING)
        texts = [text for text in table.values() if isinstance(text, str)] if isinstance(table, dict) else []
        for text in texts:
            _note_sharding(read_json(text.encode(), _SHARDING), item)
    except InputError as error:
        _observe(item, Observation("file_unread", _SHARDING, error.message, f"{_SHARDING} {error.message}"))


def _note_sharding(sharding: Any, item: Item) -> None:
    if not isinstance(sharding, Mapping):
        return
    kind = str(sharding.get("sharding_type"))[:40]
    item.shardings[kind] += 1
    sizes, names = _short_list(sharding.get("shape")), _short_list(sharding.get("axis_names"))
    if not all(type(size) is int and 0 < size < 1 << 32 for size in sizes):
        sizes = []
    devices = prod(sizes)
    if item.devices is None or devices > item.devices:
        item.devices = devices
        item.mesh = {"shape": sizes, "axis_names": [str(each)[:40] for each in names]} if sizes else {}


def _short_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) and len(value) <= _MAX_DEPTH else []


def _is_beside(place: Path, name: str) -> bool:
    return Neighbours(place).status(name) == "ok"


def _json(place: Path, name: str) -> Any:
    return read_json(map_file(place / name), str(place / name))


def _observe(item: Item, observation: Observation) -> None:
    if len(item.observations) < _MOST:
        item.observations.append(observation)
