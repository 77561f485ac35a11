"""Reading the fields of facts: one value as a rule sees it. Knows nothing of YAML or of patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from tensoraudit.extract.signatures import by_name_only
from tensoraudit.facts import ABSENT, ClassDef, Name, Unknown
from tensoraudit.facts.graph_index import UNSURE
from tensoraudit.facts.store import KEYS, FactStore, key_of, site_of
from tensoraudit.language.equality import Test
from tensoraudit.language.pattern import Question
from tensoraudit.language.schema import ANCHORS, ARGUMENT, COMMON, CONSTANT, DATA

Getter = Callable[[Any, FactStore], Any]


def field_getter(kind: str, field: str) -> Getter:
    """Return what reads a field of a fact of this kind. Where None says that nothing is there it is read as ABSENT."""
    if field == "path":
        return lambda fact, store: site_of(fact).path or ABSENT
    if field == "written":  # a call that was not read from source has no text
        return lambda fact, store: fact.written or ABSENT
    if field == "bases":
        return lambda fact, store: store.code.bases(fact) if isinstance(fact, ClassDef) else ABSENT
    if field in ("name", KEYS[kind]) and field not in ANCHORS[kind]:
        return lambda fact, store: key_of(kind, fact)
    types = {**COMMON, **ANCHORS[kind]}
    if types.get(field) in (DATA, ARGUMENT, CONSTANT):
        return lambda fact, store: getattr(fact, field)

    def read(fact: Any, store: FactStore) -> Any:
        value = getattr(fact, field, ABSENT)
        return ABSENT if value is None else value

    return read


def field_question(get: Getter, test: Test) -> Question:
    """Return the question whether a field passes a value test."""
    return lambda fact, context: test(get(fact, context.store), context.store)


@cache
def known_fields(kind: str) -> frozenset[str]:
    """Return the fields that a path or placeholder may begin with."""
    return frozenset({*ANCHORS[kind], *COMMON, KEYS[kind], "name"}) - {"effective"}  # a test, not a thing to show


def path_getter(kind: str, path: str) -> Getter:
    """Return what reads `field`, `field.key`, `field.0` or `args.0.key`. The first part must be a known field."""
    first, *rest = path.split(".", 1)
    if first == "args" and rest:
        key, *below = rest[0].split(".", 1)
        keys = argument_keys(key)
        if not below:
            return lambda fact, store: argument(fact, keys)
        return lambda fact, store: _step(argument(fact, keys), below[0])
    get = field_getter(kind, first)
    if not rest:
        return get
    step = rest[0]
    return lambda fact, store: _step(get(fact, store), step)


ARGUMENT_NAME: Final = re.compile(r"\w+(\|\w+)*")
"""How a rule names an argument: `f`, `0`, `0|f`."""


def argument_keys(text: str) -> tuple[int | str, ...]:
    """Split `0|f` into the keys under which an argument may stand, keywords first."""
    parts = text.split("|")
    return tuple(
        sorted((int(part) if part.isdigit() else part for part in parts), key=lambda key: isinstance(key, int))
    )


def argument(fact: Any, keys: Iterable[int | str]) -> Any:
    """Return an argument of a call: ABSENT when it is not passed, `UNSURE` when `*` or `**` may hold it. `*` holds no
    parameter that is passed by name only."""
    for key in keys:
        if key in fact.args:
            return fact.args[key]
    if not fact.splat or (not fact.double_splat and by_name_only(fact.callee, tuple(keys))):
        return ABSENT
    return UNSURE


def _step(value: Any, key: str) -> Any:
    if isinstance(value, Unknown | Name):
        return value
    if isinstance(value, Mapping):
        return value.get(key, value.get(int(key), ABSENT) if key.lstrip("-").isdigit() else ABSENT)
    if isinstance(value, list | tuple) and key.lstrip("-").isdigit():
        index = int(key)
        return value[index] if -len(value) <= index < len(value) else ABSENT
    return ABSENT
