"""What a resume needs, in files beside the weights: as the Trainer of transformers and accelerate lay it out.

Each file is one part of the state: `optimizer.pt`, `scheduler.pt`, `scaler.pt`, `rng_state.pth` (one per process when
there are several), `trainer_state.json`. accelerate has the same under the suffix `.bin`, numbered from the second on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.bounded_json import read_json
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.checkpoints import torch_file
from tensoraudit.checkpoints.schema import Entry, Observation, OptimizerState, StoredCheckpoint, TrainingState
from tensoraudit.errors import InputError

_ROLES: Final[Mapping[str, re.Pattern[str]]] = {
    "optimizer": re.compile(r"optimizer(_\d+)?\.(pt|bin)"),
    "scheduler": re.compile(r"scheduler(_\d+)?\.(pt|bin)"),
    "scaler": re.compile(r"scaler\.(pt|bin)"),
    "rng": re.compile(r"rng_state(_\d+)?\.pth|random_states_\d+\.pkl"),
    "loader": re.compile(r"sampler(_\d+)?\.bin|dl_state_dict(_\d+)?\.bin"),
    "progress": re.compile(r"trainer_state\.json"),
    "arguments": re.compile(r"training_args\.bin"),
}
"""Names by what the file holds. The arguments are a pickled object that no resume needs to be read."""
_MOST: Final = 1000


@dataclass(slots=True)
class HubTraining:
    """The state of training of a folder; `files` are the names by role."""

    state: TrainingState = field(default_factory=TrainingState)
    files: dict[str, list[str]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)


def role_of(name: str) -> str:
    """Return what a file of this name holds of the state of training, "" for other files."""
    return next((role for role, pattern in _ROLES.items() if pattern.fullmatch(name)), "")


def read_training(root: Path, names: Iterable[str]) -> HubTraining:
    """Read the files of the folder that hold the state of training. What cannot be read is an observation."""
    found = HubTraining()
    beside = Neighbours(root)
    for name in names:
        role = role_of(name)
        if role and beside.status(name) == "ok":
            found.files.setdefault(role, []).append(name)
    for role, read in _READ.items():
        for name in found.files.get(role, [])[:_MOST]:
            try:
                read(root / name, found)
            except InputError as error:
                found.observations.append(
                    Observation("file_unread", name, error.message, f"{name} {error.message}", name)
                )
    return found


def _optimizer(path: Path, found: HubTraining) -> None:
    stored = _stored(path, found)
    above = path.stem
    found.entries += (entry._replace(path=(above, *entry.path), group="optimizer") for entry in stored.entries)
    known = tuple(replace(each, path=(above, *each.path)) for each in stored.training.optimizers)
    optimizers: tuple[OptimizerState, ...] = (*found.state.optimizers, *known)
    found.state = replace(found.state, optimizers=optimizers)


def _scheduler(path: Path, found: HubTraining) -> None:
    found.state = replace(found.state, scheduler={**(found.state.scheduler or {}), **_values(_stored(path, found))})


def _scaler(path: Path, found: HubTraining) -> None:
    found.state = replace(found.state, scaler=_values(_stored(path, found)))


def _loader(path: Path, found: HubTraining) -> None:
    found.state = replace(found.state, loader={**(found.state.loader or {}), path.name: None})


def _rng(path: Path, found: HubTraining) -> None:
    known = torch_file.read(path).training.rng
    found.state = replace(found.state, rng=tuple(dict.fromkeys((*found.state.rng, *known))))


def _progress(path: Path, found: HubTraining) -> None:
    state = read_json(map_file(path), str(path))
    if isinstance(state, dict):
        step, epoch = (_number(state.get(key)) for key in ("global_step", "epoch"))
        found.state = replace(found.state, step=step, epoch=epoch)


_READ: Final = {
    "optimizer": _optimizer, "scheduler": _scheduler, "scaler": _scaler, "loader": _loader, "rng": _rng,
    "progress": _progress,
}  # fmt: skip


def _stored(path: Path, found: HubTraining) -> StoredCheckpoint:
    stored = torch_file.read(path)
    found.observations += (each for each in stored.observations if each.kind != "no_tensors")
    found.imports |= set(stored.imports)
    return stored


def _values(stored: StoredCheckpoint) -> dict[str, Any]:
    """The plain values of a small state, and the keys of those that are not plain."""
    values = stored.metadata.get("values", {})
    return {key: values.get(key) for key in stored.metadata.get("keys", ())}


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
