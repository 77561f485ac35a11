"""Two rules never report the same thing: every example of every rule is asked of all rules, and where two findings are
left at one place, each rule has to say by `see-also` that the other speaks of something else there."""

from itertools import combinations

import pytest

from tensoraudit.facts.store import FactStore
from tensoraudit.findings.merge import merge
from tensoraudit.findings.settle import findings_from_matches
from tensoraudit.language.engine import match_rules
from tensoraudit.language.example_facts import example_facts
from tensoraudit.language.load import load_rules, rules_folder

RULES = load_rules([rules_folder()])
SUPERSEDES = {rule.id: rule.supersedes for rule in RULES}
SAID = {frozenset((rule.id, other)) for rule in RULES for other in (*rule.see_also, *rule.supersedes)}


def pairs_at_one_place(facts):
    store = FactStore(facts)
    found = merge(findings_from_matches(match_rules(RULES, store, source="", target=""), store), SUPERSEDES)
    places = {}
    for finding in found:
        where = finding.where
        if where.line is not None or where.node is not None:  # a whole file may have several faults
            places.setdefault((where.path, where.line, where.column, where.node), set()).add(finding.rule)
    return {frozenset(pair) for rules in places.values() for pair in combinations(sorted(rules), 2)}


@pytest.mark.parametrize("rule", RULES.rules, ids=[rule.id for rule in RULES])
def test_no_place_is_reported_twice(rule):
    for example in rule.examples:
        unsaid = pairs_at_one_place(example_facts(example)) - SAID
        assert not unsaid, f"example {example.number}: {sorted(sorted(pair) for pair in unsaid)}"
