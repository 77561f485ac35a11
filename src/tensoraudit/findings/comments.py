"""Find `# tensoraudit: ignore[...]` comments in Python source and notebooks, and the statement that each stands in.

Reads text only; it must not know findings or rules.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from tensoraudit.extract.notebooks import is_notebook, read_notebook
from tensoraudit.extract.python_files import UnreadableFile, read_text
from tensoraudit.facts import Site
from tensoraudit.findings.suppress import Suppression

_COMMENT = re.compile(r"#\s*tensoraudit:\s*(?P<kind>[\w-]+)(?:\[(?P<rules>[^\]]*)\])?(?P<reason>.*)")
_KINDS = ("ignore", "file-ignore")
MARK = "tensoraudit:"


def read_comments(files: Iterable[tuple[Path, str]]) -> list[Suppression]:
    """Return the suppressions in files given as (path, the path that findings show). Unreadable files have none."""
    return [each for path, shown in files for each in _read_file(path, shown)]


def _read_file(path: Path, shown: str) -> list[Suppression]:
    try:
        if is_notebook(path):
            cells = read_notebook(path).cells
            return [each for cell in cells for each in comments_in(cell.text, shown, cell.number)]
        return comments_in(read_text(path), shown)
    except UnreadableFile:
        return []


def comments_in(text: str, shown: str, cell: int | None = None) -> list[Suppression]:
    """Return the suppressions in one source text, or in the text of one cell."""
    if MARK not in text:
        return []
    spans = sorted(_statements(text), key=lambda span: span[1] - span[0])
    return [_suppression(match, Site(path=shown, line=line, cell=cell), spans) for line, match in _comments(text)]


def _comments(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.match(token.string)) and _is_meant(match):
                yield token.start[0], match
    except (tokenize.TokenError, SyntaxError):
        return  # what stands before the fault has been read


def _is_meant(match: re.Match[str]) -> bool:
    """Tell whether a comment is a suppression, or a misspelt one, which is kept to be reported: it silences nothing."""
    return bool(get_close_matches(match["kind"].lower(), _KINDS, n=1))


def _suppression(match: re.Match[str], at: Site, spans: list[tuple[int, int]]) -> Suppression:
    line = at.line or 1
    named = (match["rules"] or "") if match["kind"] in _KINDS else ""
    rules = tuple(rule.strip() for rule in named.split(",") if rule.strip())
    whole_file = match["kind"] == "file-ignore"
    start, end = next(((s, e) for s, e in spans if s <= line <= e), (line, line))
    return Suppression(
        rules,
        match["reason"].strip(" \t:-"),
        "comment",
        at=at,
        path=at.path,
        line=None if whole_file else start,
        end_line=None if whole_file else end,
        cell=at.cell,
    )


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Lines of every statement; of a compound one, of its head only."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        head = max(node.lineno, body[0].lineno - 1) if isinstance(body, list) and body else node.end_lineno
        yield node.lineno, head or node.lineno
