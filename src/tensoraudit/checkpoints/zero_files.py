"""The files of a DeepSpeed tag folder, read one by one: which rank wrote which, and what could not be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.checkpoints.schema import Entry, Observation
from tensoraudit.checkpoints.torch_file import read_torch_file
from tensoraudit.errors import InputError

_OPTIMIZER: Final = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_?optim_states\.pt")
_MODEL: Final = re.compile(r"(?:(?:bf16_|fp16_)?zero_pp_rank_(\d{1,9})_)?mp_rank_(\d{1,9})_model_states\.pt")
_LATEST: Final = "latest"
_MOST_FILES: Final = 100_000
_LONGEST_TAG: Final = 1_000
_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class RankFile:
    """One file: its plain tree, and the tensors in it by their full names."""

    name: str
    rank: int
    tree: Mapping[str, Any]
    entries: Mapping[str, Entry]


@dataclass(slots=True)
class ZeroFiles:
    """The files of one model-parallel rank by data-parallel rank; a file that was not read is not among them.

    `seen` are the ranks that have a file of the optimiser, read or not.
    """

    model: dict[int, RankFile] = field(default_factory=dict)
    optimizer: dict[int, RankFile] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)


@dataclass(slots=True)
class TagFolder:
    """All of a tag folder, `files` relative to `root`."""

    root: Path
    shards: dict[int, ZeroFiles] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    observations: list[Observation] = field(default_factory=list)


def tag_folder(path: Path) -> Path | None:
    """Return the folder with ZeRO files that a path stands for: itself, or the one that its `latest` names."""
    try:
        if not path.is_dir():
            return None
        if _has_zero_files(path):
            return path
        latest = path / _LATEST
        if not latest.is_file():
            return None
        with latest.open("rb") as file:
            tag = file.read(_LONGEST_TAG).decode("utf-8", "replace").strip()
        inside = bool(tag) and Path(tag).name == tag and tag != ".."
        return path / tag if inside and _has_zero_files(path / tag) else None
    except (OSError, ValueError):
        return None


def read_tag_folder(folder: Path) -> TagFolder:
    """Read every file of the folder. A file that cannot be read is an observation."""
    found = TagFolder(folder)
    beside = Neighbours(folder)
    for name in sorted(islice((each.name for each in folder.iterdir()), _MOST_FILES), key=_numbers):
        match = _OPTIMIZER.fullmatch(name) or _MODEL.fullmatch(name)
        if match is None:
            continue
        found.files.append(name)
        rank, parallel = int(match[1] or 0), int(match[2])
        shard = found.shards.setdefault(parallel, ZeroFiles())
        if match.re is _OPTIMIZER:
            shard.seen.add(rank)
        if beside.status(name) != "ok":
            message = f"{name} leads out of the folder or is no file, and is not read"
            found.observations.append(Observation("file_outside", name, name, message, name))
            continue
        read = _read(folder, name, rank, found)
        if read is not None:
            (shard.optimizer if match.re is _OPTIMIZER else shard.model)[rank] = read
    return found


def _read(folder: Path, name: str, rank: int, found: TagFolder) -> RankFile | None:
    try:
        file = read_torch_file(folder / name, name, rank)
    except InputError as error:
        found.observations.append(Observation("file_unread", name, error.message, f"{name} {error.message}", name))
        return None
    found.globals.update(file.all_imports)
    tree = file.tree if isinstance(file.tree, dict) else {}
    return RankFile(name, rank, tree, {entry.full_name: entry for entry in file.contents.entries})


def _has_zero_files(folder: Path) -> bool:
    return any(_OPTIMIZER.fullmatch(each.name) for each in islice(folder.iterdir(), _MOST_FILES))


def _numbers(name: str) -> list[tuple[int, str]]:
    """Order ranks as numbers: rank 10 comes after rank 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
