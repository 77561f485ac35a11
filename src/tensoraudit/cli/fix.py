"""`tensoraudit fix`: mechanical repairs of what rules find in source files."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tensoraudit.cli import arguments as a
from tensoraudit.errors import InputError
from tensoraudit.facts import Site
from tensoraudit.options import make_options
from tensoraudit.report.clean import clean
from tensoraudit.report.writers import write_out

if TYPE_CHECKING:
    from tensoraudit.cli.fix_rounds import Change, Left, Repair

USER = 2
NOT_WRITTEN = "the file was not written"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def fix(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Python files or folders.")],
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Also changes that may alter what the code means.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the changes as a unified diff; write nothing.")] = False,
    fail_on: a.FailOn = None,
    baseline: a.Baseline = None,
    rules: a.Rules = None,
) -> int:
    """Mend findings in source where the rule has a mechanical fix; the exit code is that of lint on the result."""
    from tensoraudit.cli.fix_rounds import repair

    options = make_options({"code": paths, "fail_on": fail_on, "baseline": baseline, "rules": rules})
    done = repair(options, unsafe=unsafe)
    if diff:
        _print_diff(done, options.root.resolve())
        _print_lines(_report(done, {}, "would be mended"), sys.stderr)
        return done.result.exit_code
    failed = _write(done)
    _print_lines(_report(done, failed, "mended"), sys.stdout)
    for error in failed.values():
        print(f"tensoraudit: {error}", file=sys.stderr)
    return USER if failed else done.result.exit_code


def _write(done: Repair) -> dict[Path, InputError]:
    """Write every file that changes; one that cannot be written does not hinder the others."""
    from tensoraudit.cli.fix_files import write_file

    failed: dict[Path, InputError] = {}
    for path, data in done.contents.items():
        try:
            write_file(path, data, done.before[path])
        except InputError as error:
            failed[path] = error
    return failed


def _report(done: Repair, failed: Mapping[Path, InputError], verb: str) -> Iterator[str]:
    from tensoraudit.cli.fix_rounds import Left

    changes = [each for each in done.changes if each.path not in failed]
    left = [*done.left, *(Left(each.finding, NOT_WRITTEN) for each in done.changes if each.path in failed)]
    yield from _changes(changes)
    yield from _left(left)
    yield from (f"note: {note}" for note in done.result.notes if note.startswith("not read:"))
    more = sum("--unsafe" in each.reason for each in left)
    hint = f" ({more} with --unsafe)" if more else ""
    files = len({each.finding.where.path for each in changes})
    yield f"{_count(len(changes), 'finding')} {verb} in {_count(files, 'file')}, {len(left)} left{hint}"


def _changes(changes: Iterable[Change]) -> Iterator[str]:
    files: dict[str, list[Change]] = {}
    for each in changes:
        files.setdefault(each.finding.where.path or "", []).append(each)
    for path, rows in files.items():
        yield path
        yield from (f"  {each.finding.where.line}  {each.finding.rule}  {each.what}" for each in rows)


def _left(left: Iterable[Left]) -> Iterator[str]:
    rows = [f"  {_place(each.finding.where)}  {each.finding.rule}  {each.reason}" for each in left]
    if rows:
        yield "not fixed"
        yield from rows


def _place(where: Site) -> str:
    parts = (where.path, where.cell and f"cell {where.cell}", where.line)
    return ":".join(str(part) for part in parts if part) or "the whole project"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _print_lines(lines: Iterable[str], file: TextIO) -> None:
    for line in lines:
        write_out(f"{clean(line)}\n", file)


def _print_diff(done: Repair, root: Path) -> None:
    from tensoraudit.fixes.encoded import read_source

    for path, data in done.contents.items():
        shown = _quoted(path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix())
        old, new = (_LINE.findall(read_source(each).text) for each in (done.before[path], data))
        for line in difflib.unified_diff(old, new, shown, shown):
            whole = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            write_out(clean(whole) if sys.stdout.isatty() else whole, sys.stdout)


def _quoted(path: str) -> str:
    """Return a path as git and patch write one whose characters could end the line of a diff."""
    if path.isprintable():
        return path
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{"".join(plain)}"'
