"""Texts with placeholders that a match fills. Knows nothing of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensoraudit.facts import ABSENT, Fact, Name, Node, Unknown
from tensoraudit.facts.store import FactStore, key_of, site_of
from tensoraudit.language.fields import argument, argument_keys, known_fields, path_getter
from tensoraudit.language.problems import nearest

_PARTS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Template:
    """A text in parts; a placeholder is kept by its name."""

    text: str
    parts: tuple[tuple[str, str | None], ...]

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders, in order."""
        return tuple(name for _, name in self.parts if name is not None)

    def render(
        self, kind: str, fact: Fact, captures: Mapping[str, str], store: FactStore
    ) -> tuple[str, tuple[str, ...]]:
        """Return the text, and the placeholders whose values are not known or absent."""
        missing: list[str] = []
        pieces = []
        for literal, name in self.parts:
            pieces.append(literal)
            if name is not None:
                value = captures[name] if name in captures else _reader(kind, name)(fact, store)
                if value is ABSENT or isinstance(value, Unknown):
                    missing.append(name)
                pieces.append(show(value))
        return "".join(pieces), tuple(missing)


def parse_template(text: str) -> Template:
    """Split a text at its placeholders; `{{` and `}}` are braces."""
    parts: list[tuple[str, str | None]] = []
    literal, last = "", 0
    for found in _PARTS.finditer(text):
        literal += text[last : found.start()]
        last = found.end()
        if found[1] is None:
            literal += found[0][0]
        else:
            parts.append((literal, found[1]))
            literal = ""
    parts.append((literal + text[last:], None))
    return Template(text, tuple(parts))


def unknown_placeholder(template: Template, kind: str, captures: frozenset[str]) -> str | None:
    """Return what is wrong with the first placeholder that a match of this kind cannot fill."""
    for name in template.placeholders:
        prefix, colon, _ = name.partition(":")
        if colon and (prefix, kind) in _PREFIXES:
            continue
        first = name.partition(".")[0]
        if colon or not (first in captures or first in known_fields(kind) or first in _PLACE):
            known = captures | known_fields(kind) | set(_PLACE)
            return f"'{{{name}}}' is nothing that a {kind} can fill{nearest(name, sorted(known))}"
    return None


def show(value: Any) -> str:
    """Return a value as a reader wants to see it in a sentence."""
    if value is ABSENT:
        return "not given"
    if isinstance(value, Unknown):
        return "not known"
    if isinstance(value, Name):
        return value.name
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        text = "[" + ", ".join(map(show, value)) + "]"
    else:
        text = json.dumps(value) if isinstance(value, bool | float | None) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_Reader = Callable[[Any, FactStore], Any]


def _reader(kind: str, name: str) -> _Reader:
    prefix, colon, rest = name.partition(":")
    if colon:
        return _PREFIXES[prefix, kind](rest)
    if name in _PLACE:
        return _PLACE[name]
    if name == "name":
        return lambda fact, store: _name(kind, fact)
    return path_getter(kind, name)


def _name(kind: str, fact: Fact) -> str:
    """Return what a reader calls the fact: a node without a name by its first output."""
    if isinstance(fact, Node):
        return fact.name or next(iter(fact.outputs), fact.op)
    own = getattr(fact, "name", None)
    return str(own) if own else key_of(kind, fact)


def _argument(rest: str) -> _Reader:
    keys = argument_keys(rest)
    return lambda fact, store: argument(fact, keys)


def _attribute(rest: str) -> _Reader:
    return lambda fact, store: fact.attributes.get(rest, ABSENT)


_PREFIXES: Mapping[tuple[str, str], Callable[[str], _Reader]] = {
    ("arg", "call"): _argument,
    ("attribute", "node"): _attribute,
}


def _place(field: str) -> _Reader:
    return lambda fact, store: _or_absent(getattr(site_of(fact), field))


def _or_absent(value: Any) -> Any:
    return ABSENT if value is None else value


_PLACE: Mapping[str, _Reader] = {
    "path": _place("path"),
    "line": _place("line"),
    "node": lambda fact, store: _name("node", fact) if isinstance(fact, Node) else _or_absent(site_of(fact).node),
    "tensor": _place("tensor"),
    "variable": _place("variable"),
}
