"""What a finding is, whatever line it stands on. Knows nothing of rules beyond their id.

A fingerprint is the first 16 hexadecimal digits of a SHA-256 over: rule id, side, file (for code and weights), name of
the enclosing scope, and the anchor's own text; for graphs the graph's path, operator, attributes and node name instead
of the file, because a converted file lies in another folder at each run. Equal ones are told apart by their ordinal in
the file. Never a line number: code that moves stays the same finding.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from tensoraudit.facts import Fact, Measurement, Name, Node, Unknown, Value
from tensoraudit.facts.store import KEYS, FactStore, key_of, side_of, site_of

_PARTS: Mapping[str, tuple[str, ...]] = {
    "call": ("args", "assigned"),
    "reference": ("store", "value"),
    "operation": ("operands",),
    "import": ("names",),
    "node": ("graph", "domain", "name", "outputs", "attributes"),
    "value": ("graph", "role"),
    "measurement": ("subject", "target"),
}
"""The fields beside the name that make an anchor what it is."""


def identity(kind: str, fact: Fact, store: FactStore) -> str:
    """Return the text that names a fact: with the rule's id before it and its ordinal behind, it names a finding."""
    scope = next((scope.name for scope in store.code.scopes_around(fact)), "")
    own = [f"{field}={_text(getattr(fact, field))}" for field in _PARTS.get(kind, ())]
    file = "" if isinstance(fact, Node | Value | Measurement) else _file(site_of(fact).path)
    return "\n".join([side_of(fact), file, scope, KEYS[kind], key_of(kind, fact), *own])


def fingerprints(identities: Iterable[str]) -> list[str]:
    """Return a fingerprint for each, equal identities numbered in their order."""
    seen: Counter[str] = Counter()
    found = []
    for text in identities:
        seen[text] += 1
        found.append(hashlib.sha256(f"{text}\n{seen[text]}".encode("utf-8", "surrogateescape")).hexdigest()[:16])
    return found


@lru_cache(maxsize=4096)
def _file(path: str | None) -> str:
    """Return the path with forward slashes; of an absolute one (outside the scanned folder) only the name."""
    if path is None:
        return ""
    pure = PurePath(path)
    return pure.name if pure.is_absolute() else pure.as_posix()


def _text(value: Any) -> str:
    """Return a value's text, the same at every run: mappings sorted, what is not known without its reason."""
    if isinstance(value, Mapping):
        rows = sorted((str(key), _text(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in rows) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, Name):
        return value.name
    return "?" if isinstance(value, Unknown) else repr(value)
