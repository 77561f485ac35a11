"""`tensoraudit baseline`: write down the findings that a team knows of already, so that only new ones gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tensoraudit.findings.baseline import baseline_from_report
from tensoraudit.report.writers import write_file

app = typer.Typer(no_args_is_help=True, help="Known findings, which do not fail the gate.")


@app.command("write")
def write(
    report: Annotated[str, typer.Argument(metavar="REPORT.json", help="A JSON report of a scan or a comparison.")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write it.")] = "baseline.json",
) -> int:
    """Write the open findings of a report as a baseline, for `--baseline FILE`."""
    write_file(Path(out), json.dumps(baseline_from_report(Path(report)), indent=2) + "\n")
    print(f"wrote {out}")
    return 0


@app.callback()
def group() -> None:
    """Known findings, which do not fail the gate."""
