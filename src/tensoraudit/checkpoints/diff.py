"""`diff_checkpoints`: two checkpoints of any formats, tensor by tensor, from headers alone unless values are asked for.

pairing -> (fingerprints, by value) -> header_status -> (value_status, with values) and optimizer_diff beside it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from tensoraudit.checkpoints.header_status import from_headers
from tensoraudit.checkpoints.optimizer_diff import compare_training
from tensoraudit.checkpoints.paired import By, CheckpointDiff, PairedTensor, Status
from tensoraudit.checkpoints.pairing import Match, Pairing, pair_by_names
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.shape_pairing import pair_by_shapes
from tensoraudit.equivalence.steps import Steps

__all__ = ["By", "CheckpointDiff", "PairedTensor", "Status", "diff_checkpoints"]

COUNTER: Final = "num_batches_tracked"
Progress = Callable[[str], None]


def diff_checkpoints(
    reference: StoredCheckpoint,
    candidate: StoredCheckpoint,
    *,
    mapping: Mapping[str, Any] | None = None,
    values: bool = False,
    by_value: bool = False,
    progress: Progress = lambda text: None,
) -> CheckpointDiff:
    """Compare two checkpoints.

    Args:
        reference: what the other is judged by.
        candidate: the other.
        mapping: names of the reference to names of the candidate; or what a map file holds, names of the candidate to
            the terms that they are made of. It goes before everything else.
        values: read the tensors: digests, verdicts, and what headers only let suspect.
        by_value: recognise tensors that no name pairs by their values, which reads those tensors.
        progress: is told what is being done, in a few words.
    """
    names, steps = _read_mapping(mapping or {})
    pairing = pair_by_names(reference, candidate, names)
    if by_value and not pairing.is_done:
        from tensoraudit.checkpoints.fingerprints import pair_by_values

        pair_by_values(pairing, progress)
    pair_by_shapes(pairing)
    pairs = {match.reference: _from_headers(pairing, match) for match in pairing.matches}
    if values:
        _settle(pairing, pairs, steps, progress)
    pairs |= {number: _lonely(reference.entries[number], "missing") for number in pairing.reference.free}
    extra = [_lonely(candidate.entries[number], "extra") for number in pairing.candidate.free]
    ordered = (*(pairs[number] for number in range(len(reference.entries))), *extra)
    return CheckpointDiff(
        reference, candidate, ordered, tuple(pairing.prefixes), tuple(compare_training(reference, candidate))
    )


def _settle(pairing: Pairing, pairs: dict[int, PairedTensor], steps: Mapping[str, Steps], progress: Progress) -> None:
    """Replace pairs by what their values say."""
    from tensoraudit.checkpoints.value_status import Settler

    ours, theirs = pairing.reference, pairing.candidate
    with Settler(ours.stored, theirs.stored, steps) as settler:
        for number, match in enumerate(sorted(pairing.matches)):
            i, j = match.reference, match.candidate
            progress(f"values of tensor {number + 1:,} of {len(pairing.matches):,}")
            pairs[i] = settler.settle(pairs[i], ours.entries[i], theirs.entries[j])


def _read_mapping(mapping: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Steps]]:
    """Return the candidate's names by the reference's, and the steps that lead to the candidate's tensors."""
    names: dict[str, str] = {}
    steps: dict[str, Steps] = {}
    for key, value in mapping.items():
        if isinstance(value, str):
            names[key] = value
        elif len(value) == 1:  # what is made of several tensors is no pair
            names[value[0].reference] = key
            steps[key] = value[0].steps
    return names, steps


def _from_headers(pairing: Pairing, match: Match) -> PairedTensor:
    ours, theirs = pairing.reference, pairing.candidate
    i, j = match.reference, match.candidate
    return from_headers((ours.names[i], theirs.names[j]), ours.entries[i], theirs.entries[j], match.by, match.note)


def _lonely(entry: Entry, status: Literal["missing", "extra"]) -> PairedTensor:
    note = f"shares its bytes with {entry.same_as}" if entry.same_as else ""
    if not entry.shape and entry.name.endswith(COUNTER):
        note = "a counter that only PyTorch keeps"
    if status == "missing":
        return PairedTensor(entry.full_name, "", status, dtypes=(entry.dtype, ""), shapes=(entry.shape, ()), note=note)
    return PairedTensor("", entry.full_name, status, dtypes=("", entry.dtype), shapes=((), entry.shape), note=note)
