"""What of a training run a checkpoint holds, in words: what a resume finds there, and what it would begin anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tensoraudit.checkpoints.optimizer_kinds import kind_before_state
from tensoraudit.checkpoints.schema import OptimizerState, StoredCheckpoint, TrainingState
from tensoraudit.report.amounts import amount

_GENERATORS: Final = {"pytorch": ("torch", "numpy", "python"), "jax": ("jax",)}
"""Random generators that a training run of a framework usually draws from on any machine."""


def is_for_training(stored: StoredCheckpoint) -> bool:
    """Tell whether anything beside weights is there, so that somebody may mean to resume from it."""
    state = stored.training
    return bool(state.optimizers or state.rng or state.unread) or any(
        each is not None for each in (state.step, state.epoch, state.scheduler, state.scaler, state.loader)
    )


def parts(stored: StoredCheckpoint) -> dict[str, str]:
    """Return what a resume needs, by name: what is there in words, "" where nothing is."""
    state = stored.training
    weights = sum(entry.group == "model" for entry in stored.entries)
    return {
        "weights": amount(weights, "tensor") if weights else "",
        "optimiser": "; ".join(map(_optimizer, state.optimizers)),
        "step": _count(state, "step", state.step),
        "epoch": _count(state, "epoch", state.epoch),
        "scheduler": _mapping(state.scheduler, "nothing in it"),
        "gradient scaler": _mapping(state.scaler, "empty: saved while it was disabled"),
        "random states": ", ".join(state.rng),
        "data loader": _mapping(state.loader, "nothing in it"),
    }


def _count(state: TrainingState, name: str, number: float | None) -> str:
    if number is not None:
        return f"{number:,}"
    return "stored as a tensor that could not be read" if name in state.unread else ""


def missing(stored: StoredCheckpoint) -> list[str]:
    """Return the names of what is not there. A count of steps or of epochs will do for either."""
    found = parts(stored)
    counted = found["step"] or found["epoch"]
    absent = [name for name, text in found.items() if not text and not (counted and name in {"step", "epoch"})]
    return [*absent, *_generators(stored)]


def _generators(stored: StoredCheckpoint) -> Iterator[str]:
    """The generators without a state, where others have one."""
    if stored.training.rng:
        usual = _GENERATORS.get(stored.framework, ())
        yield from (f"random state of {name}" for name in usual if name not in stored.training.rng)


def _optimizer(state: OptimizerState) -> str:
    """`adam, state of 24 parameters by position, 2 groups`."""
    words = [_kind(state)]
    if state.parameters:
        by = f" by {state.keyed}" if state.keyed else ""
        words.append(f"state of {amount(state.parameters, 'parameter')}{by}")
    if state.groups:
        words.append(amount(len(state.groups), "group"))
        words += [f"{key} {_rates(state, key)}" for key in ("lr", "weight_decay") if _rates(state, key)]
    return ", ".join(words)


def _kind(state: OptimizerState) -> str:
    if state.kind == "none":
        named = kind_before_state({key for group in state.groups for key in group})
        return "no state yet" if named == "unknown" else f"{named}, no state"
    if state.kind == "unknown":
        return f"fields {', '.join(state.fields)}" if state.fields else "of unknown kind"
    return state.kind


def _rates(state: OptimizerState, key: str) -> str:
    values = [group[key] for group in state.groups if isinstance(group.get(key), int | float)]
    return "/".join(f"{value:.3g}" for value in dict.fromkeys(values))


def _mapping(state: Mapping[str, Any] | None, empty: str) -> str:
    if state is None:
        return ""
    return ", ".join(str(key) for key in list(state)[:6]) + (", ..." if len(state) > 6 else "") if state else empty
