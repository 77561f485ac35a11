"""Patterns over dotted names: exact, `*`, `**`, `{capture}` and `?.method`. Knows nothing of facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

MAX_WILDCARDS = 6
"""Backtracking grows with the power of the wildcards; no sensible pattern has more than three."""

_PARTS = re.compile(r"(\*\*|\*|\{[A-Za-z_][A-Za-z_0-9]*\})")
_EXPRESSIONS = {"**": ".*", "*": r"[^.]*"}


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A compiled pattern. `expression` is its regular expression, None for an exact name; `prefix` and `suffix` are the
    literal text at the ends."""

    text: str
    expression: str | None
    captures: tuple[str, ...]
    prefix: str
    suffix: str

    @property
    def exact(self) -> bool:
        """Whether it is one name."""
        return self.expression is None

    @property
    def way(self) -> Literal["exact", "prefix", "suffix", "scan"]:
        """How an index finds what it matches: by the whole name, its literal beginning, its literal end, or not."""
        if self.expression is None:
            return "exact"
        if self.prefix:
            return "prefix"
        return "suffix" if self.suffix else "scan"

    @property
    def loose(self) -> bool:
        """Whether no literal text stands at either end, so that no index can find it."""
        return self.way == "scan"

    def match(self, name: str) -> Mapping[str, str] | None:
        """Return the captures, or None when `name` does not match."""
        if self.expression is None:
            return _NO_CAPTURES if name == self.text else None
        found = _regex(self.expression).fullmatch(name)
        return found.groupdict() if found else None

    def bind(self, captures: Mapping[str, str]) -> NamePattern:
        """Return the pattern with captures replaced by what they hold."""
        if not self.captures:
            return self
        parts = [_bound(part, captures) for part in _PARTS.split(self.text)]
        return _compile("".join(text for text, _ in parts), parts)


_NO_CAPTURES: Mapping[str, str] = {}


@lru_cache(maxsize=4096)
def _regex(expression: str) -> re.Pattern[str]:
    """Compile at the first name that comes so far: most patterns of a large set never see one."""
    return re.compile(expression, re.DOTALL)


@lru_cache(maxsize=4096)
def compile_name(text: str) -> NamePattern:
    """Compile `text`. Raises ValueError when it has more than `MAX_WILDCARDS` wildcards or an unfinished brace."""
    parts = [(part, _PARTS.fullmatch(part) is not None) for part in _PARTS.split(text)]
    if sum(wild for _, wild in parts) > MAX_WILDCARDS:
        raise ValueError(f"more than {MAX_WILDCARDS} wildcards in '{text}'")
    if any(brace in part for part, wild in parts if not wild for brace in "{}"):
        raise ValueError(f"a capture is written {{word}}; '{text}' has a brace that is none")
    return _compile(text, parts)


def literal_name(text: str) -> NamePattern:
    """Return the pattern that matches exactly `text`, whatever characters it holds."""
    return NamePattern(text, None, (), text, text)


def _bound(part: str, captures: Mapping[str, str]) -> tuple[str, bool]:
    if part.startswith("{") and part[1:-1] in captures:
        return captures[part[1:-1]], False
    return part, _PARTS.fullmatch(part) is not None


def _compile(text: str, parts: list[tuple[str, bool]]) -> NamePattern:
    parts = [(part, wild) for part, wild in parts if part]
    if not any(wild for _, wild in parts):
        return literal_name(text)
    seen: list[str] = []
    expression = "".join(_expression(part, wild, seen) for part, wild in parts)
    prefix, suffix = (("" if wild else part) for part, wild in (parts[0], parts[-1]))
    return NamePattern(text, expression, tuple(seen), prefix, suffix)


def _expression(part: str, wild: bool, seen: list[str]) -> str:
    if not wild:
        return re.escape(part)
    if part in _EXPRESSIONS:
        return _EXPRESSIONS[part]
    name = part[1:-1]
    if name in seen:
        return f"(?P={name})"
    seen.append(name)
    return f"(?P<{name}>.+)"
