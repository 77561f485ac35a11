import pytest

from tensoraudit.language.load import load_rules, rules_folder
from tensoraudit.report.rule_page import rule_page

RULES = tuple(load_rules([rules_folder()]))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_page_that_says_why_and_what_to_change(rule):
    page = rule_page(rule)
    assert page.startswith(f"# {rule.id}: {rule.title}\n")
    assert "## Why it matters" in page
    assert "## What to change" in page
    assert all(reference in page for reference in rule.references)


def test_a_rule_with_a_probe_names_it():
    rule = next(rule for rule in RULES if rule.confirm is not None)
    assert f"`{rule.confirm.probe}`" in rule_page(rule)
