"""A compiled pattern and how it is asked of one fact. Knows nothing of YAML or of how candidates are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensoraudit.facts import Fact
from tensoraudit.facts.store import FactStore, key_of
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth
from tensoraudit.language.names import NamePattern


@dataclass(slots=True)
class Context:
    """What a question may look at beside its fact: the store, what the anchor captured, and answers already known."""

    store: FactStore
    captures: Mapping[str, str] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)


Question = Callable[[Any, Context], Truth]
"""Asked of a fact (of None in `when`)."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold; `label` and the place are for people. `cost` puts look-ups after field tests."""

    label: str
    line: int
    column: int
    test: Question
    cost: int = 0


class Body(NamedTuple):
    """What must hold of a fact. `open_world` tells that the absence of code takes part, which can never be certain."""

    conditions: tuple[Condition, ...]
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of fact, the names it may have (none: any name) and what must hold of it.

    `body` gives what must hold, and may compile it only then: most rules of a large set never see a candidate.
    `finder` is a second field that finds facts when the names cannot, with its name patterns.
    """

    kind: str
    names: tuple[NamePattern, ...]
    body: Callable[[], Body]
    finder: tuple[str, tuple[NamePattern, ...]] | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What must hold, the cheap first."""
        return self.body().conditions

    @property
    def open_world(self) -> bool:
        """Whether the absence of code takes part."""
        return self.body().open_world

    @property
    def captures(self) -> frozenset[str]:
        """The names that its own names bind."""
        return frozenset(capture for name in self.names for capture in name.captures)


def ask(conditions: Iterable[Condition], fact: Any, context: Context) -> Truth:
    """Return the least answer of the conditions, stopping at the first no."""
    answer = YES
    for condition in conditions:  # the busiest line of matching: `all_of` over a generator takes twice as long
        found = condition.test(fact, context)
        if found is NO:
            return NO
        if found is UNKNOWN:
            answer = UNKNOWN
    return answer


def ask_pattern(pattern: Pattern, fact: Fact, context: Context) -> Truth:
    """Ask a pattern of a fact of its kind: its name first, then its conditions."""
    named = name_answer(pattern, fact, context)
    return named if named is NO else min(named, ask(pattern.conditions, fact, context))


def name_answer(pattern: Pattern, fact: Fact, context: Context) -> Truth:
    """Tell whether the fact's name is among the pattern's."""
    if pattern.names:
        key = key_of(pattern.kind, fact)
        if not any(name.match(key) is not None for name in bound_names(pattern, context)):
            return NO
    return certainty_of_name(fact, bound_names(pattern, context))


def certainty_of_name(fact: Fact, names: tuple[NamePattern, ...]) -> Truth:
    """Return unknown where a name has several bindings, unless `names` match all of them."""
    if not getattr(fact, "ambiguous", False):
        return YES
    meanings: tuple[str, ...] = getattr(fact, "meanings", ())
    all_meant = meanings and all(any(name.match(each) is not None for name in names) for each in meanings)
    return YES if all_meant else UNKNOWN


def bound_names(pattern: Pattern, context: Context) -> tuple[NamePattern, ...]:
    """Return the names with the anchor's captures put in."""
    if not context.captures:
        return pattern.names
    return tuple(name.bind(context.captures) for name in pattern.names)
