"""Folders in which every process wrote a file of its own with `torch.save`: DTensor, FSDP's ShardedTensor, slices of
flat parameters, tensor-parallel shards.

What is stored decides how files are put together:
1. DTensor and ShardedTensor say where each slice belongs: one entry with the slices of all ranks.
2. Files of tensor-parallel ranks (`mp_rank_XX`, `tp_rank_X`) hold plain tensors, each a slice or a copy. Only names
   speak of the axis; without such a name all ranks' tensors stand as copies of one. `metadata["tensor_parallel"]`.
3. Plain vectors of other lengths in each file are the slices of FSDP's LOCAL_STATE_DICT, which in the order of the
   ranks are the parameter, flat; its shape is not stored. `metadata["flat"]` names them.
4. Plain tensors of one shape in all files are copies: the lowest rank's is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint, TrainingState
from tensoraudit.checkpoints.tiling import tiles
from tensoraudit.checkpoints.torch_file import TorchFile, placeholders, read_torch_file
from tensoraudit.checkpoints.torch_file import recognises as is_torch_file
from tensoraudit.errors import InputError

_NAMES: Final = re.compile(
    r"(?P<stem>.*?)(?P<kind>mp_rank|tp_rank|dp_rank|rank)[_-]?(?P<rank>\d{1,9})(?P<tail>(?:[._-].*)?)\.(?:pt|pth|bin|ckpt|tar)"
)
_FOLDERS: Final = re.compile(r"(?P<kind>mp_rank|tp_rank)_(?P<rank>\d{1,9})")
_INNER: Final = ("model_optim_rng.pt", "model_rng.pt", "model.pt")
_PARALLEL: Final = ("mp_rank", "tp_rank")
_ROWS: Final = re.compile(r"\.(?:o_proj|out_proj|dense_4h_to_h|down_proj|w2|c_proj|linear_proj|linear_fc2)\.weight$")
_COLUMNS: Final = re.compile(
    r"(?:^|\.)(?:[qkv]_proj|qkv|qkv_proj|query_key_value|linear_qkv|c_attn|gate_proj|up_proj|gate_up_proj|dense_h_to_4h"
    r"|w1|w3|fc1|linear_fc1|word_embeddings|embed_tokens|wte|tok_embeddings|lm_head|output_layer)\.(?:weight|bias)$"
)
_MOST_FILES: Final = 100_000
_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which files are the ranks': `files` by rank, relative to the folder; `kind` is the word before the number."""

    kind: str
    files: Mapping[int, str]


@dataclass(slots=True)
class _Ranks:
    """The files that were read, by rank."""

    files: dict[int, TorchFile] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)


def recognises(path: Path) -> bool:
    """Whether the path is a folder with files of `torch.save` that are numbered as those of ranks."""
    try:
        plan = _plan(path) if path.is_dir() else None
    except OSError:
        return False
    return plan is not None and any(is_torch_file(path / file) for file in islice(plan.files.values(), 8))


def read(path: Path) -> StoredCheckpoint:
    """Read the files of all ranks and put their tensors together. Raises InputError where none can be read."""
    plan = _plan(path)
    ranks = _read(path, plan) if plan else _Ranks()
    if plan is None or not ranks.files:
        first = ranks.observations[0].message if ranks.observations else "no file is numbered as a rank's"
        raise InputError(f"has no file of a rank that can be read: {first}", where=str(path), remedy="Copy it again.")
    merging = _Merging(plan, ranks)
    entries = tuple(merging.entries())
    lowest = ranks.files[min(ranks.files)]
    imports = tuple(sorted({name for file in ranks.files.values() for name in file.all_imports}))
    return StoredCheckpoint(
        path=path,
        root=path,
        format="torch_ranks",
        framework="pytorch",
        files=tuple(plan.files.values()),
        entries=entries,
        training=_training(ranks.files.values()),
        writer="torch.save",
        imports=tuple(name for name in imports if not is_harmless(name)),
        all_imports=imports,
        metadata={**lowest.metadata, **merging.metadata()},
        observations=(*ranks.observations, *merging.observations(), *tiles(entries)),
    )


# the files


def _plan(folder: Path) -> _Plan | None:
    """The largest set of files, or of Megatron's folders, that differ in the number of their rank only."""
    found: dict[tuple[str, str, str], dict[int, str]] = {}
    for each in islice(sorted(folder.iterdir()), _MOST_FILES):
        inside = _FOLDERS.fullmatch(each.name)
        match = inside or _NAMES.fullmatch(each.name)
        if match is None:
            continue
        file = next((f"{each.name}/{name}" for name in _INNER if (each / name).is_file()), "") if inside else each.name
        stem, tail = ("", "") if inside else (match["stem"], match["tail"])
        if file:
            found.setdefault((stem, match["kind"], tail), {})[int(match["rank"])] = file
    if not found:
        return None
    (_, kind, _), files = max(found.items(), key=lambda item: ("optim" not in item[0][0] + item[0][2], len(item[1])))
    return _Plan(kind, dict(sorted(files.items())))


def _read(folder: Path, plan: _Plan) -> _Ranks:
    ranks = _Ranks()
    beside = Neighbours(folder)
    for rank, file in plan.files.items():
        if beside.status(file) != "ok":
            message = f"{file} leads out of the folder or is no file, and is not read"
            ranks.observations.append(Observation("file_outside", file, file, message, file))
            continue
        try:
            ranks.files[rank] = read_torch_file(folder / file, file, rank)
        except InputError as error:
            ranks.observations.append(Observation("file_unread", file, error.message, f"{file} {error.message}", file))
    return ranks


# the tensors


class _Merging:
    """Puts the tensors of all files together, name by name."""

    def __init__(self, plan: _Plan, ranks: _Ranks) -> None:
        self._plan, self._ranks = plan, ranks
        self._copies: dict[str, dict[int, Entry]] = {}
        for rank, file in ranks.files.items():
            for entry in file.contents.entries:
                self._copies.setdefault(entry.full_name, {})[rank] = entry
        self._sliced = {name: None for file in ranks.files.values() for name in file.contents.slices}
        self._parallel = plan.kind in _PARALLEL and len(plan.files) > 1
        self._flat = self._flat_names()

    def entries(self) -> Iterator[Entry]:
        for name, copies in self._copies.items():
            first = copies[min(copies)]
            if name in self._sliced:
                yield first._replace(parts=_distinct(copies.values()))
            elif self._parallel and len(copies) > 1:
                yield _parallel(copies)
            elif name in self._flat:
                yield _concatenated(copies, 0)
            else:
                yield first

    def _flat_names(self) -> frozenset[str]:
        """Names whose plain vectors differ in length; where there are some, all vectors of the model are slices."""
        if self._parallel:
            return frozenset()
        plain = {name: copies for name, copies in self._copies.items() if name not in self._sliced}
        weights = {name: copies for name, copies in plain.items() if min(copies.values()).group == "model"}
        if not any(len({copy.shape for copy in copies.values()}) > 1 for copies in weights.values()):
            return frozenset()
        return frozenset(
            name for name, copies in weights.items() if all(len(copy.shape) == 1 for copy in copies.values())
        )

    def metadata(self) -> dict[str, Any]:
        slices = {name: each for file in self._ranks.files.values() for name, each in file.contents.slices.items()}
        placements = {name: list(each.placements) for name, each in islice(slices.items(), _MOST) if each.placements}
        return {
            "world_size": self._processes() or len(self._plan.files),
            "ranks": list(self._ranks.files)[:_MOST],
            "tensor_parallel": len(self._plan.files) if self._parallel else 1,
            "sharded": len(self._sliced),
            "flat": sorted(self._flat)[:_MOST],
            "placements": placements,
            "mesh": list(next((each.mesh for each in slices.values() if each.mesh), ())),
            "empty_ranks": [rank for rank, file in self._ranks.files.items() if not file.contents.entries][:_MOST],
            "rng_ranks": sum(bool(file.contents.training.rng) for file in self._ranks.files.values()),
        }

    def observations(self) -> Iterator[Observation]:
        stated = sorted(
            {each.processes for file in self._ranks.files.values() for each in file.contents.slices.values()}
        )
        stated = [count for count in stated if count > 0]
        if len(stated) > 1:
            message = f"Slices in these files are of runs with {', '.join(map(str, stated))} ranks: they do not mix"
            yield Observation("ranks_mixed", "checkpoint", stated, message)
        expected = range(max([*stated[-1:], max(self._plan.files) + 1]))
        for rank in islice((rank for rank in expected if rank not in self._plan.files), _MOST):
            message = f"The file of rank {rank} is missing; {len(expected)} ranks wrote this checkpoint"
            yield Observation("rank_missing", f"rank {rank}", len(expected), message)
        yield from self._misnamed()
        yield from _mixed_steps(self._ranks.files)
        if self._sliced or self._flat:
            many = f"{len(self._sliced) + len(self._flat):,} of {len(self._copies):,} tensors"
            message = f"{many} are cut among the files of {len(self._plan.files)} ranks: none of them is whole alone"
            value = {"tensors": [*self._sliced, *self._flat][:_MOST], "ranks": list(self._ranks.files)[:_MOST]}
            yield Observation("slice_alone", "checkpoint", value, message)
        for rank in self.metadata()["empty_ranks"]:
            message = f"The file of rank {rank} holds no tensor, as a state that only rank 0 gathers leaves the others"
            yield Observation("no_tensors", f"rank {rank}", rank, message, self._plan.files[rank])
        for file in self._ranks.files.values():
            yield from (found for found in placeholders(file.contents) if found.subject not in self._flat)

    def _misnamed(self) -> Iterator[Observation]:
        """A file whose slices another rank wrote than its name says: copied over, or named by the local rank."""
        for rank, file in self._ranks.files.items():
            wrote = {each.rank for each in file.contents.slices.values() if each.rank >= 0} - {rank}
            if wrote:
                name, other = self._plan.files[rank], min(wrote)
                message = f"{name} holds slices that rank {other} wrote"
                yield Observation("ranks_mixed", name, {"name": rank, "wrote": sorted(wrote)[:_MOST]}, message, name)

    def _processes(self) -> int:
        counts = (each.processes for file in self._ranks.files.values() for each in file.contents.slices.values())
        return max(counts, default=0)


def _distinct(copies: Iterable[Entry]) -> tuple[Part, ...]:
    """The parts of all ranks, replicas of one slice once."""
    parts: dict[tuple[Any, ...], Part] = {}
    for part in (part for copy in copies for part in copy.parts):
        parts.setdefault((part.start, part.shape), part)
    return tuple(parts.values())


def _parallel(copies: Mapping[int, Entry]) -> Entry:
    """Tensor-parallel slices along the axis that shapes or names speak of; else copies, each of them whole."""
    axis = _axis(copies)
    if axis is not None:
        return _concatenated(copies, axis)
    first = copies[min(copies)]
    zero = (0,) * len(first.shape)
    parts = (part._replace(start=zero, shape=copy.shape) for copy in copies.values() for part in copy.parts)
    return first._replace(parts=tuple(parts), same_as="")


def _axis(copies: Mapping[int, Entry]) -> int | None:
    first = copies[min(copies)]
    shapes = {copy.shape for copy in copies.values()}
    if any(len(shape) != len(first.shape) for shape in shapes) or not first.shape:
        return None
    differing = [axis for axis in range(len(first.shape)) if len({shape[axis] for shape in shapes}) > 1]
    if differing:
        return differing[0] if len(differing) == 1 else None
    if _ROWS.search(first.name):
        return 1 if len(first.shape) > 1 else None
    return 0 if _COLUMNS.search(first.name) else None


def _concatenated(copies: Mapping[int, Entry], axis: int) -> Entry:
    """One tensor of the ranks' tensors, laid one after the other along an axis."""
    ordered = [copies[rank] for rank in sorted(copies)]
    first = ordered[0]
    ends = list(accumulate(copy.shape[axis] for copy in ordered))
    shape = tuple(ends[-1] if at == axis else size for at, size in enumerate(first.shape))
    parts = []
    for copy, end in zip(ordered, ends, strict=True):
        start = tuple(end - copy.shape[axis] if at == axis else 0 for at in range(len(shape)))
        parts += [part._replace(start=start, shape=copy.shape) for part in copy.parts if copy.numel]
    return first._replace(shape=shape, parts=tuple(parts), same_as="")


def _training(files: Iterable[TorchFile]) -> TrainingState:
    """The lowest rank's state with the generators of all, and its optimisers where the lowest has none."""
    states = [file.contents.training for file in files]
    fullest = next((state for state in states if state.optimizers), states[0])
    generators = tuple(dict.fromkeys(name for state in states for name in state.rng))
    return replace(states[0], optimizers=fullest.optimizers, rng=generators)


def _mixed_steps(files: Mapping[int, TorchFile]) -> Iterator[Observation]:
    steps = {rank: file.contents.training.step for rank, file in files.items()}
    values = sorted({step for step in steps.values() if step is not None})
    if len(values) > 1:
        message = (
            f"The files of the ranks are of the steps {', '.join(map(str, values[:10]))}: they do not belong together"
        )
        yield Observation(
            "steps_mixed", "checkpoint", {str(rank): step for rank, step in islice(steps.items(), _MOST)}, message
        )
