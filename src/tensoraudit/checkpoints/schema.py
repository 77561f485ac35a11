"""What a checkpoint holds, whatever wrote it: tensors with the places of their bytes, and the state of training.

`Part` and `Entry` are tuples because a checkpoint of a thousand shards has a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

Group = Literal["model", "ema", "optimizer", "scheduler", "scaler", "rng", "loader", "other"]


class Part(NamedTuple):
    """A stored piece of a tensor.

    `file` is relative to the checkpoint's `root` ("/" as separator), `offset` where its bytes begin there (None where
    they do not stand in the file as they are; `codec` says how: "deflate", "chunks", "ocdbt"...), `bytes` how many.
    `start` and `shape` are the piece's place in the whole tensor, in elements; both () for a part that is all of it.
    `stride`, in elements, where the bytes are not in C order of that shape. `rank` is the process that wrote it.
    """

    file: str
    offset: int | None
    bytes: int
    start: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    rank: int | None = None
    codec: str = ""


class Entry(NamedTuple):
    """One tensor of a checkpoint, under the name that a loader would give it: keys joined by dots (slashes in TF).

    `shape` is the whole tensor's, `dtype` numpy's or ml_dtypes' name (`float32`, `bfloat16`, `float8_e4m3fn`). `path`
    are the keys that lead from the root to the mapping it stands in, (`"model"`,) for one of `{"model": state_dict}`;
    `name` does not repeat them. `same_as` is the full name of the entry whose bytes it shares (a tied weight). `axes`
    names its axes where the format fixes them (`OIHW`, `HWIO`, `OI`, `IO`), "" where it is not known. `alias` is the
    name that the variable itself has where `name` is only its place in the file (Keras, object-based TF), or "".
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    group: Group = "model"
    path: tuple[str, ...] = ()
    same_as: str = ""
    axes: str = ""
    alias: str = ""

    @property
    def full_name(self) -> str:
        """The name with the keys that lead to it."""
        return ".".join((*self.path, self.name)) if self.path else self.name

    @property
    def owner(self) -> str:
        """The full name under which its bytes are counted: its own, or that of the entry it is tied to."""
        return self.same_as or self.full_name

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all its parts (0 for a tied one, whose bytes are another's)."""
        if self.same_as:
            return 0
        return self.parts[0].bytes if len(self.parts) == 1 else sum(part.bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """The state of an optimiser, one per optimiser that a checkpoint holds.

    `kind` is what its per-parameter `fields` and its hyperparameters look like: "adam" (AdamW too), "sgd", "lamb",
    "adafactor", "rmsprop"..., "none" (no state yet) or "unknown". `keyed` tells how state is joined to parameters: by
    "position" (0, 1, ...), by "digits" ("0", "1", ...: what a generic serialiser makes of positions), or by "name".
    `parameters` counts the parameters that have state.
    `groups` are the parameter groups with their hyperparameters, "params" being the ids or names in their order.
    `extra` are top-level keys beside `state` and `param_groups`.
    """

    path: tuple[str, ...]
    kind: str
    keyed: Literal["position", "digits", "name", ""]
    fields: tuple[str, ...]
    parameters: int
    groups: tuple[Mapping[str, Any], ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingState:
    """What a resume needs beside the weights. None and () are "not there".

    `scheduler`, `scaler` and `loader` are the keys and plain values found; an empty scaler (`{}`: saved while disabled)
    is an empty mapping, not None. `rng` names the generators: "torch", "cuda", "numpy", "python", "jax". `unread` are
    "step" and "epoch" where they are stored as tensors that could not be read.
    """

    optimizers: tuple[OptimizerState, ...] = ()
    step: int | float | None = None
    epoch: int | float | None = None
    scheduler: Mapping[str, Any] | None = None
    scaler: Mapping[str, Any] | None = None
    loader: Mapping[str, Any] | None = None
    rng: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """Something about a checkpoint that a rule may speak of; becomes the measurement `checkpoint.<kind>`.

    `subject` is a tensor's full name, a file, a rank, or "checkpoint". `value` is plain JSON data. `message` is one
    clear sentence with the numbers. `file` where it was seen.
    """

    kind: str
    subject: str
    value: Any
    message: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as its headers describe it.

    `root` is the folder that files are relative to (a file's own folder). `files` are all that belong to it, read or
    not. `writer` is who wrote it, with the version where it is stored ("" if not). `imports` are the globals that its
    pickles want, harmless ones left out; `all_imports` every one. `metadata` is plain JSON data of the format.
    `observations` are the faults that the reader saw and could read on from.
    """

    path: Path
    root: Path
    format: str
    framework: str
    files: tuple[str, ...]
    entries: tuple[Entry, ...]
    training: TrainingState = TrainingState()
    writer: str = ""
    imports: tuple[str, ...] = ()
    all_imports: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    observations: tuple[Observation, ...] = ()


KINDS: Final[Mapping[str, str]] = {
    "file_missing": "a file that the index names is not there",
    "file_unlisted": "a shard on disk that the index does not name",
    "file_outside": "the index names a file outside the checkpoint's folder",
    "file_truncated": "a file ends before its tensors do",
    "file_unread": "a file that holds tensors could not be read",
    "checksum_wrong": "stored bytes do not have the checksum that is stored with them",
    "size_mismatch": "the index states another total size than the tensors have",
    "tensor_missing": "the index names a tensor that its file does not hold",
    "tensor_twice": "a tensor stands in two files",
    "tensor_hole": "the parts of a tensor do not cover it",
    "tensor_overlap": "parts of a tensor lie over each other",
    "part_outside": "a part reaches beyond the tensor that it is a part of",
    "bytes_overlap": "two tensors of a file claim the same bytes",
    "bytes_unclaimed": "stored bytes that belong to no tensor",
    "tensor_size": "the stored bytes of a tensor are not as many as its shape and type need",
    "tensor_unlisted": "a file holds a tensor that its index does not name",
    "shards_mixed": "numbered files of saves in different numbers of pieces",
    "rank_missing": "the file of a rank is missing",
    "ranks_mixed": "files of runs with different numbers of ranks",
    "steps_mixed": "files of different training steps",
    "unfinished": "a save that did not end: no index, or a temporary folder",
    "no_tensors": "no tensor at all",
    "slice_alone": "a file of one rank that holds slices of tensors",
    "placeholder": "a tensor of size 0 stands for weights that are elsewhere",
    "padding": "stored elements that belong to no parameter",
    "tied_name_dropped": "a tied weight is stored under one of its names only",
}
"""Kinds of observations that readers and the checks of shards make. Others are added by `observations`."""
