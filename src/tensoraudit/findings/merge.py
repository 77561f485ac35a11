"""One finding for one thing. Knows neither rules nor grades beyond severity and state.

1. The same rule at the same place is one finding, whatever source it came from (two routes write the same node twice).
2. A rule that supersedes another takes its place where both speak of one thing: at one place, or when the other was
   measured of the whole model and this one is confirmed. A refuted finding supersedes nothing, and only a confirmed one
   supersedes a confirmed one.
3. What gives way leaves its rule in `also`, its evidence, and its severity if that is worse: merging must not make a
   model look better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tensoraudit.facts import Measurement
from tensoraudit.findings.finding import Finding, State
from tensoraudit.findings.places import is_nowhere, names_of, same_place
from tensoraudit.findings.severity import is_open, order_key, worse_of

_STRENGTH: Mapping[State, int] = {
    state: rank
    for rank, state in enumerate(
        [
            State.ADVICE,
            State.REFUTED,
            State.UNVERIFIED,
            State.SUSPECTED,
            State.LIKELY,
            State.CERTAIN,
            State.CONTRADICTORY,
            State.CONFIRMED,
        ]
    )
}
"""Of two findings that are one, the state that says most is kept."""


def merge(findings: Iterable[Finding], supersedes: Mapping[str, Collection[str]]) -> list[Finding]:
    """Return the findings merged and sorted, worst first. `supersedes` maps a rule to those that give way to it."""
    distinct = _merge_repeated(findings)
    by_rule: dict[str, list[int]] = {}
    for index, finding in enumerate(distinct):
        by_rule.setdefault(finding.rule, []).append(index)
    kept = dict(enumerate(distinct))
    moved: dict[int, set[int]] = {}
    for winner_rule, loser_rules in supersedes.items():
        for loser in (index for rule in loser_rules for index in by_rule.get(rule, ())):
            winners = [
                i for i in by_rule.get(winner_rule, ()) if i != loser and _gives_way(distinct[loser], distinct[i])
            ]
            heirs = {heir for index in winners for heir in _heirs(index, moved)} - {loser}
            for heir in heirs & kept.keys():
                kept[heir] = _absorb(kept[heir], kept.get(loser, distinct[loser]))
            if heirs:
                moved.setdefault(loser, set()).update(heirs)
                kept.pop(loser, None)
    return sorted(kept.values(), key=order_key)


def _heirs(index: int, moved: Mapping[int, set[int]]) -> set[int]:
    """Where a finding went that may itself have given way; rules that supersede each other in a circle end the walk."""
    found: set[int] = set()
    waiting, seen = [index], {index}
    while waiting:
        current = waiting.pop()
        if current not in moved:
            found.add(current)
        fresh = moved.get(current, set()) - seen
        seen |= fresh
        waiting.extend(fresh)
    return found


def _merge_repeated(findings: Iterable[Finding]) -> list[Finding]:
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_identity(finding), []).append(finding)
    return [_strongest(group) for group in groups.values()]


def _identity(finding: Finding) -> object:
    where = finding.where
    place = (where.path, where.cell, where.line, where.column) if where.line is not None else frozenset(names_of(where))
    # Without a place nothing tells two findings of one rule apart but what they say.
    return (finding.rule, finding.target, place or (where.path, finding.message))


def _strongest(group: list[Finding]) -> Finding:
    best = max(group, key=lambda finding: _STRENGTH[finding.state])
    if len(group) == 1:
        return best
    return replace(best, evidence=_union(finding.evidence for finding in group))


def _gives_way(loser: Finding, winner: Finding) -> bool:
    if loser.target != winner.target or not is_open(winner):
        return False
    if loser.state is State.CONFIRMED and winner.state is not State.CONFIRMED:
        return False  # what was measured is not hidden behind what nobody could tell
    measured = is_nowhere(loser.where) and winner.state is State.CONFIRMED
    return measured or same_place(loser.where, winner.where)


def _absorb(winner: Finding, loser: Finding) -> Finding:
    return replace(
        winner,
        severity=worse_of(winner.severity, loser.severity) if is_open(loser) else winner.severity,
        evidence=_union((winner.evidence, loser.evidence)),
        also=tuple(sorted({*winner.also, *loser.also, loser.rule})),
    )


def _union(groups: Iterable[tuple[Measurement, ...]]) -> tuple[Measurement, ...]:
    """All measurements once; values may be lists, so equality and not hashing decides."""
    rows: list[Measurement] = []
    for group in groups:
        rows += [row for row in group if row not in rows]
    return tuple(rows)
