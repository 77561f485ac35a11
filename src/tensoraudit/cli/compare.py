"""`tensoraudit compare`: two artifacts that should be the same model."""

from __future__ import annotations

from typing import Annotated

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.cli.running import audit
from tensoraudit.pipeline import COMPARE


def compare(
    reference: Annotated[str, typer.Argument(help="The model that is right.")],
    candidate: Annotated[str, typer.Argument(help="The model that should do the same.")],
    inputs: a.Inputs = None,
    input: a.Input = None,
    code: a.Code = None,
    model: a.Model = None,
    checkpoint: a.Checkpoint = None,
    framework: a.Framework = None,
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
    map: a.Map = None,
    write_map: a.WriteMap = None,
    transfer: a.Transfer = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
    verbose: a.Verbose = None,
) -> int:
    """Run both on the same inputs, judge every output against the measured noise floor, name the first divergence."""
    given = {key: value for key, value in locals().items() if key not in {"reference", "candidate"}}
    return audit(COMPARE, reference, candidate, given)
