"""`tensoraudit lint`: rules over source code only."""

from __future__ import annotations

from typing import Annotated

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.cli.running import audit_source


def lint(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Python files or folders.")],
    report: a.Report = None,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
) -> int:
    """Match the rules that speak of source code; no framework is imported."""
    given = {"report": report, "fail_on": fail_on, "baseline": baseline, "quiet": quiet, "color": color}
    return audit_source(paths, given)
