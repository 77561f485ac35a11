"""What of the training state differs between two checkpoints, from headers and plain values alone.

Optimisers are compared in their order. Each difference is an `Observation` of one of these kinds:

`optimizer_missing`, `optimizer_extra`, `optimizer_kind`, `optimizer_keys` (positions against names),
`optimizer_fields`, `optimizer_parameters` (number with state), `optimizer_groups` (number or sizes of groups),
`optimizer_order` (the same parameters in another order), `optimizer_hyperparameter`, `training_missing`,
`training_extra` (scheduler, scaler, loader, step, epoch), `training_value` (another step or epoch), `rng`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from tensoraudit.checkpoints.optimizer_kinds import kind_before_state
from tensoraudit.checkpoints.schema import Observation, OptimizerState, StoredCheckpoint, TrainingState

_IDS: Final = ("params", "param_names")
_SPEED: Final = frozenset(("fused", "foreach", "capturable", "differentiable", "maximize_ready"))
"""How an optimiser computes, not what; a fused one rounds differently, which is worth a word and no more."""
_PARTS: Final = ("scheduler", "scaler", "loader", "step", "epoch")


def compare_training(reference: StoredCheckpoint, candidate: StoredCheckpoint) -> Iterator[Observation]:
    """Yield the differences of the optimisers and of the rest of the training state."""
    ours, theirs = reference.training, candidate.training
    for number, (one, other) in enumerate(zip_longest(ours.optimizers, theirs.optimizers)):
        yield from _optimizers(f"optimizer {number}" if number else "optimizer", one, other)
    for part in _PARTS:
        yield from _parts(part, getattr(ours, part), getattr(theirs, part))
    yield from _generators(ours, theirs)


def _optimizers(name: str, one: OptimizerState | None, other: OptimizerState | None) -> Iterator[Observation]:
    if one is None or other is None:
        kind = "optimizer_extra" if one is None else "optimizer_missing"
        side = "candidate" if one is None else "reference"
        yield Observation(kind, name, (one or other).kind, f"Only the {side} has the state of this optimizer.")  # type: ignore[union-attr]
        return
    for kind, what, a, b in (
        ("optimizer_kind", "looks like", _kind(one), _kind(other)),
        ("optimizer_keys", "joins its state to parameters by", one.keyed, other.keyed),
        ("optimizer_fields", "keeps", sorted(one.fields), sorted(other.fields)),
        ("optimizer_parameters", "has state of", one.parameters, other.parameters),
    ):
        if a != b:
            yield Observation(kind, name, [a, b], f"The reference's {what} {_told(a)}, the candidate's {_told(b)}.")
    yield from _extra_keys(name, one, other)
    yield from _groups(name, one.groups, other.groups)


def _kind(state: OptimizerState) -> str:
    """What the optimiser is, by its groups where it has kept nothing yet."""
    named = kind_before_state({key for group in state.groups for key in group}) if state.kind == "none" else "unknown"
    return state.kind if named == "unknown" else named


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "nothing"
    return str(value) or "nothing"


def _extra_keys(name: str, one: OptimizerState, other: OptimizerState) -> Iterator[Observation]:
    if set(one.extra) != set(other.extra):
        a, b = sorted(one.extra), sorted(other.extra)
        text = f"Beside state and groups the reference's has {_told(a)}, the candidate's {_told(b)}."
        yield Observation("optimizer_fields", name, [a, b], text)


def _groups(name: str, ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> Iterator[Observation]:
    sizes = [_size(group) for group in ours], [_size(group) for group in theirs]
    if sizes[0] != sizes[1]:
        text = f"The reference's parameter groups have {_told(sizes[0])} parameters, the candidate's {_told(sizes[1])}."
        yield Observation("optimizer_groups", name, list(sizes), text)
    if len(ours) != len(theirs):
        return
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        group = f"{name}, group {number}"
        yield from _order(group, one, other)
        yield from _hyperparameters(group, one, other)


def _size(group: Mapping[str, Any]) -> int:
    return len(group.get("params") or ())


def _order(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Observation]:
    for key in _IDS:
        a, b = list(one.get(key) or ()), list(other.get(key) or ())
        if a and b and a != b and sorted(map(str, a)) == sorted(map(str, b)):
            at = next(place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
            text = (
                f"The same parameters stand in another order: at {at} the reference has {a[at]}, the candidate {b[at]}."
            )
            yield Observation("optimizer_order", name, [a[at], b[at]], text)
            return


def _hyperparameters(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Observation]:
    for key in sorted((one.keys() | other.keys()) - set(_IDS)):
        a, b = one.get(key), other.get(key)
        if a == b or (isinstance(a, list | tuple) and isinstance(b, list | tuple) and list(a) == list(b)):
            continue
        kind = "optimizer_implementation" if key in _SPEED else "optimizer_hyperparameter"
        text = f"{key} is {_shown(one, key)} in the reference and {_shown(other, key)} in the candidate."
        yield Observation(kind, f"{name}, {key}", [a, b], text)


def _shown(group: Mapping[str, Any], key: str) -> str:
    return repr(group[key]) if key in group else "not there"


def _parts(part: str, one: Any, other: Any) -> Iterator[Observation]:
    if (one is None) != (other is None):
        kind, side = ("training_missing", "reference") if other is None else ("training_extra", "candidate")
        yield Observation(kind, part, None, f"Only the {side} has the {part}.")
    elif one != other:
        if not isinstance(one, Mapping):
            yield Observation("training_value", part, [one, other], f"The {part} is {one} and {other}.")
            return
        keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        yield Observation("training_value", part, keys[:100], f"The {part} differs in {_told(keys[:10])}.")


def _generators(ours: TrainingState, theirs: TrainingState) -> Iterator[Observation]:
    a, b = sorted(ours.rng), sorted(theirs.rng)
    if a != b:
        text = f"The reference has the random states of {_told(a)}, the candidate of {_told(b)}."
        yield Observation("rng", "checkpoint", [a, b], text)
