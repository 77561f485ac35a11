"""Orbax checkpoints: one step with its items, or the folder of a CheckpointManager with many steps.

Everything is read from the files themselves; neither JAX nor TensorStore is needed. Layouts of orbax-checkpoint 0.12:
the folder of a checkpointer is an item; a manager's step has an item per name, `default` where none was given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.bounded_json import JsonLimits, read_json
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.ocdbt import MANIFEST
from tensoraudit.checkpoints.jax_tree import training_of
from tensoraudit.checkpoints.orbax_item import METADATA, Item, inflate, read_item
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint, TrainingState
from tensoraudit.errors import InputError

__all__ = ["inflate", "read", "recognises"]

_CHECKPOINT: Final = "_CHECKPOINT_METADATA"
_COMMITTED: Final = "commit_success.txt"
_TEMPORARY: Final = ".orbax-checkpoint-tmp"
_STEP: Final = re.compile(r"(?:.*_)?(\d{1,18})")
_PROCESS: Final = re.compile(r"process_(\d{1,9})")
_LOADERS: Final = ("dataset", "data_iter", "iterator", "loader", "data", "dataset_iterator", "train_iter", "iter")
"""What people call the item that keeps the position of their data."""
_MAX_ENTRIES: Final = 100_000
_MOST: Final = 1000
_LIMITS: Final = JsonLimits(size=4 << 20, names=100_000, items=200_000)
_AGAIN: Final = "Copy the whole folder of the checkpoint again, or name the folder of another step."


@dataclass(slots=True)
class _Step:
    """A step: where it is below the root ("" for the root itself), and its items by name ("" for the step itself)."""

    folder: str
    number: int | None = None
    items: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def recognises(path: Path) -> bool:
    """Whether the folder is an item, a step, a manager's folder, or what an interrupted save has left."""
    try:
        return path.is_dir() and (_is_step(path) or _TEMPORARY in path.name or bool(_steps(path) or _leftovers(path)))
    except OSError:
        return False


def read(path: Path) -> StoredCheckpoint:
    """Read a step, the newest whole one of a manager's folder. Raises InputError where none can be read."""
    observations = list(_unfinished(path))
    step = _choose(path)
    items = {name: read_item(path, folder, _prefix(name, step)) for name, folder in step.items.items()}
    entries = tuple(entry for item in items.values() for entry in item.entries)
    observations += (each for item in items.values() for each in item.observations)
    observations += _missing_ranks(path, step)
    if not entries:
        observations.append(Observation("no_tensors", "checkpoint", 0, "The checkpoint holds no array"))
    plain = {keys: value for item in items.values() for keys, value in item.plain.items()}
    return StoredCheckpoint(
        path=path,
        root=path,
        format="orbax",
        framework="jax",
        files=tuple(sorted({part.file for entry in entries for part in entry.parts} | set(_described(step)))),
        entries=entries,
        training=_training(training_of(entries, plain), step),
        metadata=_metadata(path, step, items),
        observations=tuple(observations),
    )


def _prefix(name: str, step: _Step) -> tuple[str, ...]:
    """The keys under which a loader finds an item: none for the only one, which has no name of its own."""
    unnamed = name in ("", "default") or (name == "state" and not step.others and len(step.items) == 1)
    return () if unnamed else (name,)


def _training(found: TrainingState, step: _Step) -> TrainingState:
    """The training state, with the step and the position of the data where only the folders tell them."""
    loader = found.loader
    if loader is None and (named := [name for name in step.others if name in _LOADERS]):
        loader = dict.fromkeys(named)
    number = step.number if found.step is None else found.step
    return TrainingState(found.optimizers, number, found.epoch, found.scheduler, found.scaler, loader, found.rng)


def _described(step: _Step) -> Iterator[str]:
    for folder in step.items.values():
        yield f"{folder}/{METADATA}" if folder else METADATA


def _metadata(path: Path, step: _Step, items: dict[str, Item]) -> dict[str, Any]:
    devices = [item.devices for item in items.values() if item.devices is not None]
    largest = max(items.values(), key=lambda item: item.devices or 0, default=Item())
    shardings = sum((item.shardings for item in items.values()), start=Item().shardings)
    value_types = sum((item.value_types for item in items.values()), start=Item().value_types)
    return {
        "step": step.number,
        "steps": [number for number, _ in _steps(path)][:_MOST] if step.folder else [],
        "items": list(step.items)[:_MOST],
        "other_items": step.others[:_MOST],
        "handlers": _handlers(path / step.folder),
        "devices": max(devices, default=None),
        "mesh": largest.mesh,
        "shardings": dict(shardings.most_common(50)),
        "value_types": dict(value_types.most_common(50)),
        "database": any((path / folder / MANIFEST).is_file() for folder in step.items.values()),
    }


def _handlers(folder: Path) -> dict[str, str]:
    """The classes that wrote the items ("" for the step itself), {} where that is not said: nothing depends on it."""
    try:
        found = read_json(map_file(folder / _CHECKPOINT), str(folder / _CHECKPOINT), _LIMITS)
    except InputError:
        return {}
    handlers = found.get("item_handlers") if isinstance(found, dict) else None
    named = handlers if isinstance(handlers, dict) else {"": handlers} if isinstance(handlers, str) else {}
    return {name[:200]: str(handler)[:200] for name, handler in islice(named.items(), 100)}


def _choose(path: Path) -> _Step:
    """The step that the folder is, or the newest one in it that ended."""
    if _is_step(path) or _TEMPORARY in path.name:
        named = None if _is_item(path) else _STEP.fullmatch(path.name)
        return _step(path, "", int(named[1]) if named else None)
    whole = [(number, name) for number, name in _steps(path) if _is_whole(path / name)]
    for number, name in reversed(whole or _steps(path)):
        return _step(path, name, number)
    raise InputError("holds only saves that did not end", where=str(path), remedy=_AGAIN)


def _step(root: Path, folder: str, number: int | None) -> _Step:
    step = _Step(folder, number)
    if _is_item(root / folder):
        step.items[""] = folder
        return step
    for name in _folders(root / folder):
        inside = f"{folder}/{name}" if folder else name
        if _is_item(root / inside):
            step.items[name] = inside
        elif _TEMPORARY not in name and name not in ("array_metadatas", "d"):
            step.others.append(name)
    if not step.items:
        raise InputError("holds no tree of arrays (_METADATA)", where=str(root / folder), remedy=_AGAIN)
    return step


def _is_item(folder: Path) -> bool:
    return (folder / METADATA).is_file() or (folder / MANIFEST).is_file()


def _is_step(folder: Path) -> bool:
    if _is_item(folder) or (folder / _CHECKPOINT).is_file():
        return True
    return any((folder / name / METADATA).is_file() for name in _folders(folder) if _STEP.fullmatch(name) is None)


def _is_whole(folder: Path) -> bool:
    """Whether the step has an item with its tree, in the end what a save writes last."""
    return any((place / METADATA).is_file() for place in (folder, *(folder / name for name in _folders(folder))))


def _steps(folder: Path) -> list[tuple[int, str]]:
    """(number, name) of the steps in a manager's folder, the oldest first."""
    numbers = ((_STEP.fullmatch(name), name) for name in _folders(folder))
    return sorted((int(number[1]), name) for number, name in numbers if number and _is_step(folder / name))


def _leftovers(folder: Path) -> list[str]:
    return [name for name in _folders(folder) if _TEMPORARY in name]


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return sorted(each.name for each in islice(found, _MAX_ENTRIES) if each.is_dir(follow_symlinks=False))


def _unfinished(path: Path) -> Iterator[Observation]:
    """Yield the saves in and around the folder that did not end."""
    if _TEMPORARY in path.name:
        message = f"{path.name} is the temporary folder of a save that did not end"
        yield Observation("unfinished", path.name, "temporary", message)
    for name in _leftovers(path)[:_MOST]:
        message = f"{name} is the temporary folder of a save that did not end"
        yield Observation("unfinished", name, "temporary", message, name)
    steps = [name for _, name in _steps(path)] if not _is_step(path) else []
    committed = {name for name in steps if (path / name / _COMMITTED).is_file()}
    for name in steps[:_MOST]:
        if not _is_whole(path / name):
            message = f"Step {name} has no tree of arrays ({METADATA}): its save did not end"
            yield Observation("unfinished", name, "no tree", message, name)
        elif committed and name not in committed:
            message = f"Step {name} lacks {_COMMITTED}, which other steps have: its save did not end"
            yield Observation("unfinished", name, "not committed", message, name)
    if _is_step(path) and not _is_whole(path):
        message = f"The checkpoint has no tree of arrays ({METADATA}): its save did not end"
        yield Observation("unfinished", path.name, "no tree", message)


def _missing_ranks(path: Path, step: _Step) -> Iterator[Observation]:
    """Yield the processes whose part of the save is missing, as the numbers of the others tell."""
    for folder in step.items.values():
        place = path / folder / "array_metadatas"
        names = sorted(each.name for each in islice(place.iterdir(), _MAX_ENTRIES)) if place.is_dir() else []
        found = {int(match[1]) for match in map(_PROCESS.fullmatch, names) if match}
        for rank in islice((rank for rank in range(max(found, default=-1)) if rank not in found), _MOST):
            message = f"Process {rank} has left no description of its arrays, and process {max(found)} has"
            yield Observation("rank_missing", f"process {rank}", {"rank": rank}, message, folder)
