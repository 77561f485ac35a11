"""What a rule costs: how its anchors are found, and how many facts it is tried on. Asks no rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensoraudit.facts.store import FactStore
from tensoraudit.language.index import found_by
from tensoraudit.language.names import NamePattern
from tensoraudit.language.pattern import Pattern
from tensoraudit.language.relations import SEARCHES
from tensoraudit.language.rule import Rule

WAYS: Final = ("exact", "prefix", "suffix", "scan")
"""How an index finds a name, from cheap to dear. A beginning or an end costs one look-up a name for each length that
occurs among the rules; a scan tries every fact of its kind."""


@dataclass(frozen=True, slots=True)
class AnchorCost:
    """How one alternative is found: `way` is the dearest of its names', `by` the field that is looked up.

    `candidates` is how many facts it is tried on; None when no store was given. `searches` are the relations in it that
    look at many facts (`exists`, `absent`, `upstream`, `downstream`), each at most once for each candidate.
    """

    kind: str
    by: str
    way: str
    names: tuple[str, ...]
    candidates: int | None
    searches: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a rule costs. `scan` is what the rule says of itself: it may be tried on every fact of a kind."""

    rule: str
    scan: bool
    anchors: tuple[AnchorCost, ...]

    @property
    def way(self) -> str:
        """The dearest way in which an anchor is found."""
        return max((anchor.way for anchor in self.anchors), key=WAYS.index)

    @property
    def candidates(self) -> int | None:
        """How many facts the rule is tried on; None when no store was given."""
        found = [anchor.candidates for anchor in self.anchors if anchor.candidates is not None]
        return sum(found) if len(found) == len(self.anchors) else None


def cost(rule: Rule, store: FactStore | None = None) -> Cost:
    """Return how the anchors of a rule are found and, over the facts of `store`, how many they are."""
    anchors = (_anchor(alternative.pattern, store) for alternative in rule.alternatives)
    return Cost(rule.id, rule.scan, tuple(anchors))


def _anchor(pattern: Pattern, store: FactStore | None) -> AnchorCost:
    by, names = found_by(pattern)
    way = max((name.way for name in names), key=WAYS.index)
    candidates = None if store is None else _candidates(pattern.kind, by, names, store)
    searches = sum(condition.label in SEARCHES for condition in pattern.conditions)
    return AnchorCost(pattern.kind, by, way, tuple(name.text for name in names), candidates, searches)


def _candidates(kind: str, by: str, names: tuple[NamePattern, ...], store: FactStore) -> int:
    return sum(
        len(facts) for key, facts in store.keyed(kind, by).items() if any(name.match(key) is not None for name in names)
    )
