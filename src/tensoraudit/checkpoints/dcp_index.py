"""The `.metadata` of torch.distributed.checkpoint: a pickled `Metadata` of three tables, read as data.

What each name is (shape, dtype, chunks), which keys a flat name came from, and in which file, at which offset, each
chunk lies. A large run has a hundred thousand chunks of a hundred opcodes each, so the tables are read from the
pickle's nodes as they are, and those of a chunk are made small as soon as they are whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import NOTHING, Call, Global, Items, Pairs, Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.artifacts.pickles import dtype_of, sizes_of
from tensoraudit.errors import InputError

Keys = tuple[Any, ...]
Chunk = tuple[str, tuple[int, ...] | None]
"""A flat name, and the start of the chunk (None for what is no tensor)."""

_MOST_OPCODES: Final = 34_000_000
"""Some 300,000 chunks of 112 opcodes each: a model of 1,500 weights with the moments of Adam on 64 ranks."""
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
        root = interpret(Stream(map_file(path)), wishes, _MOST_OPCODES, _Fold())
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


def _place(fields: Mapping[str, Any]) -> Place | None:
    file, offset, length = fields.get("relative_path"), fields.get("offset"), fields.get("length")
    if not isinstance(file, str) or not isinstance(offset, int) or not isinstance(length, int):
        return None
    if not 0 <= offset < 1 << 63 or not 0 <= length < 1 << 63:
        return None
    transforms = fields.get("transform_descriptors")
    words = tuple(map(str, transforms.values)) if isinstance(transforms, Items) else ()
    return Place(file, offset, length, words)


class _Fold:
    """Makes small what there is one of for each chunk: nodes of kilobytes become a tuple, shapes that are equal one."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._made = {"ChunkStorageMetadata": self._box, "MetadataIndex": self._name, "_StorageInfo": _place}

    def __call__(self, node: Call) -> None:
        callee = node.arguments[0] if node.arguments else node.callee
        make = self._made.get(callee.name.rpartition(".")[2]) if isinstance(callee, Global) else None
        if make is not None:
            node.state, node.arguments = make(_fields(node)), NOTHING

    def _box(self, fields: Mapping[str, Any]) -> _Box | None:
        start, size = self._shape(fields.get("offsets")), self._shape(fields.get("sizes"))
        return None if start is None or size is None else _Box(start, size)

    def _name(self, fields: Mapping[str, Any]) -> _Name:
        return _Name(str(fields.get("fqn")), self._shape(fields.get("offset")))

    def _shape(self, node: Any) -> tuple[int, ...] | None:
        shape = sizes_of(node)
        return None if shape is None else self._shapes.setdefault(shape, shape)


def _fields(node: Any) -> dict[str, Any]:
    """The attributes of a pickled object: its state, or the second half of a `(None, slots)` pair."""
    state = node.state if isinstance(node, Call) else None
    if isinstance(state, Items) and len(state.values) == 2:
        state = state.values[1]
    return {key: value for key, value in state.pairs if isinstance(key, str)} if isinstance(state, Pairs) else {}
