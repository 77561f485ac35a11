"""From suspicion to proof: what the measurements say about one match. Starts no probe and knows no grade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tensoraudit.facts import Measurement
from tensoraudit.facts.store import FactStore, on_side
from tensoraudit.language.engine import Match
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth, all_of, any_of
from tensoraudit.language.metrics import METRICS
from tensoraudit.language.names import NamePattern, compile_name, literal_name
from tensoraudit.language.rule import Row, Rows
from tensoraudit.language.templates import show

_SHOWN = 3
_NOT_SHOWN = "the run did not show it, but what the rule speaks of happens outside of what is run here"


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome: `confirmed`, `refuted`, `contradictory` or `unverified`, why, and the measurements that say so."""

    state: str
    reason: str
    evidence: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    truth: Truth
    rows: tuple[Measurement, ...] = ()
    missing: tuple[str, ...] = ()


_STATES: Mapping[tuple[bool, bool], str] = {
    (True, False): "confirmed",
    (False, True): "refuted",
    (True, True): "contradictory",
    (False, False): "unverified",
}


def settle_confirm(match: Match, store: FactStore, probes: Mapping[str, str] | None = None) -> Settled | None:
    """Evaluate the `confirm` block of a match over the measurements of its target; None when the rule has none.

    `probes` maps a probe (`outputs`, `sizes`...) to why it did not run, for the reason of an unverified finding.
    """
    confirm = match.rule.confirm
    if confirm is None:
        return None
    rows = [row for row in store.measurements() if not match.target or row.target in ("", match.target)]
    confirmed, refuted = (_ask(part, match, rows, store) for part in (confirm.confirmed, confirm.refuted))
    state = _STATES[confirmed.truth is YES, refuted.truth is YES]
    if state == "refuted" and not match.refutable:
        return Settled("unverified", _NOT_SHOWN, _once(refuted.rows))
    if state == "unverified":
        reason = _unverified(confirmed, refuted, probes or {})
        return Settled(state, reason, _once((*confirmed.rows, *refuted.rows)))
    evidence = {"confirmed": confirmed.rows, "refuted": refuted.rows}.get(state, (*confirmed.rows, *refuted.rows))
    reason = "the measurements confirm and refute it at once; the rule is at fault" if state == "contradictory" else ""
    return Settled(state, reason, _once(evidence))


def _ask(part: Row | Rows, match: Match, rows: Iterable[Measurement], store: FactStore) -> _Answer:
    if isinstance(part, Row):
        return _ask_row(part, match, rows, store)
    answers = [_ask(inner, match, rows, store) for inner in part.parts]
    combine = all_of if part.join == "all" else any_of
    truth = combine(answer.truth for answer in answers)
    told = [answer for answer in answers if answer.truth is truth or part.join == "all"]
    missing = () if truth is YES else tuple(text for answer in answers for text in answer.missing)
    return _Answer(truth, tuple(row for answer in told for row in answer.rows), missing)


def _ask_row(test: Row, match: Match, rows: Iterable[Measurement], store: FactStore) -> _Answer:
    subject = _subject(test, match, store)
    if isinstance(subject, str):
        return _Answer(UNKNOWN, missing=(subject,))
    found = [
        row
        for row in rows
        if row.metric == test.metric
        and (subject is None or subject.match(row.subject) is not None)
        and on_side(row, test.side)
    ]
    if not found:
        return _Answer(UNKNOWN, missing=(f"{METRICS[test.metric]}\0{test.metric}",))
    answers = [(row, _ask_value(test, row, store)) for row in found]
    truth = (all_of if test.quantifier == "every" else any_of)(answer for _, answer in answers)
    held = tuple(row for row, answer in answers if answer is not NO) if truth is not NO else tuple(found)
    return _Answer(truth, held)


def _ask_value(test: Row, row: Measurement, store: FactStore) -> Truth:
    parts = ((test.value, row.value), (test.detail, row.detail))
    return all_of(question(value, store) for question, value in parts if question is not None)


def _subject(test: Row, match: Match, store: FactStore) -> NamePattern | str | None:
    """Return the pattern of the subject, or why a placeholder in it cannot be filled."""
    if test.subject is None:
        return None
    text, missing = test.subject.render(match.kind, match.anchor, match.captures, store)
    if missing:
        return f"{missing[0]} is not known"
    return literal_name(text) if test.subject.placeholders else compile_name(text)


def _unverified(confirmed: _Answer, refuted: _Answer, probes: Mapping[str, str]) -> str:
    missing = dict.fromkeys((*confirmed.missing, *refuted.missing))
    rows = _once((*confirmed.rows, *refuted.rows))
    shown = "; ".join(_measured(row) for row in rows[:_SHOWN]) + ("; ..." if len(rows) > _SHOWN else "")
    if missing:
        return "; ".join([*_missing(missing, probes), *([shown] if shown else [])])
    return f"neither confirmed nor refuted: {shown}"


def _measured(row: Measurement) -> str:
    return f"{row.metric} of {row.subject} is {show(row.value)}" + (f" ({row.detail})" if row.detail else "")


def _missing(missing: Iterable[str], probes: Mapping[str, str]) -> Iterator[str]:
    """Yield why there is nothing to say, once for all metrics of a probe."""
    metrics: dict[str, list[str]] = {}
    for text in missing:
        probe, found, metric = text.partition("\0")
        if not found:
            yield text
        else:
            metrics.setdefault(probe, []).append(metric)
    for probe, names in metrics.items():
        yield f"no {', '.join(names)} was measured: probe {probe} {probes.get(probe) or 'gave none'}"


def _once(rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
    found: list[Measurement] = []
    for row in rows:
        if not any(row is other for other in found):
            found.append(row)
    return tuple(found)
