"""Parts of the state of training that a checkpoint lacks while others are there."""

from __future__ import annotations

from collections.abc import Iterator

from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `resume_missing` for each of `optimizer`, `step` and `rng` that is not there, in a checkpoint that holds
    some state of training, and for a `scaler` saved while it was off; the value are the parts that are there."""
    there = parts_of(stored)
    if not there:
        return
    held = ", ".join(there)
    for part, words in (
        ("optimizer", "no state of an optimiser"),
        ("step", "neither a step nor an epoch"),
        ("rng", "no state of a random generator"),
    ):
        if part not in there:
            yield Observation("resume_missing", part, there, f"Training state is stored ({held}), but {words}.")
    if stored.training.scaler is not None and not stored.training.scaler:
        told = "The gradient scaler is stored as an empty dict, as a disabled one saves itself: its scale is lost."
        yield Observation("resume_missing", "scaler", there, told)


def parts_of(stored: StoredCheckpoint) -> list[str]:
    """The parts of the state of training that are there. A number of steps alone is a label, not a state."""
    training = stored.training
    there = {
        "optimizer": any(state.kind != "none" for state in training.optimizers),
        "scheduler": bool(training.scheduler),
        "scaler": training.scaler is not None,
        "step": training.step is not None or training.epoch is not None or bool(training.unread),
        "rng": bool(training.rng),
        "loader": bool(training.loader),
    }
    found = [part for part, held in there.items() if held]
    return [] if found == ["step"] and training.epoch is None and "epoch" not in training.unread else found
