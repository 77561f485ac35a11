"""`tensoraudit checkpoint`: what files of weights hold, what two have in common, and whether training resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensoraudit.checkpoints.ahead import looking_ahead
from tensoraudit.cli import arguments as a
from tensoraudit.cli.checkpoint_resume import resume
from tensoraudit.cli.running import audit_files

app = typer.Typer(no_args_is_help=True, help="Weights and training state, read from headers; nothing stored is run.")

_WHAT = "A file of weights, an index of shards, or the folder of a checkpoint."
Every = Annotated[bool | None, typer.Option("--verbose", help="Every tensor, nothing folded.")]


@app.command("show")
def show(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=_WHAT)],
    report: a.Report = None,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    rules: a.Rules = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
    verbose: Every = None,
) -> int:
    """Show tensors, sizes, shards and what is there for a resume; no tensor is read."""
    given = {key: value for key, value in locals().items() if key != "checkpoint"}
    from tensoraudit.checkpoint_steps import CHECKPOINT_SHOW

    return audit_files(CHECKPOINT_SHOW, checkpoint, "", given)


@app.command("diff")
def diff(
    reference: Annotated[str, typer.Argument(help="The checkpoint that is right.")],
    candidate: Annotated[str, typer.Argument(help="The checkpoint that should hold the same.")],
    map: Annotated[
        str | None,
        typer.Option("--map", metavar="FILE", help="Which tensor belongs to which, where names do not tell."),
    ] = None,
    values: a.Values = None,
    by_value: a.ByValue = None,
    report: a.Report = None,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    rules: a.Rules = None,
    quiet: a.Quiet = None,
    color: a.Color = None,
    verbose: Every = None,
) -> int:
    """Pair the tensors of two checkpoints, of any formats and frameworks, and say what differs."""
    given = {key: value for key, value in locals().items() if key not in {"reference", "candidate"}}
    with looking_ahead(Path(candidate)) as looked:  # before what follows is imported: the copy need not wait for it
        from tensoraudit.checkpoint_steps import CHECKPOINT_DIFF

        return audit_files(CHECKPOINT_DIFF, reference, candidate, given, looked)


@app.callback()
def group() -> None:
    """Weights and training state, read from headers; nothing stored is run."""


app.command("resume")(resume)
