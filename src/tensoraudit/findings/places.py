"""When two findings, or a finding and a divergence, are at one place. Knows places only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from tensoraudit.facts import Site

_SOURCE_LINE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?::.*)?", re.DOTALL)


def names_of(where: Site) -> Iterator[tuple[Any, ...]]:
    """Yield everything that a place can be recognised by; nothing for a place that says nothing."""
    if where.line is not None:
        yield ("line", where.path, where.cell, where.line)
    # A graph's file lies in another folder at each run, and two routes write two files: the name is what counts.
    for kind in ("node", "tensor", "variable"):
        name = getattr(where, kind)
        if name:
            yield (kind, name)


def same_place(first: Site, second: Site) -> bool:
    """Tell whether two places share a source line, node, tensor or variable, or the whole of a file."""
    shared = set(names_of(first)) & set(names_of(second))
    whole = first == second and first.path is not None
    return bool(shared) or whole


def is_nowhere(where: Site) -> bool:
    """Tell whether a place says nothing, as for what is measured of a whole model."""
    return where.path is None and not any(True for _ in names_of(where))


def parse_source_line(text: str) -> tuple[str, int] | None:
    """Read `path:line` or `path:line: source text`; None for anything else."""
    match = _SOURCE_LINE.fullmatch(text.strip())
    return (match["path"], int(match["line"])) if match else None


def on_line(where: Site, path: str, line: int) -> bool:
    """Tell whether a place covers a line of a file; of two paths one may be relative."""
    if where.line is None or where.path is None or where.cell is not None:
        return False
    if not where.line <= line <= (where.end_line or where.line):
        return False
    first, second = PurePath(where.path).parts, PurePath(path).parts
    shorter = min(len(first), len(second))
    return shorter > 0 and first[-shorter:] == second[-shorter:]
