"""Convert the reference to every target, and say what became of each route."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensoraudit.audit.execute import usable_samples
from tensoraudit.audit.frameworks import FRAMEWORKS, framework_of
from tensoraudit.audit.layouts import taken_names
from tensoraudit.audit.migration import TOOLS, Route, routes
from tensoraudit.audit.prepare import side_of
from tensoraudit.audit.roles import two_interpreters
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.audit.travel import Journey, Known, Stop, travel
from tensoraudit.audit.upgrade import upgrade
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
    "dtype_changes",
    "dropped_outputs",
)
"""What the tools of a route say of their result, and what is measured of the one that ships as `export.*`."""


def convert(audit: Audit) -> Audit:
    """Convert to every target, or take the given candidate.

    A reference that refuses every input set is not converted: no converter could trace it, and that says nothing of
    the model.
    """
    if audit.candidate_artifact is not None or audit.artifact is None:
        return _given_candidate(audit)
    known: Known = {}
    refused = bool(audit.reference_runs) and not usable_samples(audit)
    for target in audit.options.target if audit.reference is not None and not refused else ():
        audit = _convert_to(audit, target, known)
    return audit


def _convert_to(audit: Audit, target: str, known: Known) -> Audit:
    assert audit.artifact is not None
    if target == audit.artifact.framework:
        same = target == "onnx" and not two_interpreters(audit.options)
        return _same_file(audit) if same else upgrade(audit, target)
    found = routes(audit.artifact, target)
    return _by_routes(audit, target, found, known) if found else _no_route(audit, target)


def _by_routes(audit: Audit, target: str, found: Sequence[Route], known: Known) -> Audit:
    """Try the routes (the one that `--via` names ships, if it leads there), and say what the ends mean.

    Where no route takes sizes that vary, they go without: that the model serves one size only is then a finding, a mild
    one where nobody had declared them.
    """
    journeys = _journeys(audit, target, found, known)
    fixed = _refused_sizes(journeys.values())
    if fixed is not None:
        journeys = _journeys(_without_sizes(audit), target, found, known)
        metric = "export.batch_fixed" if audit.implicit_batch else "export.dynamic_refused"
        audit = audit.add(measurements=(_measured(audit, target, metric, fixed.reason),))
    shipping = _shipping(audit, journeys)
    outcomes = {route: journey.outcome for route, journey in journeys.items()}
    status = _status(audit, target, outcomes, shipping)
    # What a route refuses is measured, and a finding says so; only where nobody could tell the probe is missing.
    told = status.value in {"impossible", "refused"}
    for route, journey in journeys.items():
        ships = route == shipping
        audit = _record(audit, target, journey, ships=ships, required=ships and not told)
        if journey.end is not None:
            audit = _arrived(audit, target, journey, journey.end, ships=ships, fixed=fixed is not None)
    return audit.add(measurements=(status, _measured(audit, target, "conversion.route", shipping)))


def _shipping(audit: Audit, journeys: Mapping[str, Journey]) -> str:
    """The route that decides: what `--via` names, else the first that works, else the first for such a model."""
    if audit.options.via in journeys:
        return str(audit.options.via)
    ends = {name: journey.outcome.status for name, journey in journeys.items()}
    meant = next((name for name, end in ends.items() if end != "unsupported"), next(iter(ends)))
    return next((name for name, end in ends.items() if end == "ok"), meant)


def _journeys(audit: Audit, target: str, found: Sequence[Route], known: Known) -> dict[str, Journey]:
    """Every route to ONNX, where a second exporter is evidence; to a framework the best one that arrives."""
    via = [route for route in found if route.name == audit.options.via]
    journeys: dict[str, Journey] = {}
    for route in found if target == "onnx" else via or found:
        journeys[route.name] = travel(audit, route, known)
        if target != "onnx" and journeys[route.name].outcome.status == "ok":
            break
    return journeys


def _no_route(audit: Audit, target: str) -> Audit:
    assert audit.reference is not None
    framework = framework_of(audit.reference.role)
    reason = f"no converter leads from {framework.title} to {target}"
    row = probe_row("convert", framework.role, "cpu", "unsupported", reason, required=True, target=target)
    return audit.add(probes=(row,))


def _measured(
    audit: Audit, target: str, metric: str, value: Any, *, subject: str = "model", detail: str = ""
) -> Measurement:
    """A measurement of the worker that converts."""
    assert audit.reference is not None
    probe = framework_of(audit.reference.role).job("export")
    return Measurement(metric, subject, value, probe=probe, side="target", target=target, detail=detail)


def _refused_sizes(journeys: Iterable[Journey]) -> Outcome | None:
    """The end of a route that refused sizes that vary; None where a route takes them, or failed for another reason."""
    ends = [journey.outcome for journey in journeys]
    if any(end.status == "ok" for end in ends):
        return None
    refused = (end for end in ends if end.status == "failed" and (end.error or {}).get("details", {}).get("fixed"))
    return next(refused, None)


def _without_sizes(audit: Audit) -> Audit:
    """The audit as a conversion sees it that keeps the sizes of the sample; other targets keep theirs."""
    return replace(audit, dynamic={}, samples=tuple(each for each in audit.samples if each.kind != "size"))


def _record(audit: Audit, target: str, journey: Journey, *, ships: bool, required: bool) -> Audit:
    outcome, route = journey.outcome, journey.route.name
    details = (outcome.error or {}).get("details", {})
    conversion = Conversion(
        target=target,
        route=route,
        status=outcome.status,
        ships=ships,
        options=journey.options if outcome.status == "ok" else {},
        cause=journey.reason,
        remedy=details.get("remedy", ""),
        details={**details, "traceback": (outcome.error or {}).get("traceback", "")}
        if outcome.error
        else journey.facts(("opset", "exporter", "input_names", "output_names", *MEASURED)),
        seconds=journey.seconds,
    )
    worker = framework_of(FRAMEWORKS[TOOLS[journey.hop].framework].role).role
    row = probe_row(f"convert.{route}", worker, "cpu", outcome, journey.reason, required=required, target=target)
    return audit.add(
        conversions=(conversion,),
        probes=(replace(row, seconds=journey.seconds),),
        measurements=tuple(_measurements(audit, target, journey, ships=ships)),
        notes=tuple(_altered(audit, target, journey)) if ships else (),
    )


def _altered(audit: Audit, target: str, journey: Journey) -> Iterator[str]:
    """A note for what the converters have changed: of an input, no comparison of outputs would show it."""
    facts = journey.facts(("dtype_changes", "dropped_outputs"))
    dtypes = [f"{name} from {old} to {new}" for name, (old, new) in facts.get("dtype_changes", {}).items()]
    changes = {
        "changes the dtype of {}": dtypes,
        "drops {}": facts.get("dropped_outputs", ()),
        "makes {} part of the model, with the value of the sample": _frozen(audit, journey),
    }
    said = [words.format(", ".join(names)) for words, names in changes.items() if names]
    if said:
        yield f"on the way to {target} {journey.route.name} {' and '.join(said)}"


def _frozen(audit: Audit, journey: Journey) -> list[str]:
    """The numbers, strings and None of the sample that are no inputs of the converted model."""
    if journey.end is None:
        return []
    given = audit.samples[0].arrays
    kept = taken_names(given, journey.end.inputs)
    return [name for name in given if name not in kept]


def _arrived(audit: Audit, target: str, journey: Journey, end: Stop, *, ships: bool, fixed: bool) -> Audit:
    """The converted model as a candidate."""
    path = Path(end.params["path"]) if "path" in end.params else None
    role = FRAMEWORKS[target].role  # type: ignore[index]
    name = journey.route.name
    candidate = Candidate(
        name, role, end.params, target, ships, path, end.inputs, end.outputs, end.layouts, fixed=fixed
    )
    # The graph of a route that does not ship is evidence: its faults are not the user's.
    graph = tuple(read_onnx(path, side="target")) if ships and path is not None and target == "onnx" else ()
    return audit.add(candidates=(candidate,), facts=graph)


def _measurements(audit: Audit, target: str, journey: Journey, *, ships: bool) -> Iterator[Measurement]:
    route = journey.route.name
    yield _measured(audit, target, "export.status", journey.outcome.status, subject=route)
    arrived = ships and journey.outcome.status == "ok"
    for key, value in journey.facts(MEASURED).items() if arrived else ():
        if value is not None:
            yield _measured(audit, target, f"export.{key}", _listed(value), subject=route)


def _listed(value: Any) -> Any:
    """As the rule language lists them: dimensions `x:0=batch`, dtypes `x: int64 -> int32`."""
    if not isinstance(value, Mapping):
        return value
    return [text for name, each in value.items() for text in _lines(name, each)]


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{name}:{axis}={label}" for axis, label in value.items())
    else:
        yield f"{name}: {' -> '.join(value)}"


REFUSED = frozenset({"failed", "unsupported"})
"""Ends of a conversion that say something of the model; a crash, a time-out or a missing worker does not."""


def conversion_status(statuses: Mapping[str, str], shipping: str) -> str:
    """What the routes' statuses mean for the model.

    | value | when |
    | --- | --- |
    | ok, partial | the shipped route works, and so do all others that are for such a model, or not |
    | impossible | no route works, and at least one refused while no other hung or was missing |
    | refused | the shipped route refuses, another one works |
    | unknown | anything else: nobody could tell |
    """
    others = {status for route, status in statuses.items() if route != shipping}
    own = statuses[shipping]
    if own == "ok":
        return "ok" if others <= {"ok", "unsupported"} else "partial"
    if "ok" in others:
        return "refused" if own in REFUSED else "unknown"
    seen = {own, *others}
    return "impossible" if seen <= REFUSED | {"crashed"} and seen & REFUSED else "unknown"


def _status(audit: Audit, target: str, outcomes: Mapping[str, Outcome], shipping: str) -> Measurement:
    value = conversion_status({route: outcome.status for route, outcome in outcomes.items()}, shipping)
    detail = "; ".join(f"{route}: {o.reason or o.status}" for route, o in outcomes.items() if o.status != "ok")
    return _measured(audit, target, "conversion.status", value, detail=detail)


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
