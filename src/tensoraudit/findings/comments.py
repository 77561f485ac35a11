"""Find `# tensoraudit: ignore[...]` comments in Python source, and the statement that each stands in.

Reads text only; it must not know findings or rules.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from tensoraudit.facts import Site
from tensoraudit.findings.suppress import Suppression

_COMMENT = re.compile(r"#\s*tensoraudit:\s*(?P<kind>file-ignore|ignore)\b(?:\[(?P<rules>[^\]]*)\])?(?P<reason>.*)")
MARK = "tensoraudit:"


def read_comments(files: Iterable[tuple[Path, str]]) -> list[Suppression]:
    """Return the suppressions in files given as (path, the path that findings show). Unreadable files have none."""
    return [each for path, shown in files for each in _read_file(path, shown)]


def _read_file(path: Path, shown: str) -> list[Suppression]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    return comments_in(text, shown) if MARK in text else []


def comments_in(text: str, shown: str) -> list[Suppression]:
    """Return the suppressions in one source text."""
    spans = sorted(_statements(text), key=lambda span: span[1] - span[0])
    return [_suppression(match, line, shown, spans) for line, match in _comments(text)]


def _comments(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.match(token.string)):
                yield token.start[0], match
    except (tokenize.TokenError, SyntaxError):
        return  # what stands before the fault has been read


def _suppression(match: re.Match[str], line: int, shown: str, spans: list[tuple[int, int]]) -> Suppression:
    rules = tuple(rule.strip() for rule in (match["rules"] or "").split(",") if rule.strip())
    whole_file = match["kind"] == "file-ignore"
    start, end = next(((s, e) for s, e in spans if s <= line <= e), (line, line))
    return Suppression(
        rules,
        match["reason"].strip(" \t:-"),
        "comment",
        at=Site(path=shown, line=line),
        path=shown,
        line=None if whole_file else start,
        end_line=None if whole_file else end,
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
