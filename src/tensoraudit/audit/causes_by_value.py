"""Why a hand-written port differs: its layers paired with the reference's by their parameters, and tested one by one.

What reproduces the candidate's numbers is a cause (`port.cause`); what differs in a setting or a weight alone, where a
layer could not be tested, is suspected (`port.suspected`). Layers that nobody could look at are counted in a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tensoraudit.audit.cause_sentences import first_wrong, line_of, measurements, notes
from tensoraudit.audit.layouts import as_reference, output_pairs
from tensoraudit.audit.parameter_sides import ModelSide, ModelSides, pair_sides
from tensoraudit.audit.probing import open_arrays
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.equivalence.diagnosis import Diagnosis, diagnose
from tensoraudit.equivalence.layer import Layer, make_layer
from tensoraudit.equivalence.pairing import pair_outputs
from tensoraudit.findings.result import FirstDivergence
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

PROBE = "ported"
WRONG = frozenset({"drift", "break"})
ORDER = ("user", "random", "size", "edge")


def find_causes(audit: Audit) -> Audit:
    """Explain the given candidate of `compare`, where its outputs are wrong."""
    candidate = next((each for each in audit.candidates if each.ships), None)
    if audit.candidate_artifact is None or candidate is None or audit.pool is None or audit.reference is None:
        return audit
    sample = _failing_sample(audit, candidate)
    if sample is None:
        return audit
    audit.progress("looking for the cause")
    sides = pair_sides(audit, candidate, values=True, sample=sample)
    if sides.reason:
        outcome = Outcome("unsupported", reason=sides.reason)
        return audit.add(probes=(probe_row(PROBE, candidate.framework, "cpu", outcome, target=candidate.target),))
    found = list(_diagnoses(audit, candidate, sides, sample))
    audit = audit.add(
        probes=(probe_row(PROBE, candidate.framework, "cpu", Outcome("ok"), target=candidate.target),),
        measurements=tuple(measurements(audit, candidate, sides, found)),
        notes=tuple(notes(sides, found)),
    )
    return _with_place(audit, candidate, sample, found)


def _failing_sample(audit: Audit, candidate: Candidate) -> Sample | None:
    """The most telling input set on which an output is wrong, or the candidate differs from itself."""
    bad = {
        row.inputs
        for row in audit.equivalence
        if row.candidate.startswith(f"{candidate.name}@")
        and (row.verdict in WRONG or (row.verdict == "unverified" and "the candidate gives other values" in row.reason))
    }
    ours = [sample for sample in audit.samples if sample.name in bad]
    return min(ours, key=lambda sample: ORDER.index(sample.kind), default=None)


def _diagnoses(audit: Audit, candidate: Candidate, sides: ModelSides, sample: Sample) -> Iterator[Diagnosis]:
    assert audit.pool is not None
    ours, theirs = (_layers(audit.pool, side) for side in (sides.reference, sides.candidate))
    partners = _partners(sides)
    pairs = [(layer, theirs[partners[path]]) for path, layer in ours.items() if partners.get(path) in theirs]
    if not pairs:
        return
    outputs = open_arrays(audit.pool, audit.reference_runs[sample.name].outputs) or {}
    run = audit.candidate_runs.get(f"{candidate.name}/cpu", {}).get(sample.name)
    own = as_reference(audit.pool, candidate, run.outputs) if run is not None and not run.error else {}
    ends = [
        (outputs[pair.reference], own[pair.candidate])
        for pair in pair_outputs(outputs, own, output_pairs(candidate, outputs)).pairs
        if outputs[pair.reference].shape == own[pair.candidate].shape
    ]
    inputs = [value for value in sample.arrays.values() if hasattr(value, "ndim")]
    yield from diagnose(pairs, inputs, ends)


def _layers(pool: Pool, side: ModelSide) -> dict[str, Layer]:
    """The layers that own parameters, in the order of their calls."""
    owned: dict[str, list[Any]] = {}
    for parameter in side.parameters:
        owned.setdefault(parameter.module, []).append(parameter)
    return {
        row["path"]: make_layer(
            row, owned[row["path"]], [pool.get(ref) for ref in row["inputs"]], [pool.get(ref) for ref in row["outputs"]]
        )
        for row in side.modules
        if row["path"] in owned
    }


def _partners(sides: ModelSides) -> dict[str, str]:
    """The candidate's module for each of the reference's: the one that most of its parameters are in."""
    ours = {each.name: each.module for each in sides.reference.parameters}
    theirs = {each.name: each.module for each in sides.candidate.parameters}
    votes: dict[str, dict[str, int]] = {}
    for pair in sides.pairs.pairs:
        for term in pair.terms:
            count = votes.setdefault(ours[term.reference], {})
            count[theirs[pair.candidate]] = count.get(theirs[pair.candidate], 0) + 1
    return {path: max(count, key=lambda name: count[name]) for path, count in votes.items()}


def _with_place(audit: Audit, candidate: Candidate, sample: Sample, found: Sequence[Diagnosis]) -> Audit:
    """Name the first wrong layer in the rows that no localisation has named."""
    wrong = first_wrong(found)
    if wrong is None:
        return audit
    first = FirstDivergence(
        wrong.reference.title,
        wrong.candidate.title,
        line_of(audit, wrong.reference),
        None,
        None,
        candidate_line=line_of(audit, wrong.candidate),
    )
    return replace(
        audit,
        equivalence=tuple(
            replace(row, first_divergence=first)
            if row.first_divergence is None
            and row.candidate.startswith(f"{candidate.name}@")
            and row.inputs == sample.name
            and row.verdict in WRONG
            else row
            for row in audit.equivalence
        ),
    )
