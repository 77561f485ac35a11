"""The report for a terminal: the verdict first, then findings by severity, then what it rests on.

Everything is built from `Text` without markup, and every text of the user's passes through `clean`, so that a node name
can neither be read as markup nor move the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from tensoraudit.findings.finding import Finding, State
from tensoraudit.findings.result import Conversion, Probe, Result
from tensoraudit.findings.severity import is_open, order_key
from tensoraudit.report import checkpoint_diff, checkpoint_resume, checkpoint_show, migratability, summary
from tensoraudit.report.clean import clean, one_line
from tensoraudit.report.letters import COLORS, large
from tensoraudit.report.style import DEFAULT, Style

NARROW = 72
"""Columns below which tables become lists."""

EVIDENCE_SHOWN = 4
DETAIL_SHOWN = 120
"""Characters of a measurement's detail; the other formats have it whole."""

SEVERITY_COLORS = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan"}
CELL_COLORS = {**SEVERITY_COLORS, "none": "green", "unknown": "magenta"}


def render(result: Result, style: Style = DEFAULT) -> str:
    """Return the whole report as text, with escape sequences for colours when the style has them."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=style.width,
        color_system=style.colors,
        no_color=style.colors is None,
        force_terminal=style.colors is not None,
        legacy_windows=False,
        safe_box=not style.unicode,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
    )
    for part in _parts(result, style):
        console.print(part)
    text = stream.getvalue()
    # Padding fills lines up to the width; without colours nothing but blanks is lost by cutting it off again.
    return text if style.colors else "\n".join(line.rstrip() for line in text.split("\n"))


def _parts(result: Result, style: Style) -> Iterator[RenderableType]:
    for target in result.targets:
        yield _verdict(result, target, style)
    if not result.targets:
        yield from _verdict_of_weights(result)
    yield from _findings(result, style)
    if style.quiet:
        return
    yield from _weights(result, style)
    yield from _conversions(result, style)
    yield from _equivalence(result, style)
    yield from _layers(result, style)
    yield from _not_run(result)
    yield from _refuted(result)
    yield from _remarks(result)
    yield Text()
    yield Text(clean(summary.exit_sentence(result)), style="dim")


def _verdict(result: Result, target: str, style: Style) -> RenderableType:
    grade = result.grade[target]
    color = COLORS[grade[0]]
    lines = [Text(clean(summary.verdict(result, target)), style="bold")]
    if not style.quiet:
        lines += [Text(f"{clean(summary.artifact_name(result))} to {target}, grade {grade}", style="dim")]
        lines += [Text(clean(line)) for line in summary.compared(result, target)]
        lines += [Text(one_line(line)) for line in migratability.lines(result, target)]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(large(grade, unicode=style.unicode), style=color), Group(*lines))
    return Padding(table, (1, 0))


def _verdict_of_weights(result: Result) -> Iterator[RenderableType]:
    if result.checkpoint_diff is not None:
        yield from checkpoint_diff.verdict(result, result.checkpoint_diff)
    elif result.checkpoint is not None:
        yield from checkpoint_show.verdict(result, result.checkpoint)
    elif result.resume:
        yield from checkpoint_resume.verdict(result)
    else:
        yield Text(summary.count_findings(result.findings) or "Nothing was found.")


def _weights(result: Result, style: Style) -> Iterator[RenderableType]:
    """What the checkpoint commands show; beside a model one line says which file was held against it."""
    if result.checkpoint_diff is not None:
        yield from checkpoint_diff.body(result.checkpoint_diff, style)
    elif result.checkpoint is not None and result.targets:
        yield _heading("Checkpoint", style)
        stored = result.checkpoint
        yield Text(one_line(f"{stored.path}: {checkpoint_show.described(stored)}; {checkpoint_show.totals(stored)}"))
    elif result.checkpoint is not None:
        yield from checkpoint_show.body(result.checkpoint, style)
    elif result.resume:
        for title, columns, rows in checkpoint_resume.tables(result.resume):
            yield _heading(title, style)
            yield from _table(columns, rows, style)


def _heading(title: str, style: Style) -> RenderableType:
    return Padding(Rule(title, align="left", characters="─" if style.unicode else "-", style="dim"), (1, 0, 0, 0))


def _findings(result: Result, style: Style) -> Iterator[RenderableType]:
    counting = [each for each in sorted(result.findings, key=order_key) if each.state is not State.REFUTED]
    notes = [each for each in counting if each.state is State.ADVICE]
    opened = [each for each in counting if is_open(each)]
    if opened:
        yield _heading("Findings", style)
    for each in opened:
        yield from _finding(each, result)
    if notes and not style.quiet:
        yield _heading("Porting notes", style)
        for each in notes:
            yield from _finding(each, result)


def _finding(finding: Finding, result: Result) -> Iterator[RenderableType]:
    head = Text()
    head.append(finding.severity.value.upper(), style=SEVERITY_COLORS[finding.severity.value])
    head.append(f" {finding.state.value} ", style="dim")
    head.append(f"{clean(finding.rule)} {one_line(finding.title)}", style="bold")
    yield Text()
    yield head
    for label, text in _details(finding, result):
        yield _indented(label, text)


def _details(finding: Finding, result: Result) -> Iterator[tuple[str, str]]:
    """Label and text of each line; a line without text is left out by the caller."""
    if len(result.targets) > 1 and finding.target:
        yield "target", finding.target
    yield "at", summary.place(finding.where)
    yield "", finding.message
    yield "not proven", finding.reason
    first = summary.divergence_of(finding, result)
    yield "diverges", summary.divergence(first) if first else ""
    told = f"{finding.message} {finding.reason}"
    shown = [summary.evidence(row, told, DETAIL_SHOWN) for row in finding.evidence[:EVIDENCE_SHOWN]]
    more = len(finding.evidence) - len(shown)
    for index, line in enumerate(shown):
        rest = f"; {more} more in the JSON report" if more and index == len(shown) - 1 else ""
        yield "measured", line + rest
    yield "explained by", ", ".join(finding.causes)
    yield "cause", finding.why
    yield "remedy", finding.remedy
    yield "fix", finding.fix
    yield "also", ", ".join(finding.also)


def _indented(label: str, text: str) -> RenderableType:
    if not text:
        return Group()
    line = Text(f"{label}: " if label else "", style="dim")
    line.append(clean(text).strip(), style="not dim")
    return Padding(line, (0, 0, 0, 2))


def _conversions(result: Result, style: Style) -> Iterator[RenderableType]:
    if not result.conversions:
        return
    yield _heading("Conversions", style)
    for row in result.conversions:
        yield from _conversion(row, style)


def _conversion(row: Conversion, style: Style) -> Iterator[RenderableType]:
    ok = row.status == "ok"
    head = Text(f"{row.status} ", style="green" if ok else "red")
    head.append(one_line(row.route), style="bold")
    head.append(f" to {one_line(row.target)}" + (", decides the grade" if row.ships else ", as evidence"), style="dim")
    yield head
    options = ", ".join(f"{key}={value}" for key, value in row.options.items())
    yield _indented("options", one_line(options))
    yield _indented("cause", summary.conversion_cause(row))
    yield _indented("remedy", row.remedy)
    if style.verbose:
        yield _indented("traceback", str(row.details.get("traceback") or ""))


def _equivalence(result: Result, style: Style) -> Iterator[RenderableType]:
    found = [(target, group) for target in result.targets for group in summary.groups(result, target)]
    if not found:
        return
    yield _heading("Equivalence", style)
    columns = ["candidate", "against", "compared", "verdicts", "largest difference", "error ratio"]
    rows = [
        [
            group.candidate,
            group.reference,
            group.extent,
            group.counts,
            summary.number(group.linf),
            summary.number(group.error_ratio),
        ]
        for _, group in found
    ]
    yield from _table(columns, rows, style)
    for _, group in found:
        if group.first_divergence:
            yield _indented("first divergence", summary.divergence(group.first_divergence))
    if style.verbose:
        yield from _every_tensor(result, style)


def _every_tensor(result: Result, style: Style) -> Iterator[RenderableType]:
    columns = ["candidate", "tensor", "inputs", "verdict", "difference", "error ratio", "reason"]
    rows = [
        [
            row.candidate,
            row.tensor,
            row.inputs,
            row.verdict,
            summary.number(row.linf),
            summary.number(row.error_ratio),
            row.reason,
        ]
        for row in result.equivalence
    ]
    yield from _table(columns, rows, style)


def _table(columns: list[str], rows: list[list[str]], style: Style) -> Iterator[RenderableType]:
    if style.width < NARROW:
        for row in rows:
            cells = [f"{name}: {one_line(cell)}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell]
            yield Text(one_line(row[0]), style="bold")
            yield from (Padding(Text(cell), (0, 0, 0, 2)) for cell in cells)
        return
    table = Table(box=box.SIMPLE if style.unicode else box.ASCII2, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    yield table


def _layers(result: Result, style: Style) -> Iterator[RenderableType]:
    if not result.targets:
        return
    yield _heading("Where it leaks", style)
    table = Table(box=box.SIMPLE if style.unicode else box.ASCII2, pad_edge=False, show_edge=False)
    table.add_column("layer")
    for target in result.targets:
        table.add_column(target, overflow="fold")
    for layer in summary.LAYERS:
        cells = [result.layers.get(target, {}).get(layer, "unknown") for target in result.targets]
        table.add_row(layer, *(Text(cell, style=CELL_COLORS.get(cell, "")) for cell in cells))
    yield table


def _not_run(result: Result) -> Iterator[RenderableType]:
    missing = summary.not_run(result)
    if missing:
        yield Text("\nProbes that did not run", style="bold")
    yield from (_probe(each) for each in missing)


def _probe(probe: Probe) -> RenderableType:
    line = Text("required " if probe.required else "", style="red")
    line.append(one_line(f"{probe.name} on {probe.device}"), style="bold")
    line.append(f": {clean(summary.probe_status(probe))}", style="not bold")
    return Padding(line, (0, 0, 0, 2))


def _refuted(result: Result) -> Iterator[RenderableType]:
    refuted = [each for each in sorted(result.findings, key=order_key) if each.state is State.REFUTED]
    if refuted:
        yield Text("\nRefuted by a run", style="bold")
    for each in refuted:
        shown = f" ({summary.evidence(each.evidence[0], longest=DETAIL_SHOWN)})" if each.evidence else ""
        yield _short(f"{each.rule} {each.title}", summary.place(each.where) + shown)


def _remarks(result: Result) -> Iterator[RenderableType]:
    if result.suppressed:
        yield Text("\nSuppressed", style="bold")
    for silenced in result.suppressed:
        each = silenced.finding
        told = (summary.place(each.where), f"{silenced.reason} ({silenced.by})")
        yield _short(f"{each.rule} {each.title}", ": ".join(filter(None, told)))
    if result.notes:
        yield Text("\nNotes", style="bold")
    yield from _lines(result.notes)


def _short(head: str, rest: str) -> RenderableType:
    line = Text(one_line(head))
    line.append(f"  {one_line(rest)}" if rest else "", style="dim")
    return Padding(line, (0, 0, 0, 2))


def _lines(texts: Iterable[str]) -> Iterator[RenderableType]:
    yield from (Padding(Text(clean(text)), (0, 0, 0, 2)) for text in texts)
