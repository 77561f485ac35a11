"""`tensoraudit scan`: audit one migration, end to end."""

from __future__ import annotations

from typing import Annotated

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.cli.running import audit
from tensoraudit.pipeline import SCAN


def scan(
    artifact: Annotated[str, typer.Argument(help="Model file, model.py:factory, package.module:name, or source.")],
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="onnx|pytorch|tensorflow|jax", help="Where the model goes.")
    ] = None,
    inputs: a.Inputs = None,
    input: a.Input = None,
    code: a.Code = None,
    model: a.Model = None,
    checkpoint: a.Checkpoint = None,
    framework: a.Framework = None,
    via: a.Via = None,
    opset: a.Opset = None,
    device: a.Device = None,
    tolerance: a.Tolerance = None,
    gradients: a.Gradients = None,
    seed: a.Seed = None,
    trust: a.Trust = None,
    timeout: a.Timeout = None,
    memory: a.Memory = None,
    python: a.Python = None,
    report: a.Report = None,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    rules: a.Rules = None,
    reproducer: a.Reproducer = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
    verbose: a.Verbose = None,
) -> int:
    """Audit one migration: convert by every route, run both sides, compare, explain, grade."""
    given = {key: value for key, value in locals().items() if key != "artifact"}
    return audit(SCAN, artifact, "", given)
