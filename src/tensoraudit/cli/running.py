"""What `scan`, `compare` and `lint` share: options from the command line, progress, reports, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tensoraudit.checkpoints.ahead import Looked, nothing_ahead
from tensoraudit.collection import without_collection
from tensoraudit.findings.result import Result
from tensoraudit.options import Options, make_options
from tensoraudit.report.writers import check_reports, write_reports

if TYPE_CHECKING:
    from tensoraudit.steps import Step


def audit(steps: tuple[Step, ...], spec: str, against: str, given: Mapping[str, Any]) -> int:
    """Run an audit, write its reports, return its exit code. Raises UserError."""
    from tensoraudit.pipeline import run
    from tensoraudit.steps import new_audit

    options = make_options(given)
    check_reports(options.report)
    console = Console(stderr=True, no_color=not options.color)
    with _status(console, options, "starting workers") as status:
        progress = (lambda text: status.update(f"{text} ...")) if status else (lambda text: None)
        result = run(steps, new_audit(options, spec, against, progress))
    write_reports(result, options.report, quiet=options.quiet, color=options.color, verbose=options.verbose)
    return result.exit_code


def _status(console: Console, options: Options, begun: str) -> Any:
    if options.quiet or not sys.stderr.isatty():
        return nullcontext()
    return console.status(f"{begun} ...")


def audit_files(
    steps: tuple[Step, ...], spec: str, against: str, given: Mapping[str, Any], looked_ahead: Looked = nothing_ahead
) -> int:
    """Run an audit of files that needs no worker, write its reports, return its exit code. Raises UserError.

    `looked_ahead` hands out what was read of the second meanwhile.
    """
    from tensoraudit.steps import new_audit, run_steps

    options = make_options(given)
    check_reports(options.report)
    console = Console(stderr=True, no_color=not options.color)
    with without_collection(), _status(console, options, "reading") as status:
        progress = (lambda text: status.update(f"{text} ...")) if status else (lambda text: None)
        begun = new_audit(options, spec, against, progress).add(looked_ahead=looked_ahead)
        result = run_steps(steps, begun)
        write_reports(result, options.report, quiet=options.quiet, color=options.color, verbose=options.verbose)
    return result.exit_code


def _lint(options: Options) -> Result:
    from tensoraudit.steps import LINT, run_steps, source_audit  # not needed where the result is recalled

    return run_steps(LINT, source_audit(options))


def audit_source(paths: list[str], given: Mapping[str, Any]) -> int:
    """Read and match source files alone. Raises UserError."""
    from tensoraudit.audit.lint_cache import cached_lint

    options = make_options({**given, "code": paths})
    check_reports(options.report)
    with without_collection():
        result = cached_lint(options, lambda: _lint(options))
    write_reports(result, options.report, quiet=options.quiet, color=options.color, verbose=False)
    return result.exit_code
