"""The command line: one command a module, errors turned into one sentence and the documented exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import FrameType

import typer

from tensoraudit.errors import UserError

OK, FINDINGS, USER, CANNOT_TELL, INTERNAL = range(5)
INTERRUPTED = 130
"""What typer makes of Ctrl-C; users get the documented code for an audit that could not tell."""

COMMANDS = ("scan", "compare", "lint", "fix", "doctor")
"""Each is a function of its own name in a module of that name."""
GROUPS = ("checkpoint", "rules", "baseline")
"""Each is an `app` in a module of that name."""


def make_app(names: Iterable[str] = (*COMMANDS, *GROUPS)) -> typer.Typer:
    """Return the command line with these commands. Only their modules are imported: listing rules needs no workers."""
    app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_about)  # with one command alone typer would drop its name
    for name in names:
        module = import_module(f"tensoraudit.cli.{name}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _about() -> None:
    """Audit a model before it moves between frameworks."""


def run(arguments: list[str]) -> int:
    """Run one command; the exit code is the contract's, whatever happened."""
    signal.signal(signal.SIGTERM, _interrupt)
    _open_streams()
    try:
        named = arguments[:1] if arguments[:1] and arguments[0] in (*COMMANDS, *GROUPS) else (*COMMANDS, *GROUPS)
        code = typer.main.get_command(make_app(named)).main(arguments, prog_name="tensoraudit", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except SystemExit:  # typer's answer to a reader that went away, as in `| head`; what came after was not done
        return CANNOT_TELL
    except Exception as error:
        return _answer(error)
    if code == INTERRUPTED:
        return _say("interrupted: nothing was decided, and no worker is left", CANNOT_TELL)
    return code if isinstance(code, int) else OK


def _open_streams() -> None:
    """A closed stream swallows what is written, and one of a narrow encoding takes every text."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - to the end
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


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
