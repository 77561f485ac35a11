"""Weights in numbered files beside an index (`*.index.json`), as the libraries of Hugging Face write them.

The index says which file holds which tensor, and how many bytes all of them take. It is a promise that loaders differ
in keeping: some follow it, some load whatever files lie in the folder. So both are read, the index and every file that
it names, and each place where they disagree is an observation. A folder of such files without an index is read as well.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.bounded_json import read_json
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.checkpoints import shard_checks
from tensoraudit.checkpoints.hub_config import read_config
from tensoraudit.checkpoints.hub_training import read_training
from tensoraudit.checkpoints.safetensors_file import Header, shared_names, texts_of, tied_names
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint
from tensoraudit.checkpoints.shards import Shard, read_shard
from tensoraudit.errors import InputError

_INDEX: Final = ".index.json"
_WEIGHTS: Final = (".safetensors", ".bin", ".h5", ".msgpack")
_SINGLE: Final[tuple[str, ...]] = (
    "model.safetensors", "diffusion_pytorch_model.safetensors", "adapter_model.safetensors", "pytorch_model.bin",
    "diffusion_pytorch_model.bin", "adapter_model.bin", "tf_model.h5", "flax_model.msgpack",
)  # fmt: skip
"""Files that hold a whole model under this name, in the order in which loaders prefer them."""
_FORMATS: Final = {
    "safetensors": "safetensors_sharded", "torch_zip": "torch_sharded", "torch_legacy": "torch_sharded",
}  # fmt: skip
_MAX_INDEX: Final = 100_000_000
_MAX_FILES: Final = 100_000
_MAX_FOLDER: Final = 200_000
_MOST: Final = 1000
_REFUSED: Final = {
    "missing": ("file_missing", "is not there"),
    "not-a-file": ("file_missing", "is no regular file"),
    "outside": ("file_outside", "lies outside the checkpoint's folder and is not read"),
    "absolute": ("file_outside", "is given by an absolute path and is not read"),
    "symlink": ("file_outside", "is a link that leads out of the checkpoint's folder and is not read"),
}
"""What becomes of a named file that is none to read: (kind, words)."""
_STATED: Final = ("total_size", "total_parameters")
_AGAIN: Final = "Copy or download the whole folder again."


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which files to read: those that an index names, or without one (`path` is None) those of the folder.

    `places` is the index's table, tensor to file; `there` are the files of weights in the folder.
    """

    root: Path
    path: Path | None
    files: tuple[str, ...]
    there: tuple[str, ...]
    places: dict[str, str]
    metadata: dict[str, Any]


def recognises(path: Path) -> bool:
    """Whether the path is an index, a folder with one, or a folder of weights as a model hub lays them out."""
    try:
        if not path.is_dir():
            return _is_index(path)
        names = _names(path)
        return bool(_indexes(names) or _loose(names))
    except OSError:
        return False


def read(path: Path) -> StoredCheckpoint:
    """Read an index with its files, or a folder. Raises InputError where none of the files can be read."""
    return _read(path, _plan(path))


def read_one(path: Path, file: str) -> StoredCheckpoint:
    """Read a folder of which `file` holds the weights. Raises InputError where it cannot be read."""
    return _read(path, _Plan(path, None, (file,), (file,), {}, {}))


def _read(path: Path, plan: _Plan) -> StoredCheckpoint:
    shards, observations = _read_files(plan)
    if not shards:
        first = f": {observations[0].message}" if observations else ""
        raise InputError(f"has no file of weights that can be read{first}", where=str(path), remedy=_AGAIN)
    complete = not observations
    observations += (each for shard in shards for each in shard.observations)
    found = shard_checks.places_of(shards)
    observations += shard_checks.check_twice(shards, found)
    entries = _kept(shards, plan.places, len(found))
    observations += shard_checks.check_numbers({*plan.files, *plan.there} if plan.path else plan.files)
    if plan.path is not None:
        observations += shard_checks.check_unlisted(plan.files, plan.there)
        observations += shard_checks.check_index(shards, found, plan.places)
        if complete:
            observations += shard_checks.check_total(entries, plan.metadata.get("total_size"))
    return _stored(path, plan, shards, entries, observations)


def _stored(
    path: Path, plan: _Plan, shards: list[Shard], entries: list[Entry], observations: list[Observation]
) -> StoredCheckpoint:
    texts = {name: text for shard in shards for name, text in shard.texts.items()}
    whole = Header(entries, texts, [])
    observations += tied_names(whole, shards[0].file)
    index = () if plan.path is None else (plan.path.name,)
    alone = plan.path is None and len(plan.files) == 1 and shard_checks.number_of(plan.files[0]) is None
    training = read_training(plan.root, _names(plan.root) if path.is_dir() else ())
    state_files = sorted(name for names in training.files.values() for name in names)
    imports = {each for shard in shards for each in shard.imports}
    return StoredCheckpoint(
        path=path,
        root=plan.root,
        format=shards[0].format if alone else _FORMATS.get(shards[0].format, shards[0].format),
        framework=shards[0].framework,
        files=(*index, *plan.files, *state_files),
        entries=(*entries, *training.entries),
        training=training.state,
        imports=tuple(sorted(imports | training.imports)),
        all_imports=tuple(sorted({each for shard in shards for each in shard.all_imports} | training.imports)),
        metadata={
            "metadata": texts_of(texts),
            "index": {
                name: plan.metadata[name] for name in _STATED if isinstance(plan.metadata.get(name), int | float)
            },
            "shared": shared_names(whole),
            "config": read_config(plan.root),
            "training_files": {role: names[:_MOST] for role, names in training.files.items()},
            "beside": sorted({*plan.there} - {*plan.files} - {*state_files})[:_MOST],
        },
        observations=(*observations, *training.observations),
    )


def _is_index(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.name.endswith(_INDEX):
        return True
    with path.open("rb") as file:
        return file.read(1) == b"{" and b'"weight_map"' in file.read(_MAX_INDEX)


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return sorted(each.name for each in islice(found, _MAX_FOLDER))


def _indexes(names: list[str]) -> list[str]:
    """The names of indexes, best first: of safetensors, and without a variant (`model.fp16...`) in their name."""
    found = [name for name in names if name.endswith(_INDEX)]
    return sorted(found, key=lambda name: (".safetensors" not in name, len(name), name))


def _loose(names: list[str]) -> list[str]:
    """The files that hold a model in a folder without an index: a series of numbered ones, or one, or all."""
    weights = [name for name in names if name.endswith(_WEIGHTS)]
    series: dict[tuple[str, str], list[str]] = {}
    for name in weights:
        number = shard_checks.number_of(name)
        if number is not None:
            series.setdefault((number.suffix, number.stem), []).append(name)
    if series:
        _, best = min(series.items(), key=lambda item: (_WEIGHTS.index(item[0][0]), -len(item[1]), item[0]))
        return best
    single = next(([name] for name in _SINGLE if name in weights), None)
    return single or [name for name in weights if name.endswith(".safetensors")]


def _plan(path: Path) -> _Plan:
    root = path if path.is_dir() else path.parent
    names = _names(root)
    there = tuple(name for name in names if name.endswith(_WEIGHTS))
    if path.is_dir():
        indexes = _indexes(names)
        if not indexes:
            return _Plan(root, None, tuple(_loose(names)), there, {}, {})
        path = root / indexes[0]
    index = read_json(map_file(path), str(path))
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise InputError(
            "is an index without a table of tensors and files (weight_map)", where=str(path), remedy=_AGAIN
        )
    files = tuple(sorted(set(places.values())))
    if len(files) > _MAX_FILES:
        raise InputError(f"names {len(files):,} files, more than any checkpoint has", where=str(path), remedy=_AGAIN)
    metadata = index.get("metadata")
    return _Plan(root, path, files, there, places, metadata if isinstance(metadata, dict) else {})


def _read_files(plan: _Plan) -> tuple[list[Shard], list[Observation]]:
    """Read every file of the plan that is there and may be read, and say of the others why not."""
    homes = [] if plan.path is None else [plan.path.resolve().parent]
    if plan.root.absolute().parent.name == "snapshots":  # the hub's cache: every file is a link to its content
        homes.append(plan.root.absolute().parent.parent / "blobs")
    beside = Neighbours(plan.root, *homes)
    shards: list[Shard] = []
    observations: list[Observation] = []
    for file in plan.files:
        status = beside.status(file)
        if status != "ok":
            kind, words = _REFUSED[status]
            observations.append(Observation(kind, file, status, f"{file!r} {words}", file))
            continue
        try:
            shards.append(read_shard(plan.root / file, file))
        except InputError as error:
            observations.append(Observation("file_unread", file, error.message, f"{file} {error.message}", file))
    return shards, observations[:_MOST]


def _kept(shards: list[Shard], places: dict[str, str], names: int) -> list[Entry]:
    """Return each tensor once, of `names` different ones: from the file that the index names, else from the first."""
    entries = [entry for shard in shards for entry in shard.entries]
    if len(entries) == names:
        return entries
    held: dict[str, Entry] = {}
    for shard in shards:
        for entry in shard.entries:
            name = shard_checks.full_name(entry)
            if name not in held or places.get(name) == shard.file:
                held[name] = entry
    return list(held.values())
