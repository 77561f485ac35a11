"""Flax's MessagePack files: a tree of maps whose leaves are arrays in an extension type of their own.

An array is (shape, name of its type, bytes in C order) packed once more inside the extension; one of more than a
gibibyte is a map of flat pieces. Format: flax/serialization.py of Flax 0.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.msgpack import Blob, Extension, MsgpackError, read_msgpack
from tensoraudit.checkpoints.jax_tree import place_of, training_of
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.errors import InputError

_ARRAY, _COMPLEX, _SCALAR = 1, 2, 3
_CHUNKED: Final = "__msgpack_chunked_array__"
_OTHER_TYPES: Final = {
    "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3b11fnuz": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "float8_e3m4": 1, "float8_e4m3": 1, "float8_e8m0fnu": 1, "float4_e2m1fn": 1,
    "int4": 1, "uint4": 1, "int2": 1, "uint2": 1,
}  # fmt: skip
"""Bytes per element of the types that NumPy gets from ml_dtypes, which keeps each element in bytes of its own."""
_MAX_RANK: Final = 64
_MOST: Final = 1000
_AGAIN: Final = "Copy the file again, or save it again with flax.serialization.to_bytes."


@dataclass(slots=True)
class _Tree:
    view: memoryview
    file: str
    entries: list[Entry] = field(default_factory=list)
    plain: dict[tuple[str, ...], Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Array:
    """An array where it stands: `start` is the offset of its bytes in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


def recognises(path: Path) -> bool:
    """Whether the file is a MessagePack map with names as keys."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        return False
    return path.suffix == ".msgpack" or _begins_with_a_name(head)


def _begins_with_a_name(head: bytes) -> bool:
    """Whether the bytes are a map that is not empty, and its first key a short text. (0x80, an empty map, is how every
    pickle begins.)"""
    first = head[0] if head else 0
    start = 1 if 0x80 < first < 0x90 else {0xDE: 3, 0xDF: 5}.get(first, 0)
    if not start or len(head) < start + 2:
        return False
    code, text = head[start], head[start + 1 :]
    size = code & 0x1F if 0xA0 < code < 0xC0 else text[0] if code == 0xD9 else 0
    key = text[:size] if code < 0xC0 else text[1 : 1 + size]
    return size > 0 and key.isascii() and key.decode("ascii").isprintable()


def read(path: Path) -> StoredCheckpoint:
    """Read where the arrays are. Raises InputError for a file that is damaged or holds something else."""
    view = map_file(path)
    tree = _Tree(view, path.name)
    try:
        root, end = read_msgpack(view, 0, len(view))
        if not isinstance(root, dict):
            raise MsgpackError("holds no map of names")
        _walk(root, (), tree)
    except MsgpackError as error:
        raise InputError(f"is no whole Flax file: it {error}", where=str(path), remedy=_AGAIN) from error
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format="flax_msgpack",
        framework="jax",
        files=(path.name,),
        entries=tuple(tree.entries),
        training=training_of(tree.entries, tree.plain),
        metadata={"keys": list(root)[:_MOST]},
        observations=tuple(_observations(tree, len(view) - end)),
    )


def _observations(tree: _Tree, behind: int) -> list[Observation]:
    found = []
    if not tree.entries:
        found.append(Observation("no_tensors", tree.file, 0, "The file holds no array", tree.file))
    if behind:
        message = f"{behind:,} bytes after the tree belong to no array"
        found.append(Observation("bytes_unclaimed", tree.file, behind, message, tree.file))
    return found


def _walk(node: Any, keys: tuple[str, ...], tree: _Tree) -> None:
    """Collect the leaves below a node; the reader has bounded how deep it can be."""
    if isinstance(node, dict) and _CHUNKED not in node:
        for key, value in node.items():
            _walk(value, (*keys, key), tree)
    elif isinstance(node, list):
        for place, value in enumerate(node):
            _walk(value, (*keys, str(place)), tree)
    elif isinstance(node, dict):
        _add(tree, keys, *_chunked(node, keys, tree))
    elif isinstance(node, Extension) and node.code in (_ARRAY, _SCALAR):
        array = _array(tree.view, node, keys)
        _add(tree, keys, array.dtype, array.shape, (Part(tree.file, array.start, array.size),))
    elif isinstance(node, bool | int | float | str):
        tree.plain[keys] = node


def _add(tree: _Tree, keys: tuple[str, ...], dtype: str, shape: tuple[int, ...], parts: tuple[Part, ...]) -> None:
    path, name, group = place_of(keys)
    tree.entries.append(Entry(name, dtype, shape, parts, group, path))


def _array(view: memoryview, node: Extension, keys: tuple[str, ...]) -> _Array:
    content, _ = read_msgpack(view, node.start, node.end)
    name = ".".join(keys)[:200]
    if not isinstance(content, list) or len(content) != 3 or not isinstance(content[2], Blob):
        raise MsgpackError(f"keeps {name!r} as an array in a form that Flax does not write")
    shape, dtype, blob = _shape(content[0], name), _dtype(content[1], view), content[2]
    needed = prod(shape) * _item_bytes(dtype, name)
    if blob.end - blob.start != needed:
        raise MsgpackError(f"keeps {blob.end - blob.start:,} bytes for {name!r}, whose shape and type need {needed:,}")
    return _Array(dtype, shape, blob.start, needed)


def _shape(sizes: Any, name: str) -> tuple[int, ...]:
    if (
        not isinstance(sizes, list)
        or len(sizes) > _MAX_RANK
        or not all(type(size) is int and size >= 0 for size in sizes)
    ):
        raise MsgpackError(f"gives {name!r} an impossible shape")
    return tuple(sizes)


def _dtype(name: Any, view: memoryview) -> str:
    """The name of a type, which old versions of Flax wrote as bytes."""
    if isinstance(name, Blob) and name.end - name.start < 64:
        return bytes(view[name.start : name.end]).decode("ascii", "replace")
    return str(name)[:64]


def _item_bytes(dtype: str, name: str) -> int:
    if dtype in _OTHER_TYPES:
        return _OTHER_TYPES[dtype]
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise MsgpackError(f"gives {name!r} the unknown type {dtype!r}") from error
    if found.hasobject:
        raise MsgpackError(f"gives {name!r} the type {dtype!r}, which holds no numbers")
    return found.itemsize


def _chunked(
    node: Mapping[str, Any], keys: tuple[str, ...], tree: _Tree
) -> tuple[str, tuple[int, ...], tuple[Part, ...]]:
    """An array that is cut into flat pieces, in the order of their numbers."""
    name = ".".join(keys)[:200]
    sizes, chunks = (_numbered(node.get(key), name) for key in ("shape", "chunks"))
    shape = _shape(sizes, name)
    parts: list[Part] = []
    dtypes: set[str] = set()
    start = 0
    for chunk in chunks:
        if not isinstance(chunk, Extension):
            raise MsgpackError(f"has a piece of {name!r} that is no array")
        array = _array(tree.view, chunk, keys)
        parts.append(Part(tree.file, array.start, array.size, start=(start,), shape=(prod(array.shape),)))
        start += prod(array.shape)
        dtypes.add(array.dtype)
    if start != prod(shape) or len(dtypes) != 1:
        raise MsgpackError(f"has pieces of {name!r} with {start:,} elements, and its shape needs {prod(shape):,}")
    return dtypes.pop(), shape, tuple(parts)


def _numbered(node: Any, name: str) -> list[Any]:
    """The values of a map with the keys "0", "1", ..., which is how Flax writes a tuple."""
    try:
        return [node[str(place)] for place in range(len(node))]
    except (TypeError, KeyError) as error:
        raise MsgpackError(f"keeps {name!r} in pieces that are not numbered") from error
