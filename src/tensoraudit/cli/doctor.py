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
        style = "green" if check.status == "ok" else "yellow" if check.optional else "red"
        table.add_row(check.name, f"[{style}]{check.status}[/]", escape(check.detail))
    Console().print(table)
