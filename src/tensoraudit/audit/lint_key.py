"""What the result of `lint` depends on, as one digest: same digest, same result. Reads files, runs and imports nothing.

In it are tensoraudit itself, the interpreter, the options, the rules, what is installed, the variables that rules may
ask for, the baseline, and of every file that is read its name, its module and its bytes. Whatever is added to `lint`
and depends on something else must be added here too.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from tensoraudit.errors import UserError
from tensoraudit.extract.environment import read_environment
from tensoraudit.extract.notebooks import largest_file
from tensoraudit.extract.python_files import PythonFile, Skipped, UnreadableFile, find_files, read_bytes
from tensoraudit.language.packs import rule_folders
from tensoraudit.options import Options
from tensoraudit.version import __version__

_LAYOUT: Final = "1"
"""Of the parts below. A new number forgets every result that is kept."""

EXTRACTORS: Final = "tensoraudit.extractors"
"""Facts that other people's code derives: nobody can tell what they depend on."""

_METADATA_FOLDERS: Final = (".dist-info", ".egg-info", ".egg-link")


def lint_key(options: Options) -> str | None:
    """Return the digest for `options`, or None when it cannot be known: then nothing may be kept or recalled."""
    if entry_points(group=EXTRACTORS):
        return None
    try:
        return _digest(part for parts in _PARTS for part in ("\0", *parts(options)))
    except (OSError, UserError, ValueError):
        return None


def _digest(parts: Iterable[str | bytes]) -> str:
    """Digest parts with their lengths, so that no two lists of parts look the same."""
    state = hashlib.blake2b(digest_size=32)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


def _tool(options: Options) -> Iterator[str]:
    """The version, and when each of our own files was written: in a checkout the version stays while the code moves."""
    yield from (_LAYOUT, __version__, sys.version)
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        yield _stamp(path)


def _options(options: Options) -> Iterator[str]:
    """All but how the report is shown; the day only where a suppression may end on it."""
    yield repr(replace(options, report=(), quiet=False, color=True, verbose=False))
    yield str(options.root.resolve())
    if "until" in repr(options.ignore):  # whose entries nobody has looked at yet
        yield datetime.now(UTC).date().isoformat()


def _rules(options: Options) -> Iterator[str | bytes]:
    for folder in rule_folders(options.rules, options.root):
        yield str(folder)
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.is_file():
                yield from (str(path), path.read_bytes())


def _packages(options: Options) -> Iterator[str]:
    """The folders that installers write beside the code: their names hold the version."""
    for place in dict.fromkeys(sys.path):
        yield place
        try:
            entries = sorted(os.scandir(place or "."), key=lambda entry: entry.name)
        except OSError:
            yield _stamp(Path(place))  # an archive on the path, or nothing
            continue
        for entry in entries:
            if entry.name.endswith(_METADATA_FOLDERS):
                yield _stamp(Path(entry.path))
                yield _stamp(Path(entry.path, "METADATA"))


def _stamp(path: Path) -> str:
    try:
        state = path.stat()
    except OSError:
        return f"{path} is missing"
    return f"{path} {state.st_mtime_ns} {state.st_size}"


def _variables(options: Options) -> Iterator[str]:
    yield from map(repr, read_environment("both", packages={}))


def _baseline(options: Options) -> Iterator[bytes]:
    if options.baseline is not None:
        yield Path(options.baseline).read_bytes()


def _files(options: Options) -> Iterator[str | bytes]:
    for found in find_files(options.source_paths(), options.root.resolve()):
        yield from _file(found)


def _file(found: PythonFile | Skipped) -> Iterator[str | bytes]:
    if isinstance(found, Skipped):
        yield repr(found)
        return
    yield from (found.shown, found.module)
    try:
        yield read_bytes(found.path, largest_file(found.path), "too large")
    except UnreadableFile as error:
        yield f"unreadable: {error}"


_PARTS: Final = (_tool, _options, _rules, _packages, _variables, _baseline, _files)
