"""Why a rule did not match: the fact that came nearest, each condition's answer, and the first that failed.

Changes nothing, and asks the same questions of the same facts as the engine does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from tensoraudit.facts import Fact, Site
from tensoraudit.facts.store import KEYS, FactStore, key_of, site_of
from tensoraudit.language.engine import state_of
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth, all_of
from tensoraudit.language.pattern import Condition, Context, Pattern, certainty_of_name
from tensoraudit.language.rule import Alternative, Rule

_WORDS: Final[Mapping[Truth, str]] = {NO: "no", UNKNOWN: "unknown", YES: "yes"}
_SHOWN: Final = 5
"""How many of the names that are present are told where none is the rule's."""


@dataclass(frozen=True, slots=True)
class Step:
    """One condition of a rule: the answer is "yes", "no" or "unknown"; line and column are its place in the rule."""

    label: str
    answer: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """`outcome` is "silent" or the state of the match (`certain`, `likely`, `suspected`, `advice`).

    `failed` is the first condition that does not hold, or else the first that is not known; None when all hold.
    Where no fact has the anchor, `fact` is empty, `missing` says so and `nearest` names what is present of that kind.
    """

    rule: str
    outcome: str
    where: Site
    fact: str
    steps: tuple[Step, ...]
    missing: str = ""
    nearest: tuple[str, ...] = ()

    @property
    def failed(self) -> Step | None:
        """The first condition that does not hold, or else the first that is not known."""
        by_answer = {step.answer: step for step in reversed(self.steps)}
        return by_answer.get("no") or by_answer.get("unknown")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fact with the anchor's name. `held` conditions hold before the first that does not."""

    alternative: Alternative
    fact: Fact
    captures: Mapping[str, str]
    answer: Truth
    held: int

    @property
    def pattern(self) -> Pattern:
        """What the fact was asked."""
        return self.alternative.pattern


def explain(rule: Rule, store: FactStore) -> Explanation:
    """Return the best partial match: the fact with the most conditions that hold before the first that does not."""
    context = Context(store)
    when = [_step(condition, None, context) for condition in rule.when]
    candidates = [found for each in rule.alternatives for found in _candidates(each, context)]
    if not candidates:
        missing, nearest = _absent(rule, store)
        return Explanation(rule.id, "silent", Site(), "", tuple(when), missing, nearest)
    best = max(candidates, key=lambda found: (found.answer, found.held))
    context.captures = best.captures
    steps = [*when, *_name_step(best), *(_step(each, best.fact, context) for each in best.pattern.conditions)]
    named = f"{best.pattern.kind} {key_of(best.pattern.kind, best.fact)}"
    return Explanation(rule.id, _outcome(rule, best, steps), site_of(best.fact), named, tuple(steps))


def _candidates(alternative: Alternative, context: Context) -> Iterator[_Candidate]:
    pattern = alternative.pattern
    for key, facts in context.store.keyed(pattern.kind).items():
        captures = next((found for name in pattern.names if (found := name.match(key)) is not None), None)
        if captures is None:
            continue
        context.captures = captures
        for fact in facts:
            answers = list(_answers(pattern, fact, context))
            held = answers.count(YES) + answers.count(UNKNOWN)
            yield _Candidate(
                alternative, fact, captures, min(all_of(answers), certainty_of_name(fact, pattern.names)), held
            )


def _answers(pattern: Pattern, fact: Fact, context: Context) -> Iterator[Truth]:
    """Yield the answers as far as the first no, as the engine does."""
    for condition in pattern.conditions:
        answer = condition.test(fact, context)
        yield answer
        if answer is NO:
            return


def _step(condition: Condition, fact: Fact | None, context: Context) -> Step:
    return Step(condition.label, _WORDS[condition.test(fact, context)], condition.line, condition.column)


def _name_step(found: _Candidate) -> list[Step]:
    """A name with several meanings, of which only one is the rule's, is a condition of its own that is not known."""
    if certainty_of_name(found.fact, found.pattern.names) is YES:
        return []
    return [Step("the name has several meanings here", _WORDS[UNKNOWN], 0, 0)]


def _outcome(rule: Rule, found: _Candidate, steps: list[Step]) -> str:
    answers = {step.answer for step in steps}
    if _WORDS[NO] in answers:
        return "silent"
    answer = UNKNOWN if _WORDS[UNKNOWN] in answers else YES
    receiver_unknown = key_of(found.pattern.kind, found.fact).startswith("?.")
    return state_of(answer, found.alternative.certainty or rule.certainty, found.pattern.open_world, receiver_unknown)


def _absent(rule: Rule, store: FactStore) -> tuple[str, tuple[str, ...]]:
    """Say that nothing has the anchor, and which names of these kinds there are, the most similar ones first."""
    parts, near = [], []
    for kind in dict.fromkeys(each.pattern.kind for each in rule.alternatives):
        names = [name.text for each in rule.alternatives if each.pattern.kind == kind for name in each.pattern.names]
        present = store.keyed(kind, KEYS[kind])
        if not present:
            parts.append(f"there is no {kind} at all")
            continue
        parts.append(f"no {kind} is named {', '.join(dict.fromkeys(names))}")
        ranked = sorted(present, key=lambda key: max(_likeness(key, name) for name in names), reverse=True)
        near += [f"{kind} {key}" for key in ranked[:_SHOWN]]
    return "; ".join(parts), tuple(near)


def _likeness(key: str, name: str) -> float:
    """The last part of a dotted name tells more than the way to it."""
    ends = (key.rpartition(".")[2], name.rpartition(".")[2])
    return SequenceMatcher(None, key, name).ratio() + SequenceMatcher(None, *ends).ratio()
