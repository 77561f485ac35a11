"""`tensoraudit lint`: rules over source code only."""

from __future__ import annotations

from typing import Annotated

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.cli.running import audit_source


def lint(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Python files, notebooks or folders.")],
    report: a.Report = None,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    rules: a.Rules = None,
    cache: a.Cache = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
) -> int:
    """Match the rules that speak of source code; no framework is imported."""
    given = {key: value for key, value in locals().items() if key != "paths"}
    return audit_source(paths, given)
