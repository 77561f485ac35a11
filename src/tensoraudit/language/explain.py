"""Why a rule did not match: the fact that came nearest and the first condition that failed. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensoraudit.facts import Fact, Site
from tensoraudit.facts.store import FactStore, key_of, site_of
from tensoraudit.language.kleene import NO, UNKNOWN, YES
from tensoraudit.language.pattern import Condition, Context, Pattern, ask
from tensoraudit.language.rule import Rule

_OUTCOMES = {NO: "silent", UNKNOWN: "suspected", YES: "matches"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """`outcome` is "matches", "suspected" or "silent". `failed` names the first condition that does not hold (or is not
    known), `line` and `column` its place in the rule; both are empty when everything holds."""

    rule: str
    outcome: str
    where: Site
    fact: str
    held: tuple[str, ...]
    failed: str
    line: int
    column: int


def explain(rule: Rule, store: FactStore) -> Explanation:
    """Return the best partial match: the fact with the most conditions that hold before the first that does not."""
    context = Context(store)
    for condition in rule.when:
        if condition.test(None, context) is NO:
            text = "'when' does not hold in this environment"
            return Explanation(rule.id, "silent", Site(), "", (), text, condition.line, condition.column)
    partial = [found for alternative in rule.alternatives for found in _partial(rule, alternative.pattern, context)]
    if not partial:
        names = ", ".join(name.text for alternative in rule.alternatives for name in alternative.pattern.names)
        text = f"no {rule.alternatives[0].pattern.kind} is named {names}"
        return Explanation(rule.id, "silent", Site(), "", (), text, rule.line, 1)
    return max(partial, key=lambda found: (found.outcome == "matches", found.outcome == "suspected", len(found.held)))


def _partial(rule: Rule, pattern: Pattern, context: Context) -> Iterator[Explanation]:
    for key, facts in context.store.keyed(pattern.kind).items():
        captures = next((found for name in pattern.names if (found := name.match(key)) is not None), None)
        if captures is None:
            continue
        context.captures = captures
        for fact in facts:
            yield _explained(rule, pattern, fact, context)


def _explained(rule: Rule, pattern: Pattern, fact: Fact, context: Context) -> Explanation:
    held: list[str] = []
    doubtful: Condition | None = None
    refused: Condition | None = None
    for condition in pattern.conditions:
        answer = condition.test(fact, context)
        if answer is NO:
            refused = condition
            break
        if answer is UNKNOWN:
            doubtful = doubtful or condition
        else:
            held.append(condition.label)
    named = f"{pattern.kind} {key_of(pattern.kind, fact)}"
    outcome = _OUTCOMES[min(ask(pattern.conditions, fact, context), ask(rule.when, None, context))]
    failed = refused or doubtful
    label, line, column = (failed.label, failed.line, failed.column) if failed else ("", rule.line, 1)
    return Explanation(rule.id, outcome, site_of(fact), named, tuple(held), label, line, column)
