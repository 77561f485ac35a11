"""Convert the reference by every route to a target, and say what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensoraudit.audit.prepare import export_sample, side_of
from tensoraudit.audit.probing import probe_row, wire
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.facts import Measurement
from tensoraudit.findings.result import Conversion
from tensoraudit.options import ROUTES
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
    if audit.artifact.framework != "pytorch" or audit.reference is None:
        return _same_file(audit)
    outcomes = {route: _export(audit, route, audit.dynamic) for route in ROUTES}
    audit, outcomes = _with_fixed_batch(audit, outcomes)
    shipping = audit.options.via or next((r for r, o in outcomes.items() if o.status == "ok"), ROUTES[0])
    status = _status(outcomes, shipping)
    # What a route refuses is measured, and a finding says so; only where nobody could tell the probe is missing.
    told = status.value in {"impossible", "refused"}
    for route, outcome in outcomes.items():
        audit = _record(audit, route, outcome, ships=route == shipping, required=route == shipping and not told)
    ships = Measurement("conversion.route", "model", shipping, probe="pytorch.export", side="target", target="onnx")
    return audit.add(measurements=(status, ships))


def _with_fixed_batch(audit: Audit, outcomes: dict[str, Outcome]) -> tuple[Audit, dict[str, Outcome]]:
    """A batch that nobody declared must not make a conversion impossible: where no route takes it, go without."""
    refused = [o for o in outcomes.values() if o.status == "failed" and (o.error or {}).get("details", {}).get("fixed")]
    if not audit.implicit_batch or not refused or any(outcome.status == "ok" for outcome in outcomes.values()):
        return audit, outcomes
    samples = tuple(sample for sample in audit.samples if sample.kind != "size")
    audit = replace(audit, dynamic={}, implicit_batch=False, samples=samples)
    measured = Measurement(
        "export.batch_fixed", "model", refused[0].reason, probe="pytorch.export", side="target", target="onnx"
    )
    audit = audit.add(measurements=(measured,))
    return audit, {route: _export(audit, route, {}) for route in ROUTES}


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
    return audit.pool.run("pytorch", "pytorch.export", params)


def _record(audit: Audit, route: str, outcome: Outcome, *, ships: bool, required: bool) -> Audit:
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
                "pytorch",
                "cpu",
                outcome,
                required=required,
                target="onnx",
            ),
        ),
        measurements=tuple(_measurements(route, outcome, result if ships else {})),
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


def _measurements(route: str, outcome: Outcome, result: Mapping[str, Any]) -> Iterator[Measurement]:
    def row(metric: str, value: Any) -> Measurement:
        return Measurement(metric, route, value, probe="pytorch.export", side="target", target="onnx")

    yield row("export.status", outcome.status)
    for key in MEASURED:
        if result.get(key) is not None:
            yield row(f"export.{key}", _listed(result[key]))


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


def _status(outcomes: Mapping[str, Outcome], shipping: str) -> Measurement:
    value = conversion_status({route: outcome.status for route, outcome in outcomes.items()}, shipping)
    detail = "; ".join(f"{route}: {o.reason or o.status}" for route, o in outcomes.items() if o.status != "ok")
    return Measurement(
        "conversion.status", "model", value, probe="pytorch.export", side="target", target="onnx", detail=detail
    )


def _given_candidate(audit: Audit) -> Audit:
    """`compare` brings its own candidate."""
    artifact = audit.candidate_artifact
    if artifact is None:
        return audit
    side = side_of(artifact, audit.options)
    role = "pytorch:target" if side.role == "pytorch" else side.role
    candidate = Candidate("candidate", role, side.params, artifact.framework, True, artifact.path)
    return audit.add(candidates=(candidate,))


def _same_file(audit: Audit) -> Audit:
    """An ONNX file audited for ONNX Runtime: the file itself is the candidate, the NumPy evaluator its reference."""
    if audit.artifact is None or audit.artifact.framework != "onnx" or audit.artifact.path is None:
        return audit
    path = audit.artifact.path.resolve()
    return audit.add(candidates=(Candidate("file", "onnxruntime", {"path": str(path)}, "onnx", True, path),))
