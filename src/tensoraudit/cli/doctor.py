"""`tensoraudit doctor`: what can run here, and why the rest cannot."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tensoraudit.audit.doctor import Check, examine
from tensoraudit.cli import arguments as a
from tensoraudit.options import make_options


def doctor(
    python: a.Python = None,
    timeout: a.Timeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> int:
    """Start each framework's worker and say what every probe and route can do on this machine."""
    checks = examine(make_options({"python": python, "timeout": timeout}))
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        _print(checks)
    broken = [check for check in checks if check.status != "ok" and not check.optional]
    return 3 if broken else 0


def _print(checks: list[Check]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("what", "status", "detail"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row(check.name, f"[{_style(check)}]{check.status}[/]", escape(check.detail))
    console = Console()
    console.print(table)
    console.print()
    console.print(_matrix(checks))


def _style(check: Check) -> str:
    return "green" if check.status in {"ok", "works"} else "yellow" if check.optional else "red"


def _matrix(checks: list[Check]) -> Table:
    """From where (rows) to where (columns) a model can go here."""
    ways = {tuple(check.name.split(" -> ")): check for check in checks if " -> " in check.name}
    targets = list(dict.fromkeys(target for _, target in ways))
    table = Table("from / to", *targets, box=None, pad_edge=False)
    for source in dict.fromkeys(source for source, _ in ways):
        cells = [ways.get((source, target)) for target in targets]
        table.add_row(source, *(f"[{_style(cell)}]{cell.status}[/]" if cell else "-" for cell in cells))
    return table
