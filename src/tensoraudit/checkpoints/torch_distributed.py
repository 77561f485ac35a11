"""Folders of `torch.distributed.checkpoint`: `.metadata` is the index, `__<rank>_<n>.distcp` hold the items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.checkpoints.averaged_sets import mark_averages
from tensoraudit.checkpoints.dcp_files import ItemFiles, rank_of
from tensoraudit.checkpoints.dcp_index import Chunk, Index, Leaf, read_index
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.checkpoints.stored_parts import first_number
from tensoraudit.checkpoints.tiling import tiles
from tensoraudit.checkpoints.training_state import Found, find_training_state, plain_value

_INDEX: Final = ".metadata"
_DATA: Final = ".distcp"
_OWN: Final = re.compile(r"torch\.distributed\.checkpoint\.[\w.]+|torch\.serialization\._get_layout|pathlib\.\w+Path")
"""What every index imports."""
_MOST: Final = 1_000
_MOST_FILES: Final = 200_000


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
    index = read_index(root / _INDEX)
    items = ItemFiles(root, index)
    items.read()
    names = {id(leaf): name for name, leaf in index.tensors.items()}

    def number(leaf: Any) -> int | float | None:
        """The one element of a counter."""
        name = names.get(id(leaf))
        parts = _parts(name, leaf, items.parts) if name is not None and prod(leaf.shape) == 1 else ()
        return first_number(root, parts[0], leaf.dtype) if parts else None

    training = find_training_state(_tree(index, items.values), number)
    entries = mark_averages([_entry(name, leaf, index, items.parts, training) for name, leaf in index.tensors.items()])
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
        metadata=_metadata(index, items.values, files),
        observations=(*items.observations, *_unlisted(files, there), *tiles(entries)),
    )


def _unfinished(path: Path, root: Path, there: tuple[str, ...]) -> StoredCheckpoint:
    message = f"{len(there):,} data files and no {_INDEX}, which is written last: the save did not end, names are lost"
    observation = Observation("unfinished", "checkpoint", {"files": len(there)}, message, _INDEX)
    return StoredCheckpoint(path, root, "torch_distributed", "pytorch", there, (), observations=(observation,))


def _tree(index: Index, values: Mapping[str, Any]) -> dict[Any, Any]:
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


def _entry(name: str, leaf: Leaf, index: Index, parts: Mapping[Chunk, Part], training: Found) -> Entry:
    group, path, last = training.place_of(index.keys.get(name) or (name,))
    return Entry(last, leaf.dtype, leaf.shape, _parts(name, leaf, parts), group, path)


def _parts(name: str, leaf: Leaf, parts: Mapping[Chunk, Part]) -> tuple[Part, ...]:
    wanted: list[tuple[int, ...] | None] = list(leaf.chunks)
    if len(wanted) == 1 and (name, wanted[0]) not in parts:
        wanted = [None]
    return tuple(part for start in wanted if (part := parts.get((name, start))) is not None)


def _unlisted(files: tuple[str, ...], there: tuple[str, ...]) -> Iterator[Observation]:
    for file in islice(sorted({*there} - {*files}), _MOST):
        message = f"{file} is not named by {_INDEX}: it is left from another save, perhaps of more processes"
        yield Observation("file_unlisted", file, file, message, file)


def _metadata(index: Index, values: Mapping[str, Any], files: tuple[str, ...]) -> dict[str, Any]:
    ranks = {rank for rank in map(rank_of, files) if rank is not None}
    plain = {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)}
    top = dict.fromkeys(str((index.keys.get(name) or (name,))[0]) for name in (*index.tensors, *index.values))
    return {
        "keys": list(top)[:_MOST],
        "world_size": max(ranks) + 1 if ranks else None,
        "version": index.version,
        "values": {name: plain_value(value) for name, value in islice(plain.items(), _MOST)},
        "sharded": sum(len(leaf.chunks) > 1 for leaf in index.tensors.values()),
    }
