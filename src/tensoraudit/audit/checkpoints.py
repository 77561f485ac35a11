"""The steps of `checkpoint show` and `diff`: read, compare, and say what was seen as facts and measurements, so that
rules decide what of it is a finding.

Readers and the comparison are imported where they are used: every command loads this module, few need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit
from tensoraudit.checkpoints.ahead import Seen, look_at
from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.checkpoints.precision import widens
from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint
from tensoraudit.extract.checkpoint_facts import MOST_OF_A_KIND, checkpoint_facts, checkpoint_measurements
from tensoraudit.extract.environment import read_environment
from tensoraudit.facts import Side

NAMED: Final = 3
"""Tensors that a sentence names."""


def read_stored(audit: Audit) -> Audit:
    """Read the headers of what the user named: one checkpoint, or two to compare. Raises InputError."""
    audit = replace(audit, options=replace(audit.options, target=()))
    audit.progress(f"reading {audit.spec}")
    seen = look_at(Path(audit.spec))
    audit = audit.add(artifact=_artifact(audit.spec, seen.stored), checkpoint=seen.stored, seen=(seen,))
    if not audit.against:
        return audit
    audit.progress(f"reading {audit.against}")
    seen = audit.looked_ahead() or look_at(Path(audit.against))
    candidate = _artifact(audit.against, seen.stored)
    return audit.add(candidate_artifact=candidate, other_checkpoint=seen.stored, seen=(seen,))


def _artifact(spec: str, stored: StoredCheckpoint) -> Artifact:
    framework: Any = stored.framework if stored.framework in FRAMEWORKS else "python"
    size = sum(entry.stored_bytes for entry in stored.entries)
    details = {"format": stored.format}
    return Artifact(spec, "checkpoint", framework, stored.path, size=size, imports=stored.imports, details=details)


SIDES: Final[tuple[Side, ...]] = ("source", "target")


def describe_stored(audit: Audit) -> Audit:
    """Turn what was read into facts, and the observations of readers and topics into measurements."""
    audit.progress("looking at names, shapes and shards")
    for seen, side in zip(audit.seen, SIDES, strict=False):
        audit = described(audit.add(facts=tuple(read_environment(side))), seen, side)
    return audit


def described(audit: Audit, seen: Seen, side: Side) -> Audit:
    """The audit with what is to be said of one checkpoint."""
    observations = (*seen.stored.observations, *seen.observations)
    return audit.add(
        facts=tuple(checkpoint_facts(seen.stored, side)),
        measurements=tuple(checkpoint_measurements(seen.stored, observations, side)),
        notes=tuple(_cut_off(observations)),
    )


def _cut_off(observations: Sequence[Observation]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for each in observations:
        counts[each.kind] = counts.get(each.kind, 0) + 1
    for kind, count in counts.items():
        if count > MOST_OF_A_KIND:
            yield f"{count:,} observations of the kind {kind}: rules were asked about the first {MOST_OF_A_KIND:,}"


def diff_stored(audit: Audit) -> Audit:
    """Pair the tensors of both and say what differs. Values that were asked for and could not be read are a required
    probe that failed. Raises InputError for a map that does not fit."""
    from tensoraudit.audit.port_map import read_map
    from tensoraudit.checkpoints.diff import diff_checkpoints
    from tensoraudit.checkpoints.observations import observe_diff_all

    assert audit.checkpoint is not None and audit.other_checkpoint is not None
    options = audit.options
    diff = diff_checkpoints(
        audit.checkpoint,
        audit.other_checkpoint,
        mapping=read_map(options.map).parameters if options.map else None,
        values=options.values or options.by_value,
        by_value=options.by_value,
        progress=audit.progress,
    )
    observed = chain(_differences(diff), diff.optimizer, observe_diff_all(diff))
    audit = audit.add(
        checkpoint_diff=diff,
        measurements=tuple(checkpoint_measurements(diff.candidate, observed, "target", noun="checkpoint_diff")),
        notes=diff.notes,
    )
    unread = [pair for pair in diff.pairs if pair.status == "unread"]
    status: Any = "failed" if unread else "ok"
    reason = _unread(unread) if unread else ""
    row = probe_row("checkpoint_diff.values", diff.candidate.framework, "cpu", status, reason, required=True)
    return audit.add(probes=(row,)) if options.values or options.by_value else audit


def _unread(pairs: Sequence[PairedTensor]) -> str:
    first = pairs[0]
    more = f" and {len(pairs) - 1:,} more" if len(pairs) > 1 else ""
    return f"{first.reference or first.candidate}{more}: {first.note or 'its values could not be read'}"


DIFFERENCES: Final = {
    "missing": "{count} of the reference {are} not in the candidate: {names}.",
    "different": "{count} {have} other values: {names}.",
    "other_shape": "{count} {have} another number of elements: {names}.",
    "reshaped": "{count} {have} the same number of elements in another shape: {names}.",
    "padded": "{count} {are} longer on one side: {names}.",
    "cast": "{count} {are} stored in a narrower dtype: {names}.",
    "rounded": "{count} {have} values that differ by rounding: {names}.",
    "permuted": "{count} {have} the axes in another order: {names}.",
    "turned": "{count} {have} the axes in another order, on both sides of one framework: {names}.",
    "tied": "{count} {are} stored under another of the names that share the same bytes: {names}.",
    "extra": "{count} of the candidate {are} not in the reference: {names}.",
    "unread": "the values of {count} could not be read: {names}.",
}
"""What a diff says of all pairs of one kind together."""

ROUNDING: Final = frozenset({"identical", "equivalent", "noise"})


def _differences(diff: CheckpointDiff) -> Iterator[Observation]:
    """One observation for each kind of difference, with the number of its pairs."""
    kinds: dict[str, list[PairedTensor]] = {kind: [] for kind in DIFFERENCES}
    across = diff.reference.framework != diff.candidate.framework
    # What lacks the state of an optimiser is weights alone, which `optimizer_missing` says in one row.
    entries = (*diff.reference.entries, *diff.candidate.entries)
    training = {entry.full_name for entry in entries if entry.group not in WEIGHTS}
    arrived = _arrived(diff)
    for pair in diff.pairs:
        kind = "tied" if (pair.reference or pair.candidate) in arrived else _kind(pair, diff, across=across)
        if kind in kinds and not (kind in {"missing", "extra"} and (pair.reference or pair.candidate) in training):
            kinds[kind].append(pair)
    for kind, pairs in kinds.items():
        if pairs:
            one = len(pairs) == 1
            words = {"are": "is" if one else "are", "have": "has" if one else "have"}
            count = f"{len(pairs):,} tensor{'' if one else 's'}"
            message = DIFFERENCES[kind].format(count=count, names=_names(pairs), **words)
            yield Observation(kind, "checkpoint", len(pairs), message)


def _arrived(diff: CheckpointDiff) -> set[str]:
    """Names without a partner whose bytes have a further name on the same side, and that one has a partner: a tied
    weight may go by any of its names."""
    lonely = {pair.reference or pair.candidate for pair in diff.pairs if not (pair.reference and pair.candidate)}
    found: set[str] = set()
    for side in (diff.reference, diff.candidate):
        tied: dict[str, list[str]] = {}
        for entry in side.entries:
            tied.setdefault(entry.owner, []).append(entry.full_name)
        for names in tied.values():
            if len(names) > 1 and not lonely.issuperset(names):
                found |= lonely.intersection(names)
    return found


WEIGHTS: Final = frozenset({"model", "ema"})
COUNTERS: Final = ("num_batches_tracked", "seed_generator_state")
"""Ends of names of what one framework stores with its layers and no other knows."""


def _kind(pair: PairedTensor, diff: CheckpointDiff, *, across: bool) -> str:
    """The status; of pairs that differ more exactly, and "" for what is no difference: a cast that loses nothing, and
    `across` frameworks a counter of one of them and a tensor that its values show to be the same in another shape."""
    settled = pair.verdict in ROUNDING
    if across and pair.status in {"missing", "extra"} and (pair.reference or pair.candidate).endswith(COUNTERS):
        return ""
    if pair.status == "different":
        return "rounded" if settled else "different" if prod(pair.shapes[0]) == prod(pair.shapes[1]) else "other_shape"
    if (pair.status == "cast" and not _loses(pair)) or (across and pair.status == "reshaped" and settled):
        return ""
    return "turned" if pair.status == "permuted" and diff.one_layout and pair.by != "map" else pair.status


def _loses(pair: PairedTensor) -> bool:
    """Where values were read they tell; headers know whether a dtype can hold what the other held. (Into a wider dtype
    nothing is lost: where values differ there, it is the reference that was rounded.)"""
    if "linf" not in pair.loss:
        return bool(pair.loss.get("narrowing"))
    return not widens(*pair.dtypes) and any(pair.loss.get(key) for key in ("linf", "to_inf", "to_zero"))


def _names(pairs: Sequence[PairedTensor]) -> str:
    shown = ", ".join(_name(pair) for pair in pairs[:NAMED])
    return shown + (f" and {len(pairs) - NAMED:,} more" if len(pairs) > NAMED else "")


def _name(pair: PairedTensor) -> str:
    name = pair.reference or pair.candidate
    shapes = [list(shape) for shape in pair.shapes]
    if pair.shapes[0] != pair.shapes[1] and pair.reference and pair.candidate:
        return f"{name} {shapes[0]} to {shapes[1]}"
    if pair.status == "cast":
        return f"{name} {pair.dtypes[0]} to {pair.dtypes[1]}"
    if pair.status != "different":
        return name
    return (
        f"{name} (by up to {pair.linf:.2g})"
        if pair.linf is not None
        else f"{name} ({pair.note})"
        if pair.note
        else name
    )
