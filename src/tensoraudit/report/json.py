"""The JSON report, schema `tensoraudit-report/1`: the one complete form of a result.

Same result, same bytes: keys stand in a fixed order, free mappings are sorted, and what differs between two equal
audits (`timings`, `seconds`, `peak_memory`) stands under its own keys. JSON has no NaN and no infinity; they become the
texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.finding import Finding
from tensoraudit.findings.result import (
    SCHEMA,
    Conversion,
    Equivalence,
    FirstDivergence,
    Migratability,
    OperatorUse,
    Probe,
    Result,
)
from tensoraudit.findings.severity import order_key
from tensoraudit.report.checkpoint_json import diff_data, pair_rows, stored_data, tensor_rows
from tensoraudit.report.plain import plain
from tensoraudit.report.style import DEFAULT, Style

_MOVING = frozenset({"timings", "seconds", "peak_memory"})
_SITE = ("path", "line", "node", "tensor", "variable")


Rows = Callable[[Iterator[Any]], Any]


def document(result: Result, *, rows: Rows = list) -> dict[str, Any]:
    """Return the report as plain data: dictionaries, lists, texts, numbers, booleans and None.

    `rows` makes what stands for the rows of tensors or of pairs, which may be a hundred thousand.
    """
    return {
        "schema": SCHEMA,
        "tool": plain(result.tool),
        "artifact": plain(result.artifact),
        "targets": list(result.targets),
        "grade": dict(result.grade),
        "exit_code": result.exit_code,
        "fail_on": result.fail_on,
        "migratability": [_migratability(row) for row in result.migratability],
        "layers": {target: dict(cells) for target, cells in result.layers.items()},
        "findings": [finding_data(finding) for finding in sorted(result.findings, key=order_key)],
        "equivalence": [_equivalence(row) for row in result.equivalence],
        "conversions": [_conversion(row) for row in result.conversions],
        "probes": [_probe(row) for row in result.probes],
        "suppressed": [
            {"finding": finding_data(each.finding), "reason": each.reason, "by": each.by} for each in result.suppressed
        ],
        "settings": plain(result.settings),
        "notes": list(result.notes),
        **_weights(result, rows),
        "timings": plain(result.timings),
    }


def _weights(result: Result, rows: Rows) -> dict[str, Any]:
    """Stored weights, where any were read; `rows` makes what stands for the rows of tensors or pairs."""
    if result.checkpoint_diff is not None:
        found = result.checkpoint_diff
        return {"checkpoint_diff": {**diff_data(found), "pairs": rows(pair_rows(found))}}
    if result.checkpoint is not None:
        tensors = {} if result.targets else {"tensors": rows(tensor_rows(result.checkpoint))}
        return {"checkpoint": {**stored_data(result.checkpoint), **tensors}}
    return {"resume": plain(result.resume)} if result.resume else {}


def render(result: Result, style: Style = DEFAULT) -> str:
    """Return the report as JSON text, complete whatever the style. Tensors and pairs stand on a line each."""
    many: list[Iterator[Any]] = []

    def mark(rows: Iterator[Any]) -> str:
        many.append(rows)
        return _ROWS

    text = json.dumps(document(result, rows=mark), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    for each in many:
        lines = ",\n      ".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in each)
        # Behind the mark come the timings alone: nothing of the user's can look like it there.
        before, _, after = text.rpartition(json.dumps(_ROWS))
        text = f"{before}[\n      {lines}\n    ]{after}" if lines else f"{before}[]{after}"
    return text


_ROWS = "(rows)"
"""Stands for rows until they are written."""


def without_moving_parts(data: Any) -> Any:
    """Return a report's data without what two equal audits do not share, so that they can be compared."""
    if isinstance(data, dict):
        return {key: without_moving_parts(value) for key, value in data.items() if key not in _MOVING}
    return [without_moving_parts(value) for value in data] if isinstance(data, list) else data


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return one finding as plain data."""
    return {
        "rule": finding.rule,
        "title": finding.title,
        "severity": finding.severity.value,
        "state": finding.state.value,
        "layer": finding.layer.value,
        "target": finding.target,
        "where": _where(finding.where),
        "message": finding.message,
        "why": finding.why,
        "remedy": finding.remedy,
        "fix": finding.fix,
        "references": list(finding.references),
        "evidence": [_measurement(row) for row in finding.evidence],
        "fingerprint": finding.fingerprint,
        "reason": finding.reason,
        "also": list(finding.also),
        "causes": list(finding.causes),
    }


def _where(where: Site) -> dict[str, Any]:
    cell = {} if where.cell is None else {"cell": where.cell}
    return {field: getattr(where, field) for field in _SITE} | cell


def _measurement(row: Measurement) -> dict[str, Any]:
    return {
        "metric": row.metric,
        "subject": row.subject,
        "value": plain(row.value),
        "unit": row.unit,
        "probe": row.probe,
        "seed": row.seed,
        "side": row.side,
        "target": row.target,
        "detail": row.detail,
    }


def _equivalence(row: Equivalence) -> dict[str, Any]:
    return {
        "reference": row.reference,
        "candidate": row.candidate,
        "what": row.what,
        "tensor": row.tensor,
        "inputs": row.inputs,
        "verdict": row.verdict,
        "linf": plain(row.linf),
        "error_ratio": plain(row.error_ratio),
        "ulp": plain(row.ulp),
        "top1_changes": plain(row.top1_changes),
        "first_divergence": _divergence(row.first_divergence) if row.first_divergence else None,
        "reason": row.reason,
        "target": row.target,
        "notes": list(row.notes),
    }


def _migratability(row: Migratability) -> dict[str, Any]:
    return {
        "target": row.target,
        "route": row.route,
        "types_supported": row.types_supported,
        "types_total": row.types_total,
        "nodes_supported": row.nodes_supported,
        "nodes_total": row.nodes_total,
        "unsupported": [_use(each) for each in row.unsupported],
        "custom": [_use(each) for each in row.custom],
        "control_flow": row.control_flow,
        "converted": row.converted,
        "reason": row.reason,
    }


def _use(row: OperatorUse) -> dict[str, Any]:
    return {"op": row.op, "count": row.count, "where": _where(row.at)}


def _divergence(row: FirstDivergence) -> dict[str, Any]:
    return {
        "reference_node": row.reference_node,
        "candidate_node": row.candidate_node,
        "source_line": row.source_line,
        "candidate_line": row.candidate_line,
        "local_error": plain(row.local_error),
        "cumulative_error": plain(row.cumulative_error),
        "reproducer": row.reproducer,
    }


def _conversion(row: Conversion) -> dict[str, Any]:
    return {
        "target": row.target,
        "route": row.route,
        "status": row.status,
        "ships": row.ships,
        "options": plain(row.options),
        "cause": row.cause,
        "remedy": row.remedy,
        "details": plain(row.details),
        "seconds": plain(row.seconds),
    }


def _probe(row: Probe) -> dict[str, Any]:
    return {
        "name": row.name,
        "framework": row.framework,
        "version": row.version,
        "device": row.device,
        "status": row.status,
        "reason": row.reason,
        "seconds": plain(row.seconds),
        "peak_memory": row.peak_memory,
        "required": row.required,
        "target": row.target,
    }
