"""The weights and optimiser state of one model-parallel rank of a ZeRO checkpoint, put together from its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from tensoraudit.checkpoints.optimizer_kinds import kind_of
from tensoraudit.checkpoints.schema import Entry, Observation, OptimizerState
from tensoraudit.checkpoints.training_state import optimizer_of
from tensoraudit.checkpoints.zero_files import RankFile, ZeroFiles
from tensoraudit.checkpoints.zero_layout import (
    Flat,
    Piece,
    cut_of_groups,
    cut_of_parameters,
    parts_of,
    stored_elements,
)
from tensoraudit.errors import InputError

_STATE: Final = "optimizer_state_dict"
_FLATS: Final = {1: "single_partition_of_fp32_groups", 2: "single_partition_of_fp32_groups", 3: "fp32_flat_groups"}
_BASE: Final = {1: "base_optimizer_state", 2: "base_optimizer_state", 3: "optimizer_state_dict"}
_MOST_PIECES: Final = 1_000_000
_CONSOLIDATE: Final = "Consolidate the checkpoint with DeepSpeed's zero_to_fp32.py first."


@dataclass(slots=True)
class Merged:
    """The entries of one model-parallel rank, and what its headers say of the whole."""

    stage: int
    ranks: int
    entries: list[Entry] = field(default_factory=list)
    optimizer: OptimizerState | None = None
    observations: list[Observation] = field(default_factory=list)
    stored: int = 0
    parameters: int = 0
    placeholders: int = 0


def merge(shard: ZeroFiles, where: str) -> Merged:
    """Merge the files of one model-parallel rank.

    Raises InputError where no file of the model, which has the names, or none of the optimiser could be read.
    """
    if not shard.model or not shard.optimizer:
        what = "model" if not shard.model else "optimiser"
        message = f"has no file of the {what}'s states that can be read, so its flat weights have no names"
        raise InputError(message, where=where, remedy="Copy the folder again, with the files of all ranks.")
    model, first = min(shard.model.items())[1], min(shard.optimizer.items())[1]
    stage, ranks = _number(_state(first).get("zero_stage")), _partitions(_state(first))
    if stage not in _FLATS or not 0 < ranks < 1 << 20:
        message = f"holds flat weights of ZeRO stage {stage} on {ranks} ranks, which is no stage that cuts weights"
        raise InputError(message, where=f"{where}: {first.name}")
    merging = _Merging(shard, Merged(stage, ranks), _shapes(model.tree.get("param_shapes")), model, where)
    return merging.done()


class _Merging:
    """One merge: what the model's file says, applied to the vectors of the ranks."""

    def __init__(
        self, shard: ZeroFiles, merged: Merged, groups: list[dict[str, tuple[int, ...]]], model: RankFile, where: str
    ) -> None:
        self._shard, self._merged, self._groups, self._model = shard, merged, groups, model
        self._first = min(shard.optimizer.items())[1]
        if sum(map(len, groups)) * merged.ranks > _MOST_PIECES:
            message = f"cuts {sum(map(len, groups)):,} parameters among {merged.ranks:,} ranks, too many pieces to list"
            raise InputError(message, where=where, remedy=_CONSOLIDATE)

    def done(self) -> Merged:
        merged = self._merged
        weights = self._vectors(f"{_STATE}.{_FLATS[merged.stage]}")
        self._add_buffers()
        self._add_frozen()
        for name, shape, pieces in self._cut(weights):
            merged.entries.append(Entry(name, _dtype(pieces), shape, parts_of(shape, pieces)))
        self._add_shared()
        self._add_state()
        merged.stored = sum(flat.numel for row in weights for flat in row)
        merged.parameters = sum(prod(shape) for group in self._groups for shape in group.values())
        merged.observations += self._faults()
        return merged

    def _cut(self, vectors: list[list[Flat]]) -> Iterator[tuple[str, tuple[int, ...], list[Piece]]]:
        shapes: Mapping[str, tuple[int, ...]] = {name: shape for group in self._groups for name, shape in group.items()}
        if self._merged.stage == 3:
            cut = cut_of_parameters(self._groups, vectors)
        else:
            paddings = _paddings(_state(self._first).get("param_alignment_paddings"))
            cut = cut_of_groups(self._groups, vectors, paddings)
        return ((name, shapes[name], pieces) for name, pieces in cut)

    def _vectors(self, prefix: str, suffix: str = "") -> list[list[Flat]]:
        """The vectors below a key, a row per rank. A rank without a file has what the others have, without bytes."""
        rows = {rank: list(_flats(file, prefix, suffix)) for rank, file in self._shard.optimizer.items()}
        model = max(rows.values(), key=lambda row: sum(flat.numel for flat in row))
        lost = {rank: self._lost(rank, model) for rank in range(self._merged.ranks) if rank not in rows}
        return [rows.get(rank) or lost.get(rank, []) for rank in range(self._merged.ranks)]

    def _lost(self, rank: int, model: list[Flat]) -> list[Flat]:
        codec = "unread" if rank in self._shard.seen else "missing"
        return [Flat(f"rank {rank}", None, flat.numel, flat.dtype, rank, codec) for flat in model]

    def _add_buffers(self) -> None:
        """Buffers are the model's, whole; the weights beside them are copies, or stand-ins of size 0 under stage 3."""
        names = self._model.tree.get("buffer_names")
        buffers = set(map(str, names)) if isinstance(names, list) else set()
        for entry in self._model.entries.values():
            if entry.path[:1] != ("module",):
                continue
            if entry.name in buffers:
                self._merged.entries.append(entry._replace(path=(), same_as=""))
            elif 0 in entry.shape:
                self._merged.placeholders += 1
            else:
                self._merged.entries.append(entry._replace(group="other"))

    def _add_frozen(self) -> None:
        for name, shape in next(iter(_shapes([self._model.tree.get("frozen_param_shapes")])), {}).items():
            key = f"frozen_param_fragments.{name}"
            files = self._shard.model.values() if self._merged.stage == 3 else [self._model]
            flats = [flat for file in files for flat in _flat(file, key)]
            pieces = next(iter(cut_of_parameters([{name: shape}], [[flat] for flat in flats])), (name, []))[1]
            self._merged.entries.append(Entry(name, _dtype(pieces), shape, parts_of(shape, pieces)))

    def _add_shared(self) -> None:
        """A tied weight is stored under one name; `shared_params` says the other."""
        shared = self._model.tree.get("shared_params")
        owners = {entry.name: entry for entry in self._merged.entries if entry.group == "model"}
        for name, owner in shared.items() if isinstance(shared, dict) else ():
            kept = owners.get(str(owner))
            if kept is not None and str(name) not in owners:
                self._merged.entries.append(kept._replace(name=str(name), same_as=kept.full_name))

    def _add_state(self) -> None:
        """The moments are cut as the weights are; a counter belongs to all parameters of its vector."""
        base = _base(self._first, self._merged.stage)
        state, prefix = base.get("state"), f"{_STATE}.{_BASE[self._merged.stage]}"
        prefix += ".state" if "param_groups" in base else ""
        rows = [row for row in state.values() if isinstance(row, dict)] if isinstance(state, dict) else []
        fields = tuple(dict.fromkeys(str(name) for row in rows for name in row))
        for each in fields:
            if any(getattr(row.get(each), "shape", None) == () for row in rows):
                self._merged.entries += self._counters(prefix, each)
            else:
                found = self._cut(self._vectors(prefix, each))
                self._merged.entries += [
                    self._moment(name, each, shape, pieces) for name, shape, pieces in found if pieces
                ]
        names = [name for group in self._groups for name in group] if rows else []
        groups = self._hyperparameters(base)
        kind = kind_of(fields, {key for group in groups for key in group})
        self._merged.optimizer = OptimizerState(("optimizer",), kind, "name", fields, len(names), groups)

    def _hyperparameters(self, base: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """The groups with the names of their parameters; where their numbers differ, without."""
        found = optimizer_of({"state": {}, "param_groups": base.get("param_groups", [])})
        groups = found.groups if found else ()
        if len(groups) != len(self._groups):
            return groups
        return tuple({**group, "params": list(shapes)} for group, shapes in zip(groups, self._groups, strict=True))

    def _counters(self, prefix: str, each: str) -> Iterator[Entry]:
        for at, group in enumerate(self._groups):
            flat = next(_flat(self._first, f"{prefix}.{at}.{each}"), None)
            owner = ""
            for name in group if flat is not None else ():
                entry = self._moment(name, each, (), [Piece(flat, 0, 1, 0)] if flat else [])
                yield entry._replace(same_as=owner)
                owner = owner or entry.full_name

    def _moment(self, name: str, each: str, shape: tuple[int, ...], pieces: Sequence[Piece]) -> Entry:
        return Entry(
            f"state.{name}.{each}", _dtype(pieces), shape, parts_of(shape, pieces), "optimizer", ("optimizer",)
        )

    def _faults(self) -> Iterator[Observation]:
        merged = self._merged
        yield from self._missing_ranks()
        if merged.placeholders:
            message = f"{merged.placeholders:,} tensors under `module` have size 0: the weights are in the ranks' files"
            yield Observation("placeholder", "module", merged.placeholders, message, self._model.name)
        needed = stored_elements(self._groups, merged.ranks, merged.stage)
        slack = 2 * merged.ranks * len(self._groups) if merged.stage < 3 else 0
        if not needed <= merged.stored <= needed + slack + self._alignment():
            message = f"The ranks store {merged.stored:,} elements of weights, their shapes need {needed:,}"
            yield Observation("size_mismatch", "checkpoint", {"stored": merged.stored, "needed": needed}, message)
        elif merged.stored > merged.parameters:
            extra = merged.stored - merged.parameters
            message = (
                f"{extra:,} of {merged.stored:,} stored elements pad the ranks' vectors and belong to no parameter"
            )
            yield Observation("padding", "checkpoint", extra, message)

    def _alignment(self) -> int:
        return sum(map(sum, _paddings(_state(self._first).get("param_alignment_paddings"))))

    def _missing_ranks(self) -> Iterator[Observation]:
        for rank in sorted({*range(self._merged.ranks)} - self._shard.seen)[:1000]:
            message = f"The file of rank {rank} is missing; {self._merged.ranks} ranks wrote this checkpoint"
            yield Observation("rank_missing", f"rank {rank}", self._merged.ranks, message)
        counts = {rank: _partitions(_state(file)) for rank, file in self._shard.optimizer.items()}
        ranks = sorted(set(counts.values()))
        if len(ranks) > 1 or (self._shard.seen and max(self._shard.seen) >= self._merged.ranks):
            message = f"Files of runs with {', '.join(map(str, ranks))} ranks, and {len(self._shard.seen)} files"
            yield Observation(
                "ranks_mixed", "checkpoint", {"partitions": ranks, "files": len(self._shard.seen)}, message
            )


def _state(file: RankFile) -> Mapping[str, Any]:
    state = file.tree.get(_STATE)
    return state if isinstance(state, dict) else {}


def _base(file: RankFile, stage: int) -> Mapping[str, Any]:
    """The inner optimiser's state; a list of states, one per group, in elastic checkpoints."""
    base = _state(file).get(_BASE[stage])
    if isinstance(base, list):
        return {"state": dict(enumerate(base)), "param_groups": []}
    return base if isinstance(base, dict) else {}


def _flats(file: RankFile, prefix: str, suffix: str) -> Iterator[Flat]:
    """The vectors `prefix.0[.suffix]`, `prefix.1[.suffix]`... as far as there are any."""
    at = 0
    while True:
        found = list(_flat(file, f"{prefix}.{at}.{suffix}" if suffix else f"{prefix}.{at}"))
        if not found:
            return
        yield from found
        at += 1


def _flat(file: RankFile, key: str) -> Iterator[Flat]:
    entry = file.entries.get(key)
    if entry is not None and entry.parts:
        part = entry.parts[0]
        offset = None if part.stride else part.offset
        yield Flat(part.file, offset, entry.numel, entry.dtype, file.rank, part.codec)


def _partitions(state: Mapping[str, Any]) -> int:
    """How many ranks cut the weights; per group in stages 1 and 2, where experts may be cut among fewer."""
    counts = state.get("partition_count")
    return max(map(_number, counts), default=0) if isinstance(counts, list) else _number(counts)


def _number(value: Any) -> int:
    """An integer, or the member of an Enum that it is stored as."""
    arguments = getattr(value, "arguments", None)
    value = arguments[0] if isinstance(arguments, list) and arguments else value
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _shapes(groups: Any) -> list[dict[str, tuple[int, ...]]]:
    rows = groups if isinstance(groups, list) else []
    return [dict(_named_shapes(row)) for row in rows if isinstance(row, dict)]


def _named_shapes(row: Mapping[Any, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shape in row.items():
        sizes = shape if isinstance(shape, list) else []
        if len(sizes) <= 64 and all(isinstance(size, int) and 0 <= size < 1 << 63 for size in sizes):
            yield str(name), tuple(sizes)


def _paddings(rows: Any) -> list[list[int]]:
    groups = rows if isinstance(rows, list) else []
    return [[max(0, _number(each)) for each in row] if isinstance(row, list) else [] for row in groups]


def _dtype(pieces: Iterable[Piece]) -> str:
    return next((piece.flat.dtype for piece in pieces), "float32")
