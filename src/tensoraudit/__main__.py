"""The entry point. Answers `--help` and `--version` from constants, at the cost of Python's own start."""

from __future__ import annotations

import gc
import sys


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

    code = run(arguments)
    gc.freeze()  # Python would search all that is left for cycles as it ends: half a second after a large `lint`
    sys.exit(code)


if __name__ == "__main__":
    main()
