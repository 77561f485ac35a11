"""The command line: one command a module, errors turned into one sentence and the documented exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

from tensoraudit.cli import baseline, compare, doctor, lint, rules, scan
from tensoraudit.errors import UserError

OK, FINDINGS, USER, CANNOT_TELL, INTERNAL = range(5)
INTERRUPTED = 130
"""What typer makes of Ctrl-C; users get the documented code for an audit that could not tell."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Audit a model before it moves between frameworks.",
)
app.command("scan")(scan.scan)
app.command("compare")(compare.compare)
app.command("lint")(lint.lint)
app.command("doctor")(doctor.doctor)
app.add_typer(rules.app, name="rules")
app.add_typer(baseline.app, name="baseline")


def run(arguments: list[str]) -> int:
    """Run one command; the exit code is the contract's, whatever happened."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="tensoraudit", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        return _answer(error)
    if code == INTERRUPTED:
        return _say("interrupted: nothing was decided, and no worker is left", CANNOT_TELL)
    return code if isinstance(code, int) else OK


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _answer(error: Exception) -> int:
    if isinstance(error, UserError):
        return _say(str(error), USER)
    # Wrong use of the command line; told by its method, because typer brings its own copy of click's classes.
    if show := getattr(error, "show", None):
        show()
        return USER
    if isinstance(error, OSError) and error.errno is not None:
        place = f"{error.filename}: " if error.filename else ""
        return _say(
            f"{place}{error.strerror}. Check that the path can be read and written and that the disk has room.", USER
        )
    import traceback

    traceback.print_exception(error)
    return _say(
        f"a fault of tensoraudit itself ({type(error).__name__}). Please report it with the lines above.", INTERNAL
    )


def _say(text: str, code: int) -> int:
    print(f"tensoraudit: {text}", file=sys.stderr)
    return code
