"""The Python API: the same audits as the command line, returning what the JSON report prints."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tensoraudit.options import make_options
from tensoraudit.pipeline import COMPARE, SCAN, run
from tensoraudit.report.json import document
from tensoraudit.steps import new_audit


def scan(artifact: str | PathLike[str], *, target: str | None = None, **options: Any) -> dict[str, Any]:
    """Audit one migration and return the report as a JSON document (schema `tensoraudit-report/1`).

    `options` are the command line's, with underscores: `input=("x:float32[batch,8]",)`, `via=...`, `opset=...`.
    Raises InputError or ConfigError for what the command line answers with exit code 2.
    """
    made = make_options({"target": target, **options})
    return document(run(SCAN, new_audit(made, str(artifact))))


def compare(reference: str | PathLike[str], candidate: str | PathLike[str], **options: Any) -> dict[str, Any]:
    """Compare two artifacts that should be the same model; returns and raises as `scan` does."""
    return document(run(COMPARE, new_audit(make_options(options), str(reference), str(candidate))))
