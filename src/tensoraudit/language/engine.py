"""Asking all rules of all facts. Knows nothing of any single rule, of YAML, or of how findings are shown.

The walk goes over the distinct names of the facts, finds the rules that may match each (index.py), and only then looks
at the facts themselves, so that the work grows with candidates. Measurements are facts like others; rules anchored at
them are asked with `only="measurements"` once the probes have run. There is no recursion between rules, so that it
always ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tensoraudit.facts import Call, Fact, Node, Reference, Site, Tensor, Value
from tensoraudit.facts.store import KEYS, FactStore, key_of, site_of
from tensoraudit.fixes.verbs import Fix
from tensoraudit.language.fingerprint import fingerprints, identity
from tensoraudit.language.index import Entry
from tensoraudit.language.kleene import NO, UNKNOWN, Truth
from tensoraudit.language.load import RuleSet
from tensoraudit.language.pattern import Context, ask, certainty_of_name
from tensoraudit.language.rule import Rule

_ORDER = ("certain", "likely", "suspected")


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that holds (or may hold) of a fact.

    `state` is `certain`, `likely`, `suspected` or `advice`. `where` is the place to show; `kind` the anchor's kind.
    `target` is the framework that the scan goes to, which tells measurements of several targets apart; `fix` is the
    verb or the words of the pattern that matched, and `refutable` tells whether a probe may refute it.
    """

    rule: Rule
    truth: Truth
    state: str
    kind: str
    anchor: Fact
    captures: Mapping[str, str]
    where: Site
    message: str
    fingerprint: str
    side: str
    target: str
    fix: str | Fix = ""
    refutable: bool = True


def match_rules(
    rules: RuleSet,
    store: FactStore,
    *,
    source: str,
    target: str,
    only: Literal["facts", "measurements"] | None = None,
) -> list[Match]:
    """Return every match of every live rule, in the order of rule id, then place.

    `source` and `target` are the frameworks of the migration; an empty one lets every rule live. `only` limits the
    walk to rules anchored at measurements, or to all others.
    """
    context = Context(store)
    walk = _Walk(rules, context, _live(rules, context, source, target), target)
    best: dict[Any, Match] = {}
    for kind, by in rules.index.fields():
        if only is not None and (kind == "measurement") != (only == "measurements"):
            continue
        for match in walk.over(kind, by):
            key = (match.rule.id, kind, _place(match.anchor, match.where))
            if key not in best or best[key].truth < match.truth:
                best[key] = match
    return _finished(best.values(), store)


def _live(rules: RuleSet, context: Context, source: str, target: str) -> dict[str, Truth]:
    """Return the rules that this migration concerns and whose `when` is not a no, with the answer of `when`."""
    concerned = (rule for rule in rules if not rule.deprecated and rule.concerns(source, target))
    answers = ((rule.id, ask(rule.when, None, context)) for rule in concerned)
    return {name: answer for name, answer in answers if answer is not NO}


@dataclass(frozen=True, slots=True)
class _Walk:
    """One pass over the names of the facts. `live` holds the answer of each live rule's `when`."""

    rules: RuleSet
    context: Context
    live: Mapping[str, Truth]
    target: str

    def over(self, kind: str, by: str) -> Iterator[Match]:
        """Yield the matches of all rules whose anchors the field `by` of this kind finds."""
        for key, facts in self.context.store.keyed(kind, by).items():
            for captures, entry in self.rules.index.lookup(kind, by, key):
                if entry.rule.id in self.live:
                    found = self._matches if by == KEYS[kind] else self._renamed
                    yield from found(entry, captures, facts)

    def _matches(self, entry: Entry, captures: Mapping[str, str], facts: Iterable[Fact]) -> Iterator[Match]:
        when, pattern = self.live[entry.rule.id], entry.alternative.pattern
        conditions = pattern.conditions
        self.context.captures = captures
        for fact in facts:
            answer = ask(conditions, fact, self.context)
            if answer is not NO:
                yield self._match(entry, captures, fact, min(when, certainty_of_name(fact, pattern.names), answer))

    def _renamed(self, entry: Entry, _: Mapping[str, str], facts: Iterable[Fact]) -> Iterator[Match]:
        """Facts that another field found are asked for their name too, which holds the captures."""
        pattern = entry.alternative.pattern
        for fact in facts:
            found = (name.match(key_of(pattern.kind, fact)) for name in pattern.names)
            captures = next((captures for captures in found if captures is not None), None)
            if captures is not None:
                yield from self._matches(entry, captures, (fact,))

    def _match(self, entry: Entry, captures: Mapping[str, str], fact: Fact, answer: Truth) -> Match:
        pattern, rule = entry.alternative.pattern, entry.rule
        message, _ = entry.alternative.message.render(pattern.kind, fact, captures, self.context.store)
        receiver_unknown = key_of(pattern.kind, fact).startswith("?.")
        return Match(
            rule=rule,
            truth=answer,
            state=state_of(answer, entry.alternative.certainty or rule.certainty, pattern.open_world, receiver_unknown),
            kind=pattern.kind,
            anchor=fact,
            captures=captures,
            where=_shown(fact),
            message=message,
            fingerprint="",
            side=str(getattr(fact, "side", "both")),
            target=self.target,
            fix=entry.alternative.fix,
            refutable=entry.alternative.refutable,
        )


def state_of(answer: Truth, cap: str, open_world: bool, receiver_unknown: bool) -> str:
    """Return the state of a match: at most `cap`, likely in an open world, suspected when anything is not known."""
    if cap == "advice":
        return cap
    claims = [cap]
    if open_world:
        claims.append("likely")
    if answer is UNKNOWN or receiver_unknown:
        claims.append("suspected")
    return max(claims, key=_ORDER.index)


def _shown(fact: Fact) -> Site:
    """Return the place to show, with the name of the node, value or tensor where the extractor left it out."""
    site = site_of(fact)
    if isinstance(fact, Node) and not site.node:
        return replace(site, node=fact.name or next(iter(fact.outputs), fact.op))
    if isinstance(fact, Value | Tensor) and not site.tensor:
        return replace(site, tensor=fact.name)
    return site


def _place(fact: Fact, where: Site) -> Any:
    """Return what two facts share when they are one thing to a reader: the same call or name with several
    possible meanings."""
    if isinstance(fact, Call | Reference) and where.line is not None:
        return (where.path, where.cell, where.line, where.column, where.end_line, where.end_column)
    return id(fact)


def _finished(matches: Iterable[Match], store: FactStore) -> list[Match]:
    """Order the matches and give each its fingerprint. Ordinals follow the order of places."""
    ordered = sorted(matches, key=_sort_key)
    named: dict[tuple[str, int], str] = {}
    """Texts of anchors: several rules may match one."""

    def text(match: Match) -> str:
        key = (match.kind, id(match.anchor))
        if key not in named:
            named[key] = identity(match.kind, match.anchor, store)
        return f"{match.rule.id}\n{named[key]}"

    for match, mark in zip(ordered, fingerprints(map(text, ordered)), strict=True):
        # Set once, before anybody has seen the match: a copy of each would be a tenth of all the work.
        object.__setattr__(match, "fingerprint", mark)
    return ordered


def _sort_key(match: Match) -> tuple[Any, ...]:
    where = match.where
    return (
        match.rule.id,
        where.path or "",
        where.cell or 0,
        where.line or 0,
        where.column or 0,
        where.node or where.tensor or "",
        match.kind,
    )
