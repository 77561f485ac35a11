"""The report in Markdown, for a comment on a change or a job summary. Every text of the user's is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensoraudit.findings.finding import Finding, State
from tensoraudit.findings.result import Result
from tensoraudit.findings.severity import is_open, order_key
from tensoraudit.report import migratability, summary
from tensoraudit.report.clean import code_span, for_markdown
from tensoraudit.report.style import DEFAULT, Style


def render(result: Result, style: Style = DEFAULT) -> str:
    """Return the report as Markdown text (GitHub's dialect: tables)."""
    parts = [_verdicts(result), _findings(result)]
    if not style.quiet:
        parts += [_notes(result), _conversions(result), _equivalence(result), _layers(result), _remarks(result)]
    lines = [line for part in parts for line in part]
    return "\n".join(lines).strip() + "\n"


def _verdicts(result: Result) -> Iterator[str]:
    yield f"# tensoraudit: {code_span(summary.artifact_name(result))}\n"
    for target in result.targets:
        yield f"## {for_markdown(target)}: grade {for_markdown(result.grade[target])}\n"
        yield f"**{for_markdown(summary.verdict(result, target))}**\n"
        told = (*summary.compared(result, target), *migratability.lines(result, target))
        yield from _list(for_markdown(line) for line in told)


def _list(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"- {line}" for line in lines)
    yield ""


def _findings(result: Result) -> Iterator[str]:
    opened = [each for each in sorted(result.findings, key=order_key) if is_open(each)]
    if opened:
        yield "## Findings\n"
    for each in opened:
        yield from _finding(each, result)


def _finding(finding: Finding, result: Result) -> Iterator[str]:
    head = f"{finding.severity.value}, {finding.state.value}: {finding.rule} {finding.title}"
    yield f"### {for_markdown(head)}\n"
    place = summary.place(finding.where)
    yield f"{code_span(place)}: {for_markdown(finding.message)}\n" if place else f"{for_markdown(finding.message)}\n"
    first = summary.divergence_of(finding, result)
    rows = [
        ("Not proven", finding.reason),
        ("First divergence", summary.divergence(first) if first else ""),
        *(("Measured", summary.evidence(row)) for row in finding.evidence),
        ("Explained by", ", ".join(finding.causes)),
        ("Cause", finding.why),
        ("Remedy", finding.remedy),
        ("Also", ", ".join(finding.also)),
    ]
    lines = [f"**{label}:** {for_markdown(text)}" for label, text in rows if text]
    lines += [f"**Fix:** {code_span(finding.fix)}"] if finding.fix else []
    yield from _list(lines)


def _notes(result: Result) -> Iterator[str]:
    notes = [each for each in sorted(result.findings, key=order_key) if each.state is State.ADVICE]
    if notes:
        yield "## Porting notes\n"
        yield from _list(_short(each) for each in notes)


def _short(finding: Finding) -> str:
    place = summary.place(finding.where)
    head = f"{for_markdown(finding.rule)} {for_markdown(finding.title)}"
    return f"{head} ({code_span(place)}): {for_markdown(finding.message)}" if place else head


def _conversions(result: Result) -> Iterator[str]:
    if not result.conversions:
        return
    yield "## Conversions\n"
    rows = [
        [
            row.route,
            row.status,
            "decides the grade" if row.ships else "evidence",
            summary.conversion_cause(row),
            row.remedy,
        ]
        for row in result.conversions
    ]
    yield from _table(["route", "status", "role", "cause", "remedy"], rows)


def _equivalence(result: Result) -> Iterator[str]:
    rows = [
        [
            group.candidate,
            group.reference,
            group.extent,
            group.counts,
            summary.number(group.linf),
            summary.number(group.error_ratio),
        ]
        for target in result.targets
        for group in summary.groups(result, target)
    ]
    if rows:
        yield "## Equivalence\n"
        columns = ["candidate", "against", "compared", "verdicts", "largest difference", "largest error ratio"]
        yield from _table(columns, rows)


def _layers(result: Result) -> Iterator[str]:
    if result.targets:
        yield "## Where it leaks\n"
        rows = [
            [layer, *(result.layers.get(target, {}).get(layer, "unknown") for target in result.targets)]
            for layer in summary.LAYERS
        ]
        yield from _table(["layer", *result.targets], rows)


def _remarks(result: Result) -> Iterator[str]:
    sections = {
        "Probes that did not run": [
            f"{'required ' if each.required else ''}{each.name} on {each.device}: {summary.probe_status(each)}"
            for each in summary.not_run(result)
        ],
        "Refuted by a run": [
            f"{each.rule} {each.title} {summary.place(each.where)}"
            for each in sorted(result.findings, key=order_key)
            if each.state is State.REFUTED
        ],
        "Suppressed": [f"{s.finding.rule} {s.finding.title}: {s.reason} ({s.by})" for s in result.suppressed],
        "Notes": list(result.notes),
    }
    for title, lines in sections.items():
        if lines:
            yield f"## {title}\n"
            yield from _list(for_markdown(line) for line in lines)
    yield for_markdown(summary.exit_sentence(result))


def _table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(for_markdown(name) for name in columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield "| " + " | ".join(for_markdown(cell) for cell in row) + " |"
    yield ""
