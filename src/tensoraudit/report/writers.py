"""Which formats there are, and how a report gets to its file: whole or not at all.

--report FORMAT          to standard output (one report at most)
--report FORMAT=FILE     to a file, written beside it first and then renamed
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final, TextIO

from tensoraudit.errors import ConfigError, UserError
from tensoraudit.findings.result import Result
from tensoraudit.report.style import Style

Renderer = Callable[[Result, Style], str]

FORMATS: Final = ("console", "json", "sarif", "junit", "html", "markdown")
"""Each is a module of this package with a function `render`: a new format is one file and one word here."""

FILE_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Spec:
    """One report to write. No path means standard output."""

    format: str
    path: Path | None


def renderer(name: str) -> Renderer:
    """Return the function that renders a format; its module is loaded now, so that starting up costs none of them."""
    render: Renderer = import_module(f"tensoraudit.report.{name}").render
    return render


def parse_specs(specs: Iterable[str]) -> list[Spec]:
    """Read `FORMAT` or `FORMAT=FILE`. Raises ConfigError for an unknown format or two reports in one place."""
    parsed = [_parse(spec) for spec in specs]
    places = [spec.path.absolute() if spec.path else None for spec in parsed]
    for index, place in enumerate(places):
        if place in places[:index]:
            where = "standard output" if place is None else str(place)
            raise ConfigError(f"two reports go to {where}", where="--report", remedy="Give each its own FORMAT=FILE.")
    return parsed


def _parse(spec: str) -> Spec:
    name, equals, path = spec.partition("=")
    if name not in FORMATS:
        near = get_close_matches(name, FORMATS, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise ConfigError(f"{name!r} is no format", where="--report", remedy=f"{hint}Use one of {', '.join(FORMATS)}.")
    if equals and not path:
        raise ConfigError(f"{spec!r} names no file", where="--report", remedy=f"Write {name}=FILE, or {name} alone.")
    return Spec(name, Path(path) if path else None)


def check_reports(specs: Iterable[str]) -> None:
    """Raise the errors that can be known before an audit runs: formats, folders that are not there or not writable."""
    for spec in parse_specs(specs):
        if spec.path is None:
            continue
        folder = spec.path.absolute().parent
        if spec.path.is_dir():
            raise _unwritable(spec.path, "it is a folder")
        if not folder.is_dir():
            raise _unwritable(spec.path, f"there is no folder {folder}")
        if not os.access(spec.path if spec.path.exists() else folder, os.W_OK):
            raise _unwritable(spec.path, "permission denied")


def write_reports(
    result: Result, specs: Sequence[str], *, quiet: bool = False, color: bool = True, verbose: bool = False
) -> None:
    """Write every report. Raises ConfigError for a wrong spec before anything is written, UserError for a file that
    cannot be written; such a file is left as it was."""
    style = Style(width=FILE_WIDTH, quiet=quiet, verbose=verbose)
    parsed = parse_specs(specs)
    for spec in sorted(parsed, key=lambda each: each.path is None):  # files first: a closed pipe must not cost them
        render = renderer(spec.format)
        if spec.path is None:
            write_out(render(result, terminal_style(style, sys.stdout, color=color)), sys.stdout)
        else:
            write_file(spec.path, render(result, style))


def terminal_style(style: Style, stream: TextIO, *, color: bool) -> Style:
    """Return the style that fits a stream: its width, colours if it is a terminal that has them, its characters."""
    from rich.console import Console

    probe = Console(file=stream, no_color=None if color else True)
    system = probe.color_system if color and not probe.no_color else None
    width = probe.width if probe.is_terminal or "COLUMNS" in os.environ else FILE_WIDTH
    unicode = (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
    return replace(style, width=width, colors=system, unicode=unicode)  # type: ignore[arg-type]


def write_out(text: str, stream: TextIO) -> None:
    """Write to a stream whatever its encoding; a reader that went away (`| head`) is no error."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # What is left in the buffer would raise once more when the interpreter ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises UserError."""
    content = text.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device such as /dev/null must not be replaced
        else:
            _replace(path.resolve(), content)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _unwritable(path: Path, reason: str) -> UserError:
    remedy = "Name a file in a folder that exists and can be written."
    return UserError(f"the report cannot be written: {reason}", where=str(path), remedy=remedy)
