"""`tensoraudit checkpoint resume`: whether a training program goes on after a resume as if nothing had happened."""

from __future__ import annotations

from typing import Annotated

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.cli.running import audit

_PROGRAM = "The function that takes one training step: train.py:train_step. See docs/checkpoint-resume.md."


def resume(
    program: Annotated[str, typer.Argument(metavar="FILE.py:train_step", help=_PROGRAM)],
    save_after: Annotated[int | None, typer.Option("--save-after", metavar="N", help="Steps before the save.")] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="M", help="Steps after it, which are compared.")
    ] = None,
    code: a.Code = None,
    framework: a.Framework = None,
    seed: a.Seed = None,
    timeout: a.Timeout = None,
    memory: a.Memory = None,
    python: a.Python = None,
    report: a.Report = None,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    rules: a.Rules = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
    verbose: a.Verbose = None,
) -> int:
    """Train through and interrupted, each run in a process of its own, and name the state that a resume loses."""
    from tensoraudit.pipeline import CHECKPOINT_RESUME

    given = {key: value for key, value in locals().items() if key not in {"program", "CHECKPOINT_RESUME"}}
    return audit(CHECKPOINT_RESUME, program, "", given)
