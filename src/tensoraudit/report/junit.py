"""The report as JUnit XML, for test dashboards. Only what was shown to be right is a plain pass.

1. A finding that reaches `--fail-on` is a failure. One below it, a porting note and a suppressed one are skipped tests
   with their words. A refuted one is a pass: it was tested.
2. A compared tensor passes when it is identical, equivalent or noise; it fails with a drift or a break that reaches
   `--fail-on`, and is skipped with the reason otherwise, and when it could not be judged.
3. A required probe that did not run is an error, any other a skipped test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tensoraudit.findings.finding import Finding, State
from tensoraudit.findings.result import Equivalence, Probe, Result, Suppressed
from tensoraudit.findings.severity import RANKS, counted, order_key
from tensoraudit.report import summary
from tensoraudit.report.clean import for_xml
from tensoraudit.report.style import DEFAULT, Style

COUNTS_AS: Final = {"drift": "high", "break": "critical"}
"""What a verdict counts for, as the grade has it."""

PASSES: Final = frozenset({"identical", "equivalent", "noise"})


def render(result: Result, style: Style = DEFAULT) -> str:
    """Return the report as XML text, complete whatever the style."""
    root = Element("testsuites", name="tensoraudit")
    suites = {
        "findings": [*_findings(result), *_suppressed(result)],
        "equivalence": [_tensor(row, result) for row in result.equivalence],
        "probes": [_probe(probe) for probe in result.probes],
    }
    for name, cases in suites.items():
        if cases:
            root.append(_suite(name, cases))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(name: str, cases: list[Element]) -> Element:
    counts = {key: sum(case.find(tag) is not None for case in cases) for key, tag in _TAGS.items()}
    suite = Element("testsuite", name=f"tensoraudit.{name}", tests=str(len(cases)))
    for key, count in counts.items():
        suite.set(key, str(count))
    suite.extend(cases)
    return suite


_TAGS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def _case(group: str, name: str, outcome: str = "", message: str = "", detail: str = "", *, kind: str = "") -> Element:
    case = Element("testcase", classname=for_xml(group), name=for_xml(name), time="0")
    if outcome:
        element = SubElement(case, outcome, message=for_xml(message))
        element.text = for_xml(detail) or None
        if kind:
            element.set("type", for_xml(kind))
    elif detail:
        SubElement(case, "system-out").text = for_xml(detail)
    return case


def _reaches(severity: str, fail_on: str) -> bool:
    return fail_on != "never" and RANKS[severity] >= RANKS[fail_on]


def _findings(result: Result) -> Iterator[Element]:
    for finding in sorted(result.findings, key=order_key):
        yield _case(_group(finding), _name(finding), *_outcome(finding, result.fail_on), _detail(finding))


def _outcome(finding: Finding, fail_on: str) -> tuple[str, str]:
    if finding.state is State.REFUTED:
        return "", ""
    if finding.state is State.ADVICE:
        return "skipped", f"porting note: {finding.message}"
    if _reaches(counted(finding), fail_on):
        return "failure", finding.message
    return "skipped", f"below --fail-on {fail_on}: {finding.message}"


def _group(finding: Finding) -> str:
    return f"findings.{finding.target or 'all'}.{finding.rule}"


def _name(finding: Finding) -> str:
    return f"{finding.title} [{summary.place(finding.where) or finding.fingerprint}]"


def _detail(finding: Finding) -> str:
    parts = [
        f"{finding.severity.value}, {finding.state.value}",
        summary.place(finding.where),
        finding.message,
        finding.reason,
        *(f"measured: {summary.evidence(row)}" for row in finding.evidence),
        finding.why,
        finding.remedy,
        finding.fix,
    ]
    return "\n".join(part.strip() for part in parts if part)


def _suppressed(result: Result) -> Iterator[Element]:
    for each in sorted(result.suppressed, key=lambda silenced: order_key(silenced.finding)):
        yield _suppressed_case(each)


def _suppressed_case(each: Suppressed) -> Element:
    message = f"suppressed by {each.by}: {each.reason}"
    return _case(_group(each.finding), _name(each.finding), "skipped", message, _detail(each.finding))


def _tensor(row: Equivalence, result: Result) -> Element:
    group, name = f"equivalence.{row.candidate}", f"{row.what} {row.tensor} [{row.inputs}]"
    numbers = f"difference {summary.number(row.linf)}, error ratio {summary.number(row.error_ratio)}"
    text = f"{row.verdict}: {row.reason or numbers}"
    detail = "\n".join([f"against {row.reference}: {row.verdict}, {numbers}", row.reason, *row.notes]).strip()
    if row.first_divergence:
        detail += f"\nfirst divergence: {summary.divergence(row.first_divergence)}"
    if row.verdict in PASSES:
        return _case(group, name, detail=detail)
    if row.verdict in COUNTS_AS and _reaches(COUNTS_AS[row.verdict], result.fail_on):
        return _case(group, name, "failure", text, detail)
    return _case(group, name, "skipped", text, detail)


def _probe(probe: Probe) -> Element:
    name = f"{probe.name} [{probe.device}]"
    text = summary.probe_status(probe)
    if probe.status == "ok":
        case = _case("probes", name)
    elif probe.required:
        case = _case("probes", name, "error", text, kind=probe.status)
    else:
        case = _case("probes", name, "skipped", text)
    case.set("time", f"{probe.seconds:.3f}")
    return case
