"""The steps of `--checkpoint` beside a model: read its headers, and hold its names against the model's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensoraudit.audit.checkpoints import described
from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.probing import wire
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit
from tensoraudit.checkpoints.against_model import ModelTensor, against_model
from tensoraudit.checkpoints.ahead import look_at
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.extract.checkpoint_facts import checkpoint_measurements
from tensoraudit.probes.outcome import Outcome


def read_weights(audit: Audit) -> Audit:
    """Read the headers of `--checkpoint` before anything runs. Raises InputError."""
    if audit.options.checkpoint is None:
        return audit
    seen = look_at(Path(audit.options.checkpoint))
    return described(audit.add(checkpoint=seen.stored), seen, "source")


def compare_parameters(audit: Audit) -> Audit:
    """Hold the names of `--checkpoint` against the parameters of the reference, which its worker lists."""
    if audit.options.checkpoint is None:
        return audit
    stored = audit.checkpoint
    if stored is None or audit.pool is None or audit.reference is None:
        reason = "the model was not built, so that its parameters are not known"
        return audit.add(probes=(probe_row("checkpoint.parameters", "", "cpu", "missing", reason, required=True),))
    audit.progress("comparing the checkpoint's names with the model's")
    role = audit.reference.role
    inputs = wire(audit.pool, audit.samples[0]) if audit.samples else None
    request = {**audit.reference.params, "values": False, "inputs": inputs}
    outcome: Outcome = audit.pool.run(role, framework_of(role).job("parameters"), request)
    audit = audit.add(probes=(probe_row("checkpoint.parameters", role, "cpu", outcome, required=True),))
    if outcome.result is None:
        return audit
    model = [_model_tensor(row) for row in outcome.result["parameters"]]
    if not model:  # all of nothing is there, which tells nothing of the file
        reason = "the model lists no parameters, so there is nothing to hold the checkpoint against"
        return audit.add(probes=(probe_row("checkpoint.names", role, "cpu", "unsupported", reason, required=True),))
    observed = against_model(stored, model, _partners(stored, model))
    return audit.add(measurements=tuple(checkpoint_measurements(stored, observed, "source")))


def _model_tensor(row: Any) -> ModelTensor:
    """A row of a `parameters` job."""
    saved, also = bool(row.get("saved", True)), tuple(row.get("also", ()))
    return ModelTensor(str(row["name"]), str(row["dtype"]), tuple(row["shape"]), saved, also)


def _partners(stored: StoredCheckpoint, model: Sequence[ModelTensor]) -> dict[str, str] | None:
    """The model's names to the checkpoint's, where a loader of another framework would have to translate them."""
    from tensoraudit.checkpoints.diff import diff_checkpoints

    held = {entry.name for entry in stored.entries}
    if stored.framework == "pytorch" or any(each.name in held for each in model):
        return None
    entries = tuple(Entry(each.name, each.dtype, each.shape, ()) for each in model)
    described = replace(stored, framework="", format="", entries=entries)
    pairs = diff_checkpoints(described, replace(stored, entries=tuple(e for e in stored.entries if e.group == "model")))
    return {pair.reference: pair.candidate for pair in pairs.pairs if pair.reference and pair.candidate}
