"""Compare gradients where the user asks for them: of one scalar, for all floating inputs and trained parameters.

The scalar is a random projection of all floating outputs, the same on both sides. The reference's gradients are also
checked against finite differences, whatever the target is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.audit.execute import PERTURBATIONS, usable_samples
from tensoraudit.audit.frameworks import FRAMEWORKS, Framework, framework_of
from tensoraudit.audit.gradient_judge import Judged, compared, measurements_of, rows_of, spoken
from tensoraudit.audit.gradient_sides import Names, SideGradients
from tensoraudit.audit.layouts import argument_names, as_candidate, as_reference, output_pairs
from tensoraudit.audit.parameter_sides import pair_sides
from tensoraudit.audit.probing import open_arrays, read_runs, wire
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.equivalence.gradient_pairing import Group, Plan, plan_gradients
from tensoraudit.equivalence.pairing import pair_outputs
from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.result import Probe, Status
from tensoraudit.probes.outcome import Outcome

MOST_SAMPLES = 2
"""Input sets whose gradients are compared: a user's own first, then random ones. Edge values are mostly kinks, and
other sizes show in the outputs."""

LARGE = 1 << 26
"""Elements of all parameters from which one input set has to do: each is kept eight times while it is judged."""

FORWARD_ONLY = "a file for {} holds the forward pass only; gradients are compared between frameworks that have them"

Projection = Mapping[str, Any]
"""The weights of each floating output, by the reference's name."""


def measure_gradients(audit: Audit) -> Audit:
    """With `options.gradients`: differentiate the reference, check it, and compare each shipping candidate with it.

    A side without a backward pass is a required probe that could not run.
    """
    if not audit.options.gradients or audit.pool is None or audit.reference is None:
        return audit
    framework, samples = framework_of(audit.reference.role), _samples(audit)
    audit = audit.add(probes=tuple(_without_backward(audit)))
    if not framework.can("gradients"):
        return audit
    if not samples:
        return audit.add(probes=(_row(audit, "failed", "the reference accepts no input set"),))
    audit.progress("differentiating the reference")
    projections = {sample.name: _projection(audit, sample) for sample in samples}
    outcome = _ask_reference(audit, samples, projections)
    audit = _with_reference(audit, outcome)
    if outcome.result is None:
        return audit
    for candidate in audit.candidates:
        if candidate.ships and framework_of(candidate.framework).can("gradients"):
            audit = _with_candidate(audit, candidate, samples, projections, outcome.result)
    audit.pool.discard(outcome.result)  # type: ignore[union-attr]
    return audit


def _without_backward(audit: Audit) -> Iterator[Probe]:
    """One row for the reference, and one for each target, that has no gradients."""
    assert audit.reference is not None
    own = framework_of(audit.reference.role)
    if not own.can("gradients"):
        yield _unsupported(own, "")
        return
    for target in audit.options.target:
        framework = FRAMEWORKS[target]  # type: ignore[index]
        if not framework.can("gradients"):
            yield _unsupported(framework, target)


def _unsupported(framework: Framework, target: str) -> Probe:
    reason = FORWARD_ONLY.format(framework.title)
    return Probe("gradients", framework.role, "", "cpu", "unsupported", reason, required=True, target=target)


def _row(audit: Audit, status: Outcome | Status, reason: str = "") -> Probe:
    assert audit.reference is not None
    return probe_row("gradients", framework_of(audit.reference.role).role, "cpu", status, reason, required=True)


def _samples(audit: Audit) -> list[Sample]:
    usable = [sample for sample in usable_samples(audit) if sample.kind in {"user", "random"}]
    numbers = sum(math.prod(each["shape"]) for each in audit.description.get("parameters", ()))
    most = MOST_SAMPLES if numbers < LARGE else 1
    return sorted(usable, key=lambda sample: sample.kind != "user")[:most] or usable_samples(audit)[:1]


def _projection(audit: Audit, sample: Sample) -> Projection:
    """Weights drawn from the seed; of a complex output one for its real and one for its imaginary part."""
    draws = np.random.default_rng(audit.options.seed)
    shapes = {name: (ref["dtype"], ref["shape"]) for name, ref in audit.reference_runs[sample.name].outputs.items()}
    return {
        name: draws.standard_normal((*shape, 2) if dtype.startswith("complex") else tuple(shape)).astype(np.float32)
        for name, (dtype, shape) in shapes.items()
        if dtype.startswith(("float", "complex"))
    }


def _ask_reference(audit: Audit, samples: Sequence[Sample], projections: Mapping[str, Projection]) -> Outcome:
    assert audit.pool is not None and audit.reference is not None
    pool = audit.pool
    inputs = [{**wire(pool, each), "projection": _put(audit, projections[each.name])} for each in samples]
    request = {"inputs": inputs, "oracle": True, "gradcheck": True, **_common(audit)}
    role = audit.reference.role
    return pool.run(role, framework_of(role).job("gradients"), {**audit.reference.params, **request})


def _common(audit: Audit) -> dict[str, Any]:
    return {"device": "cpu", "repeat": 2, "perturbations": PERTURBATIONS, "seed": audit.options.seed}


def _put(audit: Audit, projection: Projection) -> dict[str, Any]:
    assert audit.pool is not None
    return {name: audit.pool.put(weights) for name, weights in projection.items()}


def _with_reference(audit: Audit, outcome: Outcome) -> Audit:
    result = outcome.result or {}
    errors = [f"{run.sample}: {run.error}" for run in read_runs(result).values() if run.error]
    failed = bool(errors) and len(errors) == len(result.get("runs", ()))
    row = _row(audit, "failed" if failed else outcome, errors[0] if failed else "")
    checks = (result.get("gradcheck") or {}).get("checks", ())
    assert audit.reference is not None
    job = framework_of(audit.reference.role).job("gradients")
    return audit.add(
        probes=(row,),
        settings={"gradients": result.get("settings", {})},
        notes=tuple(_reference_notes(result)),
        measurements=tuple(_checked(each, job) for each in checks),
    )


def _checked(check: Mapping[str, Any], job: str) -> Measurement:
    name, status = spoken(check["tensor"]), check["status"]
    at, detail = Site(tensor=name), _numbers(check)
    return Measurement("gradient.check", name, status, probe=job, side="source", at=at, detail=detail)


def _numbers(check: Mapping[str, Any]) -> str:
    if check["analytic"] is None:
        return str(check["reason"])
    compared_ = f"{check['analytic']:.6g} along a direction in which finite differences give {check['numeric']:.6g}"
    return f"{check['reason']}; {compared_}" if check["reason"] else compared_


def _reference_notes(result: Mapping[str, Any]) -> Iterator[str]:
    found = result.get("gradcheck") or {}
    if found.get("reason"):
        yield f"the gradients were not checked against finite differences: {found['reason']}"
    open_ = [each for each in found.get("checks", ()) if each["status"] == "unverified"]
    if open_:
        first = f"{spoken(open_[0]['tensor'])}: {open_[0]['reason']}"
        yield f"finite differences could not tell for {len(open_)} of {len(found['checks'])} gradients ({first})"
    frozen = [each["names"][0] for each in result.get("parameters", ()) if not each["trainable"]]
    if frozen:
        yield f"{len(frozen)} parameter(s) of the reference are frozen and have no gradient ({frozen[0]})"
    dense = sorted({key for run in result.get("runs", ()) for key in run["dense"]})
    if dense:
        yield f"sparse gradients were made dense before comparing: {', '.join(map(spoken, dense[:3]))}"


def _with_candidate(
    audit: Audit,
    candidate: Candidate,
    samples: Sequence[Sample],
    projections: Mapping[str, Projection],
    reference: Mapping[str, Any],
) -> Audit:
    """Differentiate one candidate and judge every gradient."""
    assert audit.pool is not None
    audit.progress(f"differentiating {candidate.name}")
    role = candidate.framework
    own, inputs = _wired(audit, candidate, samples, projections)
    request = {"inputs": inputs, "oracle": False, "gradcheck": False, **_common(audit)}
    outcome = audit.pool.run(role, framework_of(role).job("gradients"), {**candidate.params, **request})
    row = probe_row(
        f"gradients.{candidate.name}", framework_of(role).role, "cpu", outcome, required=True, target=candidate.target
    )
    audit = audit.add(probes=(row,))
    if outcome.result is None:
        return audit
    plan = _plan(audit, candidate, samples[0], reference, outcome.result)
    sides = _sides(audit, reference, outcome.result)
    judged: list[Judged] = []
    for sample in samples:
        if sample.name in sides:
            names = dict(zip(sample.arrays, own[sample.name].arrays, strict=False))
            known = Names(plan, names, candidate.layouts.get("inputs", {}))
            judged += compared(*sides[sample.name], known, audit.options.tolerance)
    assert audit.reference is not None and audit.pool is not None
    audit.pool.discard(outcome.result)
    label = f"{candidate.name}@{candidate.label or f'{framework_of(role).role}/cpu'}"
    return audit.add(
        equivalence=tuple(rows_of(judged, audit.reference.label, label, candidate.target)),
        measurements=tuple(measurements_of(judged, candidate.target)),
    )


def _wired(
    audit: Audit, candidate: Candidate, samples: Sequence[Sample], projections: Mapping[str, Projection]
) -> tuple[dict[str, Sample], list[dict[str, Any]]]:
    """The samples as the candidate takes them, with the projection in its names and layout."""
    assert audit.pool is not None
    names = argument_names(audit, candidate)
    own = {sample.name: as_candidate(candidate, names, sample) for sample in samples}
    return own, [
        {**wire(audit.pool, each), "projection": _put(audit, _turned(audit, candidate, name, projections[name]))}
        for name, each in own.items()
    ]


def _turned(audit: Audit, candidate: Candidate, sample: str, projection: Projection) -> dict[str, Any]:
    """The projection by the candidate's names of its outputs, in its layout; those that have no partner stay away."""
    assert audit.pool is not None
    run = audit.candidate_runs.get(f"{candidate.name}/cpu", {}).get(sample)
    if run is None or run.error:
        return dict(projection)
    outputs = open_arrays(audit.pool, audit.reference_runs[sample].outputs) or {}
    pairs = pair_outputs(
        outputs, as_reference(audit.pool, candidate, run.outputs), output_pairs(candidate, outputs)
    ).pairs
    orders = candidate.layouts.get("outputs", {})
    return {
        pair.candidate: _transposed(projection[pair.reference], orders.get(pair.candidate))
        for pair in pairs
        if pair.reference in projection
    }


def _transposed(array: Any, order: Sequence[int] | None) -> Any:
    return array if order is None or array.ndim != len(order) else np.ascontiguousarray(array.transpose(tuple(order)))


def _plan(
    audit: Audit, candidate: Candidate, sample: Sample, reference: Mapping[str, Any], own: Mapping[str, Any]
) -> Plan:
    sides = pair_sides(audit, candidate, values=True, sample=sample)
    plan = plan_gradients(sides.pairs, groups_of(reference), groups_of(own))
    reason = f"the parameters of one side could not be read: {sides.reason}" if sides.reason else ""
    if not own.get("parameters"):
        reason = "the candidate has no trained parameters at all: its weights are constants"
    return replace(plan, unpaired=dict.fromkeys(plan.unpaired, reason)) if reason else plan


def groups_of(result: Mapping[str, Any]) -> list[Group]:
    """The parameters of a `gradients` job."""
    return [
        Group(tuple(each["names"]), tuple(each["shape"]), bool(each["trainable"]))
        for each in result.get("parameters", ())
    ]


def _sides(
    audit: Audit, reference: Mapping[str, Any], candidate: Mapping[str, Any]
) -> dict[str, tuple[SideGradients, SideGradients]]:
    """Both sides of each input set that the reference could be differentiated on."""
    assert audit.pool is not None
    ours, theirs = (
        {row["input"]: SideGradients.read(audit.pool, row) for row in result["runs"]}
        for result in (reference, candidate)
    )
    return {name: (side, theirs[name]) for name, side in ours.items() if not side.error and name in theirs}
