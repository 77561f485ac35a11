"""From matches to findings: the state that the measurements give, evidence, place. Knows no grade and no format.

1. A match without a `confirm` block keeps its state.
2. With one, its measurements decide: confirmed, refuted, contradictory, or unverified with the reason. A porting note
   stays a note unless a probe confirms or refutes it.
3. A rule anchored at a measurement has been confirmed by it.
4. Matches of one rule at measurements of one thing (the same output on several input sets) are one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tensoraudit.facts import Measurement, Site
from tensoraudit.facts.store import FactStore
from tensoraudit.findings.finding import Finding, Layer, Severity, State
from tensoraudit.findings.severity import RANKS, counted
from tensoraudit.language.confirm import Settled, settle_confirm
from tensoraudit.language.edits import fix_text
from tensoraudit.language.engine import Match
from tensoraudit.language.kleene import UNKNOWN

Relocate = Callable[[Site], Site]
PlaceOf = Callable[[str], Site]

PLACED_BY_SUBJECT: Mapping[str, PlaceOf] = {
    "output": lambda subject: Site(tensor=subject),
    "node": lambda subject: Site(node=subject),
}
"""Nouns of metrics whose subject is a place."""


_OF_MANY = frozenset({"checkpoint", "checkpoint_diff"})
"""Nouns of metrics that may have a row for each of a hundred thousand tensors: one rule is one finding."""


def findings_from_matches(
    matches: Iterable[Match],
    store: FactStore,
    target: str = "",
    *,
    probes: Mapping[str, str] | None = None,
    relocate: Relocate = lambda site: site,
) -> list[Finding]:
    """Return one finding per match, in order, merged where they speak of one measured thing.

    `target` is what the report calls the place the model goes to. `probes` maps a probe to why it did not run; None
    means that no probe was planned, as in `lint`: a match that nothing in the files decides keeps its own state.
    `relocate` turns the place of a fact into the one to show (a converted file lies in a temporary folder).
    """
    settled = [(match, _settled(match, store, probes)) for match in matches]
    findings = [_finding(match, outcome, target, relocate) for match, outcome in settled]
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for (match, _), finding in zip(settled, findings, strict=True):
        grouped.setdefault(_group(match), []).append(finding)
    return [_join(group) for group in grouped.values()]


def _settled(match: Match, store: FactStore, probes: Mapping[str, str] | None) -> Settled | None:
    settled = settle_confirm(match, store, probes or {})
    undecided = settled is not None and settled.state == "unverified"
    measured = isinstance(match.anchor, Measurement)  # another probe that tells nothing takes nothing from it
    return None if undecided and (probes is None or measured) else settled


def _finding(match: Match, settled: Settled | None, target: str, relocate: Relocate) -> Finding:
    rule = match.rule
    state, reason = _state(match, settled)
    return Finding(
        rule=rule.id,
        title=rule.title,
        severity=Severity(rule.severity),
        state=state,
        layer=Layer(rule.layer),
        target=target,
        where=relocate(_where(match)),
        message=match.message,
        why=rule.why,
        remedy=rule.remedy,
        fix=fix_text(match),
        references=rule.references,
        evidence=_evidence(match, settled),
        fingerprint=match.fingerprint,
        reason=reason,
    )


def _state(match: Match, settled: Settled | None) -> tuple[State, str]:
    own = State(match.state)
    if settled is not None and not (own is State.ADVICE and settled.state == "unverified"):
        return State(settled.state), settled.reason
    if isinstance(match.anchor, Measurement) and own is State.CERTAIN:
        return State.CONFIRMED, ""
    return own, _doubt(match) if own is State.SUSPECTED else ""


def _doubt(match: Match) -> str:
    if match.truth is UNKNOWN:
        return "a condition of the rule cannot be decided from the files alone"
    return "the pattern alone proves nothing; only a run can"


def _where(match: Match) -> Site:
    anchor = match.anchor
    if not isinstance(anchor, Measurement) or match.where != Site():
        return match.where
    place = PLACED_BY_SUBJECT.get(anchor.metric.partition(".")[0])
    return place(anchor.subject) if place else match.where


def _evidence(match: Match, settled: Settled | None) -> tuple[Measurement, ...]:
    own = (match.anchor,) if isinstance(match.anchor, Measurement) else ()
    rows = settled.evidence if settled else ()
    return (*own, *(row for row in rows if not any(row is each for each in own)))


def _group(match: Match) -> tuple[str, str]:
    """What makes two matches one finding: for measurements rule and thing measured, else the fingerprint."""
    anchor = match.anchor
    if not isinstance(anchor, Measurement):
        return match.rule.id, match.fingerprint
    noun, _, quantity = anchor.metric.partition(".")
    if noun == "sizes":  # the subject is a size such as "batch=5": one dimension is one thing
        return match.rule.id, f"{anchor.side}\n{anchor.subject.partition('=')[0]}"
    if noun in _OF_MANY:
        return match.rule.id, anchor.side
    if quantity == "error":  # the subject is an input set: one error is one thing
        return match.rule.id, f"{anchor.side}\n{anchor.value}"
    return match.rule.id, f"{anchor.side}\n{anchor.subject}"


def _join(group: list[Finding]) -> Finding:
    """One finding for all: the first of those that count most, since a suspicion must not hide what is confirmed."""
    if len(group) == 1:
        return group[0]
    first = max(group, key=lambda finding: RANKS[counted(finding)])
    evidence = [row for finding in group for row in finding.evidence]
    more = len(group) - 1
    suffix = f" ({more} more measurement{'s' if more > 1 else ''} of the same kind)"
    return replace(first, message=first.message + suffix, evidence=tuple(evidence))
