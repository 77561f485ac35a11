"""Rules as JSON, for scripts: `tensoraudit rules list --json` and `rules show ID --json`. docs/rules.md explains it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tensoraudit.language.document import plain
from tensoraudit.language.rule import Rule

RULES_SCHEMA: Final = "tensoraudit-rules/1"
RULE_SCHEMA: Final = "tensoraudit-rule/1"


def rules_document(rules: Iterable[Rule]) -> dict[str, Any]:
    """Return the list of rules in the order of their ids, each with what filters look at."""
    return {"schema": RULES_SCHEMA, "rules": [_short(rule) for rule in sorted(rules, key=lambda rule: rule.id)]}


def rule_document(rule: Rule) -> dict[str, Any]:
    """Return everything that a rule says, with its `match`, `when` and `confirm` as written."""
    patterns = {
        key: plain(rule.document.items[key]) for key in ("match", "when", "confirm") if key in rule.document.items
    }
    return {
        "schema": RULE_SCHEMA,
        **_short(rule),
        "why": rule.why,
        "remedy": rule.remedy,
        "fix": rule.fix if isinstance(rule.fix, str) else dict(rule.fix),
        "references": list(rule.references),
        "path": rule.path,
        "line": rule.line,
        **patterns,
    }


def _short(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "title": rule.title,
        "severity": rule.severity,
        "layer": rule.layer,
        "certainty": rule.certainty,
        "pack": rule.pack,
        "category": rule.category,
        "source": list(rule.source),
        "target": list(rule.target),
        "anchors": sorted({each.pattern.kind for each in rule.alternatives}),
        "probe": rule.confirm.probe if rule.confirm else None,
        "versions": rule.versions,
        "aliases": list(rule.aliases),
        "deprecated": rule.deprecated,
        "see_also": list(rule.see_also),
        "supersedes": list(rule.supersedes),
    }
