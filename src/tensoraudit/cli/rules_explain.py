"""`tensoraudit rules explain`: why a rule says nothing about a file, with the same readers as `lint` and `scan`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tensoraudit.cli.rules_facts import facts_in
from tensoraudit.extract.derived import complete_store
from tensoraudit.language.explain import Explanation, Step, explain
from tensoraudit.language.rule import Rule
from tensoraudit.options import Options
from tensoraudit.report import summary
from tensoraudit.report.clean import one_line


def explained(rule: Rule, file: str, options: Options) -> Iterator[str]:
    """Yield the lines to print. Raises InputError for a file of which nothing can be read."""
    facts, notes = facts_in([file], options)
    yield f"{rule.id}: {rule.title}"
    yield from (f"note: {note}" for note in (*_scope(rule), *notes))
    yield from _told(rule, explain(rule, complete_store(facts)))


def _scope(rule: Rule) -> Iterator[str]:
    """What keeps a rule from being asked at all, which no file can show."""
    if rule.deprecated:
        yield "the rule is deprecated and no longer asked"
    ways = [f"{word} {', '.join(names)}" for word, names in (("from", rule.source), ("to", rule.target)) if names]
    if ways:
        yield f"scan asks it only of models that move {' '.join(ways)}"


def _told(rule: Rule, found: Explanation) -> Iterator[str]:
    lines = _lines_of(rule)
    yield ""
    if found.fact:
        yield f"nearest: {one_line(found.fact)}  {summary.place(found.where)}".rstrip()
    for step in found.steps:
        yield f"  {step.answer:8} {step.label:20} {_written(step, lines)}".rstrip()
    if found.steps:
        yield ""
    if found.missing:
        yield f"silent: {found.missing}"
        if found.nearest:
            yield "nearest that are there:"
            yield from (f"  {one_line(name)}" for name in found.nearest)
    elif found.failed is None:
        yield f"{found.outcome}: every condition holds"
    else:
        yield f"{found.outcome}: {_verdict(found.failed, rule)}"


def _verdict(step: Step, rule: Rule) -> str:
    words = "is the first condition that does not hold" if step.answer == "no" else "is not known"
    place = f" ({rule.path}:{step.line}:{step.column})" if step.line else ""
    return f"'{step.label}' {words}{place}"


def _written(step: Step, lines: list[str]) -> str:
    """The line of the rule that holds a condition."""
    return f"line {step.line}: {lines[step.line - 1].strip()}" if 0 < step.line <= len(lines) else ""


def _lines_of(rule: Rule) -> list[str]:
    try:
        return Path(rule.path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
