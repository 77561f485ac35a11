"""Every example of every rule, and no condition that the examples do not need."""

import pytest

from tensoraudit.language.examples import dropped_conditions, run_examples
from tensoraudit.language.load import load_rules, rules_folder

RULES = load_rules([rules_folder()])


@pytest.mark.parametrize("rule", RULES.rules, ids=[rule.id for rule in RULES])
def test_examples(rule):
    outcomes = run_examples(rule)
    bad = [f"{rule.path}:{o.line}: example {o.example}: {o.status}: {o.text}" for o in outcomes if not o.good]
    assert not bad, "\n".join(bad)
    assert any(o.status == "reported" for o in outcomes)


@pytest.mark.parametrize("rule", RULES.rules, ids=[rule.id for rule in RULES])
def test_every_condition_is_needed_by_an_example(rule):
    dropped = [f"{rule.path}:{d.line}:{d.column}: {d.path}" for d in dropped_conditions(rule)]
    assert not dropped, "no example needs\n" + "\n".join(dropped)
