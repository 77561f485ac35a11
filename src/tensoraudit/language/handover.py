"""`passed-to`: does code stand in a function that is handed to a call, or wrapped by one as decorator. No YAML here.

All calls that fit are asked once, and what runs when they do is gone through once, whatever the number of facts that
ask afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tensoraudit.facts import Call, Fact, Scope
from tensoraudit.facts.call_graph import Reach
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth
from tensoraudit.language.pattern import Context, Pattern, ask, ask_pattern, bound_names, certainty_of_name
from tensoraudit.language.search import matching_keys

FUNCTIONS: Final = ("function", "lambda")


@dataclass(frozen=True, slots=True)
class Handover:
    """Calls that are handed a function, and the keys of the argument that holds it. With `known` a function that is not
    known counts as none; `captured` as in `Search`."""

    pattern: Pattern
    keys: tuple[int | str, ...]
    known: bool = False
    captured: bool = False


@dataclass(slots=True)
class _Region:
    """All code that the calls run. `open_` are the files in which one of them is handed something that is not known,
    each with the functions around such calls: what hands over is hardly what is handed over."""

    reach: Reach
    open_: dict[str | None, frozenset[int]] = field(default_factory=dict)


def handed_over(handover: Handover, fact: Fact, context: Context) -> dict[int, Truth]:
    """Return, for the functions around a fact, whether they are handed over; functions that are not have no entry."""
    region = _region(handover, context)
    code = context.store.code
    around = [scope for scope in code.scopes_around(fact) if scope.kind in FUNCTIONS]
    if not around:
        return {}
    inside = [region.reach.scopes[scope.id] for scope in around if scope.id in region.reach.scopes]
    part = context.store.calls.part(fact)
    if part in region.reach.parts:
        inside.append(region.reach.parts[part])
    if inside:
        answer = YES if any(inside) else UNKNOWN
    else:
        own = next((scope for scope in around if scope.kind == "function"), around[0])
        excluded = region.open_.get(own.at.path)
        answer = NO if excluded is None or own.id in excluded or _is_special(own) else UNKNOWN
    return {} if answer is NO else {scope.id: answer for scope in around}


def _is_special(scope: Scope) -> bool:
    last = scope.name.rpartition(".")[2]
    return last.startswith("__") and last != "__call__"


def _region(handover: Handover, context: Context) -> _Region:
    captures = tuple(sorted(context.captures.items())) if handover.captured else ()
    key = (id(handover), captures)
    if key not in context.memo:
        context.memo[key] = _built(handover, context)
    found: _Region = context.memo[key]
    return found


def _built(handover: Handover, context: Context) -> _Region:
    store = context.store
    region = _Region(Reach())
    for call, answer in _calls(handover, context):
        handed = store.calls.given(call, handover.keys)
        region.reach.add(handed, answer is YES)
        for part, sure in handed.parts.items():
            region.reach.parts[part] = region.reach.parts.get(part, False) or (sure and answer is YES)
        if not handed.known and not handover.known:
            around = frozenset(scope.id for scope in store.code.scopes_around(call))
            region.open_[call.at.path] = region.open_.get(call.at.path, frozenset()) | around
    for name in matching_keys(bound_names(handover.pattern, context), store.calls.applied):
        for call, scope in store.calls.applied[name]:
            answer = ask_pattern(handover.pattern, call, context)
            if answer is not NO:
                region.reach.add(store.calls.defined(scope), answer is YES)
    region.reach = store.calls.reach(region.reach)
    return region


def _calls(handover: Handover, context: Context) -> Iterator[tuple[Call, Truth]]:
    index = context.store.keyed("call")
    names = bound_names(handover.pattern, context)
    for key in matching_keys(names, index):
        for call in index[key]:
            answer = min(certainty_of_name(call, names), ask(handover.pattern.conditions, call, context))
            if answer is not NO and isinstance(call, Call):
                yield call, answer
