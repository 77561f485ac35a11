"""What a checkpoint is to the rules: one Checkpoint, a Tensor for each entry, a measurement for each observation.

Paths of files stay relative to the checkpoint's folder, as its index has them; places are paths as the user typed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint
from tensoraudit.facts import Checkpoint, Fact, Measurement, Side, Site, Tensor

MOST_OF_A_KIND: Final = 1_000
"""Observations of one kind that become measurements: a rule speaks of the first, and reports count them."""

_ZIPPED: Final = frozenset({"torch_zip", "torchscript", "exported_program", "npz", "keras"})


def checkpoint_facts(stored: StoredCheckpoint, side: Side) -> Iterator[Fact]:
    """Yield the checkpoint, then its tensors in their own order."""
    place = Site(path=str(stored.path))  # one for all: a hundred thousand of them would be a third of the facts
    yield Checkpoint(stored.format, stored.files, stored.imports, _metadata(stored), place, side)
    kind = "zip" if stored.format in _ZIPPED else "shard" if len(stored.files) > 1 else "inline"
    onnx = stored.format == "onnx"
    for entry in stored.entries:
        parts = entry.parts
        yield Tensor(
            entry.full_name if entry.path else entry.name,
            entry.dtype,
            entry.shape,
            parts[0].file if parts else "",
            parts[0].offset if len(parts) == 1 else None,
            parts[0].bytes if len(parts) == 1 and not entry.same_as else entry.stored_bytes,
            _in_onnx(entry, stored) if onnx else kind,
            place,
            side,
        )


def _in_onnx(entry: Entry, stored: StoredCheckpoint) -> str:
    inside = all(part.file == stored.path.name for part in entry.parts)
    return "inline" if inside else "external"


def _metadata(stored: StoredCheckpoint) -> Mapping[str, Any]:
    """What the reader says of the format, and what there is of training; a key that is not there was not stored."""
    training = stored.training
    told: dict[str, Any] = {
        "framework": stored.framework,
        "writer": stored.writer or None,
        "tensors": len(stored.entries),
        "groups": list(dict.fromkeys(entry.group for entry in stored.entries)),
        "optimizers": [each.kind for each in training.optimizers],
        "optimizer_keyed": [each.keyed for each in training.optimizers],
        "optimizer_fields": [name for each in training.optimizers for name in each.fields],
        "step": training.step,
        "epoch": training.epoch,
        **{key: _keys(getattr(training, key)) for key in ("scheduler", "scaler", "loader")},
        "rng": list(training.rng),
    }
    return {**stored.metadata, **{key: value for key, value in told.items() if value is not None}}


def _keys(state: Mapping[str, Any] | None) -> list[str] | None:
    return None if state is None else [str(key) for key in state]


def checkpoint_measurements(
    stored: StoredCheckpoint,
    observations: Iterable[Observation],
    side: Side,
    *,
    noun: str = "checkpoint",
    target: str = "",
) -> Iterator[Measurement]:
    """Yield each observation as the measurement `<noun>.<kind>`, the first `MOST_OF_A_KIND` of each kind."""
    seen: dict[str, int] = {}
    names: frozenset[str] | None = None
    for each in observations:
        seen[each.kind] = seen.get(each.kind, 0) + 1
        if seen[each.kind] > MOST_OF_A_KIND:
            continue
        if names is None:
            names = frozenset(entry.full_name for entry in stored.entries)
        yield Measurement(
            f"{noun}.{each.kind}",
            each.subject,
            each.value,
            probe=noun,
            side=side,
            target=target,
            at=Site(path=_place(stored, each.file), tensor=each.subject if each.subject in names else None),
            detail=each.message,
        )


def _place(stored: StoredCheckpoint, file: str) -> str:
    """A file inside the checkpoint's folder; the checkpoint itself where none is named."""
    return (
        str(Path(stored.root) / file) if file and file not in {str(stored.path), stored.path.name} else str(stored.path)
    )
