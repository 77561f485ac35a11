"""What was found of a port's layers, as measurements with a sentence each, and as notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.localise_found import shown_line
from tensoraudit.audit.parameter_sides import ModelSides
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.equivalence.diagnosis import Diagnosis
from tensoraudit.equivalence.layer import ROUNDING, Layer
from tensoraudit.equivalence.parameter import Pair
from tensoraudit.equivalence.steps import describe
from tensoraudit.facts import Measurement, Site

SETTINGS = ("epsilon", "reset_after", "negative_slope", "align_corners", "approximate", "groups")
"""Settings that both sides call the same and that matter when nothing is trained; a momentum does not."""

RELATED = 0.2
"""Two weights that no name brought together are of one layer if they differ by no more than this."""

NO_MODULES = "the layers of an ONNX file or of a bare function have no settings to test; weights alone were compared"


def measurements(
    audit: Audit, candidate: Candidate, sides: ModelSides, found: Sequence[Diagnosis]
) -> Iterator[Measurement]:
    """Causes, what nothing explains, and suspicions where a layer was not tested."""
    tested = {each.reference.path for each in found if each.explanation.state != "unknown"}
    for each in found:
        state = each.explanation.state
        if state == "explained":
            yield _measured(candidate, each, "port.cause", each.explanation.cause, _sentence(audit, sides, each))
        elif state == "unexplained" and each is first_wrong(found):
            detail = f"{_called(audit, each.candidate)} differs: {each.explanation.reason}"
            yield _measured(candidate, each, "port.cause", "unexplained", detail)
        elif state == "unknown" and (detail := _setting(each)):
            yield _measured(candidate, each, "port.suspected", "setting-differs", detail)
    yield from _suspected_weights(candidate, sides, tested)


def first_wrong(found: Sequence[Diagnosis]) -> Diagnosis | None:
    """The first layer that differs."""
    return next((each for each in found if each.explanation.state in {"explained", "unexplained"}), None)


def _measured(candidate: Candidate, found: Diagnosis, metric: str, value: str, detail: str) -> Measurement:
    path, _, line = found.candidate.source.rpartition(":")
    return Measurement(
        metric,
        found.reference.path or "model",
        value,
        probe=framework_of(candidate.framework).job("parameters"),
        side="target",
        target=candidate.target,
        at=Site(path=path, line=int(line)) if path and line.isdigit() else Site(),
        detail=detail,
    )


def _called(audit: Audit, layer: Layer) -> str:
    """A layer of the candidate with the line that calls it."""
    line = line_of(audit, layer)
    return f"the candidate's {layer.title}{f' at {line}' if line else ''}"


def line_of(audit: Audit, layer: Layer) -> str:
    """The line that calls a layer, relative to the project's root; "" where none is known."""
    path, _, line = layer.source.rpartition(":")
    return shown_line(audit, path, int(line)) if path and line.isdigit() else ""


def _sentence(audit: Audit, sides: ModelSides, found: Diagnosis) -> str:
    known = found.explanation
    weights = "; ".join(_weights(sides, found.reference.path)) if known.cause == "weight-difference" else ""
    proof = f"changed so, the reference's layer gives its numbers to {known.left:.1g}; as it is, to {known.gap:.1g}"
    does = f"computes with other weights ({weights})" if weights else known.does
    return f"{_called(audit, found.candidate)} {does}. To mend it, {known.fix} ({proof})"


def _weights(sides: ModelSides, path: str) -> Iterator[str]:
    """The parameters of a layer that differ, and by how much or in which layout."""
    owners = {each.name: each.module for each in sides.reference.parameters}
    for pair in sides.pairs.pairs:
        if _differs(pair) and owners[pair.terms[0].reference] == path:
            yield _weight(pair)


def _differs(pair: Pair) -> bool:
    """Whether a weight has other values than the reference's, or the same ones in a layout that its layer does not
    expect, such as a kernel that was reshaped instead of transposed."""
    return not pair.equal or pair.expected is not None


def _weight(pair: Pair) -> str:
    if pair.equal and pair.expected is not None:
        ways = (describe(each) for each in (pair.steps, pair.expected))
        return "{} has the values of {} {}, and its layer expects them {}".format(
            pair.candidate, pair.terms[0].reference, *(way if way.startswith("as") else f"after {way}" for way in ways)
        )
    return f"{pair.candidate} is {100 * pair.difference:.3g} % away from {pair.terms[0].reference}"


def _setting(found: Diagnosis) -> str:
    ours, theirs = found.reference.config, found.candidate.config
    differing = [
        f"{name} {theirs[name]} for {ours[name]}"
        for name in SETTINGS
        if name in ours and name in theirs and ours[name] != theirs[name]
    ]
    return f"{found.candidate.title} has {', '.join(differing)}" if differing else ""


def _suspected_weights(candidate: Candidate, sides: ModelSides, tested: set[str]) -> Iterator[Measurement]:
    """Weights that differ in layers that were not tested, but for those that a normalisation was merged into."""
    owners = {each.name: each.module for each in sides.reference.parameters}
    folded = {owners[pair.terms[0].reference] for pair in sides.pairs.pairs if pair.folded}
    for pair in sides.pairs.pairs:
        path = owners[pair.terms[0].reference]
        guessed = pair.how in {"order", "value"} and pair.difference > RELATED
        if not _differs(pair) or guessed or path in tested | folded:
            continue
        yield Measurement(
            "port.suspected",
            path or "model",
            "weight-difference",
            probe=framework_of(candidate.framework).job("parameters"),
            side="target",
            target=candidate.target,
            detail=f"{_weight(pair)} (paired by {pair.how})",
        )


def notes(sides: ModelSides, found: Sequence[Diagnosis]) -> Iterator[str]:
    """What was not looked at, and why."""
    if not sides.reference.modules or not sides.candidate.modules:
        yield NO_MODULES
    ours, theirs = ({each.dtype for each in side.parameters} for side in (sides.reference, sides.candidate))
    if coarse := (theirs & ROUNDING.keys()) - ours:
        yield f"the candidate holds weights in {', '.join(sorted(coarse))}: no cause is looked for in what these round"
    if found and first_wrong(found) is None:
        yield (
            "no layer of the port differs when it is given its own input: the cause lies between layers that have "
            "weights, or in one that could not be tested"
        )
    unknown = [each for each in found if each.explanation.state == "unknown"]
    if unknown:
        first = unknown[0]
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        yield f"layers that could not be tested: {first.reference.title} ({first.explanation.reason}){more}"
    for side, names in (("reference", sides.pairs.missing), ("candidate", sides.pairs.extra)):
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            yield f"parameters of the {side} without a partner: {shown}"
