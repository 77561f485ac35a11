"""What every report for people says in the same words: the verdict, what was compared, numbers, places. Plain text.

A probe that did not run never reads as a pass: the sentences say "cannot tell" and why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.finding import Finding, Layer, State
from tensoraudit.findings.grade import missing_probes
from tensoraudit.findings.result import Conversion, Equivalence, FirstDivergence, Probe, Result
from tensoraudit.findings.severity import is_open, order_key

SEVERITIES: Final = ("critical", "high", "medium", "low")
VERDICTS: Final = ("identical", "equivalent", "noise", "unverified", "drift", "break")
"""From harmless to bad; what could not be judged stands before what was judged bad."""

LAYERS: Final = tuple(layer.value for layer in Layer)

EXIT_CODES: Final = {
    0: "every required probe ran and nothing reaches --fail-on {fail_on}",
    1: "findings at or above --fail-on {fail_on}",
    3: "cannot tell: a required probe did not run",
}

_OPENINGS: Final = {
    "A": "Ready to move to {target}: nothing was found.",
    "B": "Ready to move to {target}, with small remarks: {counts}.",
    "C": "Move to {target} with care: {counts}.",
    "D": "Not ready to move to {target}: {counts}.",
    "F": "Do not ship to {target}: {counts}.",
}


@dataclass(frozen=True, slots=True)
class Group:
    """All compared tensors of one candidate against one reference, of one kind (`output`...)."""

    reference: str
    candidate: str
    what: str
    rows: tuple[Equivalence, ...]

    @property
    def worst(self) -> str:
        """The worst verdict."""
        return max((row.verdict for row in self.rows), key=VERDICTS.index)

    @property
    def tensors(self) -> int:
        """How many different tensors were compared."""
        return len({row.tensor for row in self.rows})

    @property
    def inputs(self) -> int:
        """How many input sets were used."""
        return len({row.inputs for row in self.rows})

    @property
    def extent(self) -> str:
        """How much was compared: `2 outputs on 9 input sets`."""
        sets = f"{self.inputs} input {plural(self.inputs, 'set')}"
        return f"{self.tensors} {plural(self.tensors, self.what)} on {sets}"

    @property
    def linf(self) -> float | None:
        """The largest L-infinity difference; None when none was measured."""
        return largest(row.linf for row in self.rows)

    @property
    def error_ratio(self) -> float | None:
        """The largest error as a multiple of the noise floor; None when none was measured."""
        return largest(row.error_ratio for row in self.rows)

    @property
    def counts(self) -> str:
        """How often each verdict was given, worst first: `1 break, 3 noise`."""
        counted = Counter(row.verdict for row in self.rows)
        return ", ".join(f"{counted[verdict]} {verdict}" for verdict in reversed(VERDICTS) if counted[verdict])

    @property
    def first_divergence(self) -> FirstDivergence | None:
        """Where the first operation diverges, if that was found."""
        return next((row.first_divergence for row in self.rows if row.first_divergence), None)


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest value that was measured; NaN counts as the largest."""
    measured = [value for value in values if value is not None]
    return max(measured, key=lambda value: math.inf if math.isnan(value) else value, default=None)


def verdict(result: Result, target: str) -> str:
    """Return the one sentence that answers for a target."""
    letter = result.grade[target]
    counts = count_findings(concerning(result.findings, target))
    missing = missing_probes(result.probes, target)
    if not result.probes and not result.equivalence:
        return f"Nothing was run: rules over files alone found {counts or 'nothing'}."
    opening = _OPENINGS[letter[0]].format(target=target, counts=counts)
    if letter == "A" and counts:
        opening = f"Ready to move to {target}: {counts}, too mild to count."
    if not letter.endswith("?"):
        return opening
    if letter[0] in "DF":
        return f"{opening} Besides, {_missing(missing)}."
    found = f" So far: {counts}." if counts else ""
    return f"Cannot tell whether this is ready for {target}: {_missing(missing)}.{found}"


def _missing(probes: list[Probe]) -> str:
    if not probes:
        return "a required probe did not run"
    first = f"{probes[0].name} {probe_status(probes[0])}"
    more = len(probes) - 1
    return f"the required probe {first}" + (f", and {more} more did not run" if more else "")


def probe_status(probe: Probe) -> str:
    """Return the status of a probe with its reason."""
    return f"{probe.status} ({probe.reason})" if probe.reason else probe.status


def count_findings(findings: Iterable[Finding]) -> str:
    """Return the open findings by severity: `1 critical and 2 high findings (1 not proven)`; "" for none."""
    opened = [each for each in findings if is_open(each)]
    counted = Counter(each.severity.value for each in opened)
    parts = [f"{counted[severity]} {severity}" for severity in SEVERITIES if counted[severity]]
    if not parts:
        return ""
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    unproven = sum(each.state in {State.SUSPECTED, State.UNVERIFIED} for each in opened)
    return f"{listed} {plural(len(opened), 'finding')}" + (f" ({unproven} not proven)" if unproven else "")


def plural(count: int, noun: str) -> str:
    """Return the noun alone, in the plural unless there is one."""
    return noun if count == 1 else f"{noun}s"


def concerning(findings: Iterable[Finding], target: str) -> list[Finding]:
    """Return the findings of a target, sorted worst first; those without a target concern all."""
    return sorted((each for each in findings if each.target in {"", target}), key=order_key)


def groups(result: Result, target: str) -> list[Group]:
    """Return what was compared for a target, in the order of the result."""
    found: dict[tuple[str, str, str], list[Equivalence]] = {}
    for row in result.equivalence:
        if row.target in {"", target}:
            found.setdefault((row.reference, row.candidate, row.what), []).append(row)
    return [Group(*key, tuple(rows)) for key, rows in found.items()]


def compared(result: Result, target: str) -> Iterator[str]:
    """Yield a short sentence for each thing that was compared, with its numbers."""
    found = groups(result, target)
    if not found:
        yield "No output was compared, so nothing is known of its numbers."
    for group in found:
        numbers = f"largest difference {number(group.linf)}, largest error ratio {number(group.error_ratio)}"
        yield f"{group.candidate} against {group.reference}: {group.extent}: {group.counts}; {numbers}."


def number(value: float | None) -> str:
    """Return a number in a form to read: two significant digits, or `not measured`."""
    return "not measured" if value is None else f"{value:.2g}"


def place(where: Site) -> str:
    """Return a place as `path:line` or `path:cell 3:line`, then node, tensor or variable; "" for nowhere."""
    parts = []
    if where.path is not None:
        cell = None if where.cell is None else f"cell {where.cell}"
        parts.append(":".join(str(part) for part in (where.path, cell, where.line) if part is not None))
    parts += [f"{kind} {name}" for kind in ("node", "tensor", "variable") if (name := getattr(where, kind))]
    return ", ".join(parts)


def evidence(row: Measurement, told: str = "", longest: int | None = None) -> str:
    """Return one measurement as `metric of subject: value unit (detail)`.

    The detail is left out when the reader was `told` it already, and cut to the `longest` number of characters.
    """
    value = number(row.value) if isinstance(row.value, float) else str(row.value)
    text = f"{row.metric} of {row.subject}: {value}{f' {row.unit}' if row.unit else ''}"
    if not row.detail or row.detail in told:
        return text
    detail = row.detail if longest is None or len(row.detail) <= longest else f"{row.detail[:longest].rstrip()} ..."
    return f"{text} ({detail})"


def divergence_of(finding: Finding, result: Result) -> FirstDivergence | None:
    """Return where a measured finding's output first diverges, if that was found."""
    if finding.where.tensor is None:
        return None
    rows = (row for row in result.equivalence if row.tensor == finding.where.tensor and row.target == finding.target)
    return next((row.first_divergence for row in rows if row.first_divergence), None)


def divergence(first: FirstDivergence) -> str:
    """Return the first divergence as a sentence."""
    at = f" at {first.source_line}" if first.source_line else ""
    at += f" (candidate at {first.candidate_line})" if first.candidate_line else ""
    errors = f"local error {number(first.local_error)}, cumulative {number(first.cumulative_error)}"
    kept = f"; reproducer in {first.reproducer}" if first.reproducer else ""
    return f"{first.reference_node} becomes {first.candidate_node}{at}: {errors}{kept}"


def conversion_cause(row: Conversion) -> str:
    """Return why a conversion failed, with the user's source line where it is known; "" when it did not fail."""
    source = row.details.get("source")
    at = f" ({source['path']}:{source['line']})" if isinstance(source, dict) and source.get("path") else ""
    return f"{row.cause}{at}" if row.cause else ""


def not_run(result: Result) -> list[Probe]:
    """Return the probes that did not run, required ones first."""
    return sorted((each for each in result.probes if each.status != "ok"), key=lambda each: not each.required)


def exit_sentence(result: Result) -> str:
    """Return what the exit code means."""
    meaning = EXIT_CODES.get(result.exit_code, "")
    return f"Exit code {result.exit_code}: {meaning.format(fail_on=result.fail_on)}."


def artifact_name(result: Result) -> str:
    """Return what the user handed over, with the candidate if there are two."""
    name = str(result.artifact.get("spec") or result.artifact.get("path") or "artifact")
    candidate = result.artifact.get("candidate")
    return f"{name} against {candidate['spec']}" if isinstance(candidate, dict) and "spec" in candidate else name
