"""The report as SARIF 2.1.0, for code scanning services.

1. Levels follow what a finding counts for: critical and high are errors, medium a warning, low a note.
2. A refuted finding is a result of kind `pass`, a porting note `informational`; both have level `none`.
3. A probe that did not run is a notification; while a required one did not, the execution was not successful.
4. Suppressed findings are results with a suppression; what a baseline knows has baselineState `unchanged`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath, PureWindowsPath
from typing import Any, Final
from urllib.parse import quote

from tensoraudit.facts import Site
from tensoraudit.findings.finding import Finding, State
from tensoraudit.findings.grade import missing_probes
from tensoraudit.findings.result import Conversion, Probe, Result, Suppressed
from tensoraudit.findings.severity import counted, order_key
from tensoraudit.report import summary
from tensoraudit.report.clean import clean
from tensoraudit.report.json import finding_data
from tensoraudit.report.plain import plain
from tensoraudit.report.style import DEFAULT, Style

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "none": "none"}
KINDS: Final = {State.REFUTED: "pass", State.ADVICE: "informational"}
ROOT: Final = "%SRCROOT%"
FINGERPRINT: Final = "tensoraudit/v1"


def render(result: Result, style: Style = DEFAULT) -> str:
    """Return the report as SARIF text, complete whatever the style."""
    return json.dumps(log(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def log(result: Result) -> dict[str, Any]:
    """Return the report as a SARIF log."""
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result)]}


def _run(result: Result) -> dict[str, Any]:
    findings = sorted(result.findings, key=order_key)
    silenced = sorted(result.suppressed, key=lambda each: order_key(each.finding))
    rules = _rules([*findings, *(each.finding for each in silenced)])
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    gated = any(each.by == "baseline" for each in silenced)
    results = [_result(each, result, index, gated=gated) for each in findings]
    results += [_suppressed(each, result, index, gated=gated) for each in silenced]
    return {
        "tool": {"driver": {"name": "tensoraudit", "version": _version(result), "rules": rules}},
        "invocations": [_invocation(result)],
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {
            "artifact": plain(result.artifact),
            "grade": dict(result.grade),
            "layers": plain(result.layers),
            "verdict": [clean(summary.verdict(result, target)) for target in result.targets],
        },
    }


def _version(result: Result) -> str:
    return str(result.tool.get("version") or "0")


def _rules(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """One descriptor per rule, by id; the first finding of a rule has its words."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.rule, finding)
    return [_rule(first[rule]) for rule in sorted(first)]


def _rule(finding: Finding) -> dict[str, Any]:
    help_text = "\n\n".join(clean(part).strip() for part in (finding.why, finding.remedy, finding.fix) if part)
    links = [reference for reference in finding.references if reference.startswith(("https://", "http://"))]
    rule = {
        "id": finding.rule,
        "shortDescription": {"text": clean(finding.title)},
        "fullDescription": {"text": clean(finding.why or finding.title)},
        "help": {"text": help_text or clean(finding.title)},
        "defaultConfiguration": {"level": LEVELS[finding.severity.value]},
        "properties": {"severity": finding.severity.value, "tags": [finding.layer.value]},
    }
    return {**rule, "helpUri": quote(links[0], safe=":/?#[]@!$&'()*+,;=%-._~")} if links else rule


def _result(finding: Finding, result: Result, index: dict[str, int], *, gated: bool) -> dict[str, Any]:
    kind = KINDS.get(finding.state, "fail")
    first = summary.divergence_of(finding, result)
    message = [finding.message or finding.title]
    message += [f"At {summary.place(finding.where)}."] if finding.where.cell is not None else []  # no region says it
    message += [f"First divergence: {summary.divergence(first)}"] if first else []
    data = {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "kind": kind,
        "level": LEVELS[counted(finding)] if kind == "fail" else "none",
        "message": {"text": "\n".join(clean(part) for part in message if part)},
        "locations": [_location(finding.where, result)],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "suppressions": [],
        "properties": _properties(finding),
    }
    return {**data, "baselineState": "new"} if gated else data


def _properties(finding: Finding) -> dict[str, Any]:
    keys = ("state", "severity", "layer", "target", "reason", "remedy", "fix", "evidence", "also", "causes")
    data = finding_data(finding)
    return {key: data[key] for key in keys if data[key]}


def _suppressed(each: Suppressed, result: Result, index: dict[str, int], *, gated: bool) -> dict[str, Any]:
    kind = "inSource" if each.by == "comment" else "external"
    data = _result(each.finding, result, index, gated=gated)
    data["suppressions"] = [{"kind": kind, "status": "accepted", "justification": clean(each.reason)}]
    return {**data, "baselineState": "unchanged"} if each.by == "baseline" else data


def _location(where: Site, result: Result) -> dict[str, Any]:
    """A place always has a file, because services drop results without one: at worst the artifact itself."""
    path = where.path or str(result.artifact.get("path") or result.artifact.get("spec") or "artifact")
    physical: dict[str, Any] = {"artifactLocation": artifact_location(path)}
    region = _region(where)
    if region:
        physical["region"] = region
    location: dict[str, Any] = {"physicalLocation": physical}
    logical = [
        {"name": clean(name), "fullyQualifiedName": clean(name), "kind": kind}
        for kind in ("node", "tensor", "variable")
        if (name := getattr(where, kind))
    ]
    if where.cell is not None:
        logical.append(
            {"name": f"cell {where.cell}", "fullyQualifiedName": clean(summary.place(where)), "kind": "cell"}
        )
    return {**location, "logicalLocations": logical} if logical else location


def artifact_location(path: str) -> dict[str, Any]:
    """Return an artifactLocation whose URI holds any path: relative ones count from the root of the source."""
    windows = PureWindowsPath(path)
    pure = windows if windows.drive else PurePath(path)
    parts = [quote(part, safe="", errors="surrogateescape") for part in pure.parts if part not in {pure.anchor}]
    if pure.is_absolute():
        drive = f"/{windows.drive}" if windows.drive else ""
        return {"uri": f"file://{drive}/{'/'.join(parts)}"}
    return {"uri": "/".join(parts) or ".", "uriBaseId": ROOT}


def _region(where: Site) -> dict[str, int]:
    if where.line is None or where.line < 1 or where.cell is not None:  # a cell's line is none of the file's
        return {}
    region = {
        "startLine": where.line,
        "startColumn": where.column,
        "endLine": where.end_line if where.end_line and where.end_line >= where.line else None,
        "endColumn": where.end_column,
    }
    return {key: value for key, value in region.items() if value is not None and value >= 1}


def _invocation(result: Result) -> dict[str, Any]:
    notes = [_probe(each) for each in summary.not_run(result)]
    notes += [_conversion(each) for each in result.conversions if each.status != "ok"]
    notes += [{"level": "note", "message": {"text": clean(note)}} for note in result.notes]
    return {
        "executionSuccessful": not missing_probes(result.probes),
        "exitCode": result.exit_code,
        "exitCodeDescription": summary.exit_sentence(result),
        "toolExecutionNotifications": notes,
    }


def _probe(probe: Probe) -> dict[str, Any]:
    text = f"The probe {probe.name} on {probe.device} did not run: {summary.probe_status(probe)}"
    return {
        "level": "error" if probe.required else "note",
        "descriptor": {"id": f"probe/{clean(probe.name)}"},
        "message": {"text": clean(text)},
    }


def _conversion(row: Conversion) -> dict[str, Any]:
    text = f"The conversion by {row.route} to {row.target} {row.status}: {summary.conversion_cause(row)} {row.remedy}"
    return {
        "level": "error" if row.ships else "note",
        "descriptor": {"id": f"conversion/{clean(row.route)}"},
        "message": {"text": clean(text).strip()},
    }
