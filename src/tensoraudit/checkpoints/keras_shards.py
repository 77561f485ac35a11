"""Keras weights in several files: a `.weights.json` that maps groups of variables to `.weights.h5` files beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.hdf5_tree import Hdf5Tree
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.checkpoints.keras_file import (
    SAVE_AGAIN,
    about_tree,
    inner_optimizer_name,
    optimizer_name,
    scalars_in,
    tree_of,
)
from tensoraudit.checkpoints.keras_training import sorted_out
from tensoraudit.checkpoints.keras_tree import Home, entries, faults, natural
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint
from tensoraudit.errors import InputError

_MAP: Final = "weight_map"
_END: Final = ".h5"
_MOST_MAP: Final = 64 << 20
_MOST_FILES: Final = 100_000
_MOST_LISTED: Final = 1_000


def recognises(path: Path) -> bool:
    """Whether a JSON file maps variables to HDF5 files. Never raises."""
    if not path.name.endswith(".json"):
        return False
    try:
        view = map_file(path)
    except InputError:
        return False
    return len(view) <= _MOST_MAP and any(name.endswith(_END) for name in _mapped(_load(view)))


def read(path: Path) -> StoredCheckpoint:
    """Read the files that the map names; one that is missing or damaged is an observation. Raises InputError."""
    content = _load(map_file(path))
    groups = _mapped(content)
    if not groups:
        raise InputError("maps no variable to a file", where=str(path), remedy=SAVE_AGAIN)
    observations: list[Observation] = []
    trees = dict(_trees(path.parent, groups, observations))
    found = _entries(trees, observations)
    observations += _absent(groups, trees)
    observations += _unlisted(path, groups)
    observations += _total(content, found)
    named, inner = (next(filter(None, map(of, trees.values())), "") for of in (optimizer_name, inner_optimizer_name))
    found, training = sorted_out(found, named, scalars_in(path.parent), inner)
    first = next(iter(trees.values()), Hdf5Tree())
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format="keras_weights",
        framework="tensorflow",
        files=(path.name, *trees),
        entries=found,
        training=training,
        writer="Keras",
        metadata={**about_tree(first), "shards": len(groups), "config_layers": []},
        observations=tuple(observations),
    )


def _load(view: memoryview) -> dict[str, Any]:
    try:
        value = json.loads(bytes(view))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _mapped(content: dict[str, Any]) -> dict[str, list[str]]:
    """The groups of variables by the file that they are said to stand in."""
    found: dict[str, list[str]] = {}
    places = content.get(_MAP)
    for group, files in places.items() if isinstance(places, dict) else ():
        for file in files if isinstance(files, list) else [files]:
            if isinstance(file, str):
                found.setdefault(file, []).append(group.strip("/"))
    return found


def _trees(root: Path, groups: dict[str, list[str]], observations: list[Observation]) -> Iterator[tuple[str, Hdf5Tree]]:
    for file, inside in islice(groups.items(), _MOST_FILES):
        path = root / file
        if Path(file).name != file or not _stays(root, path):
            message = f"The map names {file!r}, which is outside of its folder; it is not read."
            observations.append(Observation("file_outside", file, file, message, file))
        elif not path.is_file():
            message = f"{file} is missing; {len(inside):,} groups of variables stand in it."
            observations.append(Observation("file_missing", file, len(inside), message, file))
        else:
            try:
                yield file, tree_of(map_file(path), str(path))
            except InputError as error:
                message = f"{file} cannot be read: it {error.message}."
                observations.append(Observation("file_unread", file, len(inside), message, file))


def _stays(root: Path, path: Path) -> bool:
    return not path.is_symlink() or path.resolve().is_relative_to(root.resolve())


def _entries(trees: dict[str, Hdf5Tree], observations: list[Observation]) -> tuple[Entry, ...]:
    found: dict[str, Entry] = {}
    for file, tree in trees.items():
        observations += faults(tree, file)
        for entry in entries(tree, Home(file), {}):
            if entry.name in found:
                other = found[entry.name].parts[0].file
                message = f"{entry.name} stands in {other} and in {file}."
                observations.append(Observation("tensor_twice", entry.name, [other, file], message, file))
            else:
                found[entry.name] = entry
    return tuple(found[name] for name in sorted(found, key=natural))


def _absent(groups: dict[str, list[str]], trees: dict[str, Hdf5Tree]) -> Iterator[Observation]:
    """Groups of variables that a file was said to hold and does not."""
    for file, tree in trees.items():
        there = set(tree.groups)
        for group in groups[file]:
            if group not in there:
                message = f"The map says that {group} stands in {file}, and it does not."
                yield Observation("tensor_missing", group, file, message, file)


def _unlisted(path: Path, groups: dict[str, list[str]]) -> Iterator[Observation]:
    start = path.name.split(".", 1)[0] + "_"
    for each in sorted(islice(path.parent.iterdir(), _MOST_FILES))[:_MOST_FILES]:
        if each.name.startswith(start) and each.name.endswith(".weights.h5") and each.name not in groups:
            yield Observation("file_unlisted", each.name, 1, f"{each.name} is not in the map {path.name}.", each.name)


def _total(content: dict[str, Any], found: tuple[Entry, ...]) -> Iterator[Observation]:
    about = content.get("metadata")
    stated = about.get("total_size") if isinstance(about, dict) else None
    there = sum(entry.stored_bytes for entry in found)
    if isinstance(stated, (int, float)) and stated != there:
        message = f"The map states {stated:,.0f} bytes of weights, the files have {there:,}."
        yield Observation("size_mismatch", "checkpoint", [stated, there], message)
