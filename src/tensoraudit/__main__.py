"""The entry point. Answers `--help` and `--version` from constants, at the cost of Python's own start."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def main() -> None:
    """Run the command line and exit with a documented code."""
    arguments = sys.argv[1:]
    words = tuple(word for word in arguments if word not in ("--help", "-h", "help"))
    if words in ((), ("rules",)):
        from tensoraudit.cli.help import TEXTS

        sys.stdout.write(TEXTS[words])
        return
    if arguments in (["--version"], ["-V"]):
        from tensoraudit import __version__

        sys.stdout.write(f"tensoraudit {__version__}\n")
        return
    from tensoraudit.cli.app import run

    sys.exit(run(arguments))


def command() -> NoReturn:
    """Run `main` in a process of its own, and leave at once with its code.

    Python would free what a large audit holds object by object, which takes half a second. And where Ctrl-C came while
    `exec` made a class of an import, it would end by SIGINT whatever the code says.
    """
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except OSError as error:  # of the help: commands answer for themselves
        sys.stderr.write(f"tensoraudit: {error.strerror}\n")
        code = 2
    atexit._run_exitfuncs()  # Python has no other way to run them before it ends
    os._exit(code if _flushed() else code or 2)


def _flushed() -> bool:
    """Whether all that was printed arrived: a disk may be full, a reader gone."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


if __name__ == "__main__":
    command()
