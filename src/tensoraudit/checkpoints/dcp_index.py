"""The `.metadata` of torch.distributed.checkpoint: a pickled `Metadata` of three tables, read as data.

What each name is (shape, dtype, chunks), which keys a flat name came from, and in which file, at which offset, each
chunk lies. A large run has a hundred thousand chunks of a hundred opcodes each, so the tables are read from the
pickle's nodes as they are, and those of a chunk are made small as soon as they are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.pickle_machine import (
    BrokenPickleError,
    Call,
    Global,
    Items,
    Pairs,
    Stream,
    Wishes,
    interpret,
)
from tensoraudit.artifacts.pickles import dtype_of, sizes_of
from tensoraudit.errors import InputError

Keys = tuple[Any, ...]
Chunk = tuple[str, tuple[int, ...] | None]
"""A flat name, and the start of the chunk (None for what is no tensor)."""

_MOST_OPCODES: Final = 16_000_000
"""Some 140,000 chunks of 112 opcodes each: a model of 700 weights with the moments of Adam on 64 ranks."""
_AGAIN: Final = "Copy the folder again, or save again with torch.distributed.checkpoint.save."


class Place(NamedTuple):
    """Where the index says that an item lies, in bytes."""

    file: str
    offset: int
    length: int
    transforms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor of the index; `chunks` maps the start of each to its shape."""

    dtype: str
    shape: tuple[int, ...]
    chunks: dict[tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True)
class Index:
    """The three tables. `values` are the names of what is no tensor; `globals` what the pickle wants to import."""

    tensors: dict[str, Leaf] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    keys: dict[str, Keys] = field(default_factory=dict)
    places: dict[Chunk, Place] = field(default_factory=dict)
    version: str = ""
    globals: tuple[str, ...] = ()


def read_index(path: Path) -> Index:
    """Read an index. Raises InputError for a damaged one, and for one of too many chunks."""
    wishes = Wishes()
    try:
        root = interpret(Stream(map_file(path)), wishes, _MOST_OPCODES, _fold)
    except BrokenPickleError as error:
        raise InputError(f"is a damaged or truncated index ({error})", where=str(path), remedy=_AGAIN) from error
    except InputError as error:
        raise InputError(error.message, where=str(path), remedy="Consolidate it with dcp_to_torch_save.") from error
    tables = _fields(root)
    described, located = tables.get("state_dict_metadata"), tables.get("storage_data")
    if not isinstance(described, Pairs) or not isinstance(located, Pairs):
        message = "is no index of torch.distributed.checkpoint (its tables are missing)"
        raise InputError(message, where=str(path), remedy=_AGAIN)
    version = tables.get("version")
    index = Index(version=version if isinstance(version, str) else "", globals=tuple(wishes.globals))
    for name, node in _emptied(described):
        leaf = _leaf(node)
        if leaf is None:
            index.values.append(str(name))
        else:
            index.tensors[str(name)] = leaf
    index.places.update(filter(None, (_located(key, place) for key, place in _emptied(located))))
    for name, keys in _emptied(tables.get("planner_data")):
        if isinstance(keys, Items) and keys.values and all(isinstance(key, str | int) for key in keys.values):
            index.keys[str(name)] = tuple(keys.values)
    return index


def _emptied(table: Any) -> Iterator[tuple[Any, Any]]:
    """The pairs of a table in their order; each is forgotten once it was given out."""
    if isinstance(table, Pairs):
        table.pairs.reverse()
        while table.pairs:
            yield table.pairs.pop()


def _leaf(node: Any) -> Leaf | None:
    fields = _fields(node)
    shape, chunks = sizes_of(fields.get("size")), fields.get("chunks")
    if shape is None or not isinstance(chunks, Items):
        return None
    pieces: dict[tuple[int, ...], tuple[int, ...]] = {}
    for chunk in chunks.values:
        if isinstance(chunk, Call) and isinstance(chunk.state, _Box):
            pieces[chunk.state.start] = chunk.state.size
    return Leaf(_dtype(fields.get("properties")), shape, pieces)


def _dtype(properties: Any) -> str:
    """The dtype of a pickled TensorProperties: the first of its state, or the field of that name."""
    state = properties.state if isinstance(properties, Call) else None
    first = state.values[0] if isinstance(state, Items) and state.values else _fields(properties).get("dtype")
    return dtype_of(first.name) if isinstance(first, Global) else "?"


def _located(key: Any, place: Any) -> tuple[Chunk, Place] | None:
    name, at = (node.state if isinstance(node, Call) else None for node in (key, place))
    return ((name.name, name.start), at) if isinstance(name, _Name) and isinstance(at, Place) else None


class _Box(NamedTuple):
    """A ChunkStorageMetadata."""

    start: tuple[int, ...]
    size: tuple[int, ...]


class _Name(NamedTuple):
    """A MetadataIndex."""

    name: str
    start: tuple[int, ...] | None


def _box(fields: Mapping[str, Any]) -> _Box | None:
    start, size = sizes_of(fields.get("offsets")), sizes_of(fields.get("sizes"))
    return None if start is None or size is None else _Box(start, size)


def _name(fields: Mapping[str, Any]) -> _Name:
    return _Name(str(fields.get("fqn")), sizes_of(fields.get("offset")))


def _place(fields: Mapping[str, Any]) -> Place | None:
    file, offset, length = fields.get("relative_path"), fields.get("offset"), fields.get("length")
    if not isinstance(file, str) or not isinstance(offset, int) or not isinstance(length, int):
        return None
    if not 0 <= offset < 1 << 63 or not 0 <= length < 1 << 63:
        return None
    transforms = fields.get("transform_descriptors")
    words = tuple(map(str, transforms.values)) if isinstance(transforms, Items) else ()
    return Place(file, offset, length, words)


_FOLDED: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "ChunkStorageMetadata": _box, "MetadataIndex": _name, "_StorageInfo": _place,
}  # fmt: skip
"""What there is one of for each chunk, by class: nodes of kilobytes become a tuple."""


def _fold(node: Call) -> None:
    callee = node.arguments[0] if node.arguments else node.callee
    make = _FOLDED.get(callee.name.rpartition(".")[2]) if isinstance(callee, Global) else None
    if make is not None:
        node.state, node.arguments = make(_fields(node)), []


def _fields(node: Any) -> dict[str, Any]:
    """The attributes of a pickled object: its state, or the second half of a `(None, slots)` pair."""
    state = node.state if isinstance(node, Call) else None
    if isinstance(state, Items) and len(state.values) == 2:
        state = state.values[1]
    return {key: value for key, value in state.pairs if isinstance(key, str)} if isinstance(state, Pairs) else {}
