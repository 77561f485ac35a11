"""`inside`: the blocks, functions and classes around a fact in source. Knows nothing of YAML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensoraudit.facts import Block, Fact, Scope
from tensoraudit.facts.store import FactStore
from tensoraudit.language.handover import Handover, handed_over
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth, any_of, truth
from tensoraudit.language.names import NamePattern
from tensoraudit.language.pattern import Context, Question

Names = tuple[NamePattern, ...] | None
"""Patterns for a name; None: any."""


def in_block(kind: str, names: Names) -> Question:
    """Ask whether a block of this kind stands around, with one of `names` in its head.

    A `with` over an object whose making is not known may be any context manager: unknown. The names in the test of an
    `if` or a loop are only read, so they are what they are.
    """

    def test(fact: Any, context: Context) -> Truth:
        blocks: Sequence[Block] = getattr(fact, "blocks", ())
        return any_of(_head(block, names, context.store) for block in blocks if block.kind == kind)

    return test


def _head(block: Block, names: Names, store: FactStore) -> Truth:
    if names is None or any(_matches(names, name) for name in block.names):
        return YES
    if block.kind == "with" and not (block.names and all(store.code.is_external(name) for name in block.names)):
        return UNKNOWN
    return NO


@dataclass(frozen=True, slots=True)
class Around:
    """A function or class to stand in, with what its decorators or bases must hold, or the calls it is passed to."""

    kind: str
    names: Names
    decorators: Names = None
    bases: Names = None
    passed: Handover | None = None


def in_scope(around: Around) -> Question:
    """Ask whether one of the scopes around is of this kind, with these names, decorators and bases."""

    def test(fact: Fact, context: Context) -> Truth:
        scopes = (scope for scope in context.store.code.scopes_around(fact) if scope.kind == around.kind)
        return any_of(_fits(scope, around, context.store) for scope in scopes)

    def passed(fact: Fact, context: Context) -> Truth:
        assert around.passed is not None
        handed = handed_over(around.passed, fact, context)
        scopes = (scope for scope in context.store.code.scopes_around(fact) if scope.id in handed)
        return any_of(min(handed[scope.id], _fits(scope, around, context.store)) for scope in scopes)

    if around.passed is not None:
        return passed

    return test


def _fits(scope: Scope, around: Around, store: FactStore) -> Truth:
    if around.names is not None and not any(_matches(around.names, name) for name in _both(scope.name)):
        return NO
    if around.decorators is not None and not _some(around.decorators, scope.decorators):
        return NO
    if around.bases is None:
        return YES
    definition = store.code.class_of(scope)
    return UNKNOWN if definition is None else truth(_some(around.bases, store.code.bases(definition)))


def _both(name: str) -> Iterable[str]:
    return (name, name.rpartition(".")[2])


def _matches(names: tuple[NamePattern, ...], name: str) -> bool:
    return any(pattern.match(name) is not None for pattern in names)


def _some(names: tuple[NamePattern, ...], found: Iterable[str]) -> bool:
    return any(_matches(names, name) for name in found)
