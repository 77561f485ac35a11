"""Convert the reference by every route to a target, and say what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensoraudit.audit.frameworks import Framework, framework_of
from tensoraudit.audit.prepare import export_sample, side_of
from tensoraudit.audit.probing import probe_row, wire
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.facts import Measurement
from tensoraudit.findings.result import Conversion
from tensoraudit.probes.outcome import Outcome

MEASURED = (
    "opset_requested",
    "opset_written",
    "dynamic_requested",
    "dynamic_written",
    "dynamic_lost",
    "training",
    "warnings",
)


def convert(audit: Audit) -> Audit:
    """Try every route (or the one that `--via` names alone as the shipping one, the rest as evidence)."""
    if audit.candidate_artifact is not None or audit.artifact is None:
        return _given_candidate(audit)
    if audit.artifact.framework == "onnx" or audit.reference is None:
        return _same_file(audit)
    framework = framework_of(audit.reference.role)
    if not framework.routes:
        return _no_route(audit, framework)
    outcomes = {route: _export(audit, route, audit.dynamic) for route in framework.routes}
    audit, outcomes = _with_fixed_batch(audit, outcomes)
    shipping = audit.options.via or next((r for r, o in outcomes.items() if o.status == "ok"), framework.routes[0])
    status = _status(audit, outcomes, shipping)
    # What a route refuses is measured, and a finding says so; only where nobody could tell the probe is missing.
    told = status.value in {"impossible", "refused"}
    for route, outcome in outcomes.items():
        audit = _record(audit, route, outcome, ships=route == shipping, required=route == shipping and not told)
    return audit.add(measurements=(status, _measured(audit, "conversion.route", "model", shipping)))


def _no_route(audit: Audit, framework: Framework) -> Audit:
    reason = framework.lacks("convert")
    row = probe_row("convert", framework.role, "cpu", "unsupported", reason, required=True, target="onnx")
    return audit.add(probes=(row,))


def _measured(audit: Audit, metric: str, subject: str, value: Any, detail: str = "") -> Measurement:
    """A measurement of the worker that exports."""
    assert audit.reference is not None
    probe = framework_of(audit.reference.role).job("export")
    return Measurement(metric, subject, value, probe=probe, side="target", target="onnx", detail=detail)


def _with_fixed_batch(audit: Audit, outcomes: dict[str, Outcome]) -> tuple[Audit, dict[str, Outcome]]:
    """A batch that nobody declared must not make a conversion impossible: where no route takes it, go without."""
    refused = [o for o in outcomes.values() if o.status == "failed" and (o.error or {}).get("details", {}).get("fixed")]
    if not audit.implicit_batch or not refused or any(outcome.status == "ok" for outcome in outcomes.values()):
        return audit, outcomes
    samples = tuple(sample for sample in audit.samples if sample.kind != "size")
    audit = replace(audit, dynamic={}, implicit_batch=False, samples=samples)
    audit = audit.add(measurements=(_measured(audit, "export.batch_fixed", "model", refused[0].reason),))
    return audit, {route: _export(audit, route, {}) for route in outcomes}


def _export(audit: Audit, route: str, dynamic: Mapping[str, Any]) -> Outcome:
    assert audit.pool is not None and audit.reference is not None
    audit.progress(f"converting with {route}")
    path = audit.pool.folder / f"{route}.onnx"
    params = {
        **audit.reference.params,
        "route": route,
        "inputs": wire(audit.pool, export_sample(audit)),
        "dynamic": dynamic,
        "opset": audit.options.opset,
        "path": str(path),
    }
    role = audit.reference.role
    return audit.pool.run(role, framework_of(role).job("export"), params)


def _record(audit: Audit, route: str, outcome: Outcome, *, ships: bool, required: bool) -> Audit:
    assert audit.reference is not None
    result, details = outcome.result or {}, (outcome.error or {}).get("details", {})
    conversion = Conversion(
        target="onnx",
        route=route,
        status=outcome.status,
        ships=ships,
        options=result.get("options", {}),
        cause=outcome.reason,
        remedy=details.get("remedy", ""),
        details={**details, "traceback": (outcome.error or {}).get("traceback", "")}
        if outcome.error
        else _facts_of(result),
        seconds=outcome.seconds,
    )
    audit = audit.add(
        conversions=(conversion,),
        probes=(
            probe_row(
                f"convert.{route}",
                audit.reference.role,
                "cpu",
                outcome,
                required=required,
                target="onnx",
            ),
        ),
        measurements=tuple(_measurements(audit, route, outcome, result if ships else {})),
    )
    if not result:
        return audit
    path = Path(result["path"])
    candidate = Candidate(route, "onnxruntime", {"path": str(path)}, "onnx", ships, path)
    # The graph of a route that does not ship is evidence: its faults are not the user's.
    graph = tuple(read_onnx(path, side="target")) if ships else ()
    return audit.add(candidates=(candidate,), facts=graph)


def _facts_of(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: result[key]
        for key in ("opset", "exporter", "input_names", "output_names", "warnings", *MEASURED)
        if key in result
    }


def _measurements(audit: Audit, route: str, outcome: Outcome, result: Mapping[str, Any]) -> Iterator[Measurement]:
    yield _measured(audit, "export.status", route, outcome.status)
    for key in MEASURED:
        if result.get(key) is not None:
            yield _measured(audit, f"export.{key}", route, _listed(result[key]))


def _listed(value: Any) -> Any:
    """Dimensions as the rule language lists them: `x:0=batch`."""
    if not isinstance(value, Mapping):
        return value
    return [f"{name}:{axis}={label}" for name, axes in value.items() for axis, label in axes.items()]


REFUSED = frozenset({"failed", "unsupported"})
"""Ends of a conversion that say something of the model; a crash, a time-out or a missing worker does not."""


def conversion_status(statuses: Mapping[str, str], shipping: str) -> str:
    """What the routes' statuses mean for the model.

    | value | when |
    | --- | --- |
    | ok, partial | the shipped route works, and so do all others, or not |
    | impossible | no route works, and at least one refused while no other hung or was missing |
    | refused | the shipped route refuses, another one works |
    | unknown | anything else: nobody could tell |
    """
    others = {status for route, status in statuses.items() if route != shipping}
    own = statuses[shipping]
    if own == "ok":
        return "ok" if others <= {"ok"} else "partial"
    if "ok" in others:
        return "refused" if own in REFUSED else "unknown"
    seen = {own, *others}
    return "impossible" if seen <= REFUSED | {"crashed"} and seen & REFUSED else "unknown"


def _status(audit: Audit, outcomes: Mapping[str, Outcome], shipping: str) -> Measurement:
    value = conversion_status({route: outcome.status for route, outcome in outcomes.items()}, shipping)
    detail = "; ".join(f"{route}: {o.reason or o.status}" for route, o in outcomes.items() if o.status != "ok")
    return _measured(audit, "conversion.status", "model", value, detail)


def _given_candidate(audit: Audit) -> Audit:
    """`compare` brings its own candidate."""
    artifact = audit.candidate_artifact
    if artifact is None:
        return audit
    side = side_of(artifact, audit.options)
    role = side.role if side.role == "onnxruntime" else f"{side.role}:target"
    candidate = Candidate("candidate", role, side.params, artifact.framework, True, artifact.path)
    return audit.add(candidates=(candidate,))


def _same_file(audit: Audit) -> Audit:
    """An ONNX file audited for ONNX Runtime: the file itself is the candidate, the NumPy evaluator its reference."""
    if audit.artifact is None or audit.artifact.framework != "onnx" or audit.artifact.path is None:
        return audit
    path = audit.artifact.path.resolve()
    return audit.add(candidates=(Candidate("file", "onnxruntime", {"path": str(path)}, "onnx", True, path),))
