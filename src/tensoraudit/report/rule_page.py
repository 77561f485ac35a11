"""The page of one rule, in Markdown: drawn from the rule itself, never written by hand."""

from __future__ import annotations

from collections.abc import Iterator

from tensoraudit.language.rule import Rule


def rule_page(rule: Rule) -> str:
    """Return the page of a rule: what it is, why it matters, what to change, how it is put to the test, and sources."""
    return "\n".join(_lines(rule)) + "\n"


def _lines(rule: Rule) -> Iterator[str]:
    yield f"# {rule.id}: {rule.title}\n"
    yield f"Severity **{rule.severity}**, layer **{rule.layer}**, at most *{rule.certainty}* from the match alone.\n"
    moves = [
        f"from {', '.join(rule.source)}" if rule.source else "",
        f"to {', '.join(rule.target)}" if rule.target else "",
    ]
    if moves:
        yield f"Concerns models that move {' '.join(moves)}.\n"
    if rule.versions:
        yield f"Holds for: {rule.versions}\n"
    yield f"## Why it matters\n\n{rule.why.strip()}\n"
    yield f"## What to change\n\n{rule.remedy.strip()}\n"
    if rule.fix_text:
        yield f"Fix: {rule.fix_text.strip()}\n"
    yield from _test(rule)
    if rule.references:
        yield "## Sources\n"
        yield from (f"- {reference}" for reference in rule.references)


def _test(rule: Rule) -> Iterator[str]:
    yield "## Put to the test\n"
    if rule.confirm is None:
        yield "The match itself is the evidence; no probe is needed or none can decide.\n"
    else:
        yield f"The probe `{rule.confirm.probe}` confirms or refutes it during a scan.\n"
