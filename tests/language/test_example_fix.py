"""Examples with `fixed` are run: the text must come out to the letter, and the rule must be silent on it."""

import pytest

from tensoraudit.language.examples import run_examples
from tensoraudit.language.load import parse_rules

TEXT = """\
id: TST-001
title: A test
severity: high
layer: graph
message: A test
why: Because.
remedy: Change it.
match: {match}
fix: {fix}
examples:
  - python: |
      import lib
      y = lib.f(  # flag
          2,   # flagship
      )
      lib.f(**options)   # suspect
    fixed: |
{fixed}
  - python: |
      import lib
      lib.f(n=1)
"""
MATCH = "{call: lib.f, args: {n: {not: 1}}}"
RIGHT = "import lib\ny = lib.f(\n    2,   # flagship\n    n=1,\n)\nlib.f(**options)"


def outcomes(fixed=RIGHT, fix="{set-argument: {n: 1}, safety: safe}", match=MATCH):
    text = "\n".join(f"      {line}" for line in fixed.splitlines())
    rules, problems = parse_rules(TEXT.format(match=match, fix=fix, fixed=text))
    assert not problems, problems
    return [(each.status, each.line, each.text) for each in run_examples(rules[0]) if "fixed" in each.status]


def test_the_right_text():
    assert outcomes() == [("fixed", 17, "the fix gives this text, and the rule is silent on it")]


@pytest.mark.parametrize(
    ("fixed", "text"),
    [
        (RIGHT.replace("n=1", "n=2"), "line 4 after the fix is '    n=1,', and 'fixed' says '    n=2,'"),
        (f"{RIGHT}\nlib.g()", "the fix gives 6 lines, and 'fixed' has 7 (or ends its last one otherwise)"),
    ],
)
def test_another_text(fixed, text):
    assert outcomes(fixed) == [("unfixed", 17, text)]


def test_a_rule_that_is_not_silent_on_the_result():
    found = outcomes(match="{call: lib.f, args: {n: {not: 3}}}")
    assert found == [("unfixed", 17, "after the fix line 2 is still reported")]


def test_a_fix_that_never_ends():
    back = "{call: lib.f, args: {n: 1}, fix: {set-argument: {n: 2}, safety: safe}}"
    match = f"[{MATCH}, {back}]"
    statuses = {(status, text) for status, _, text in outcomes(match=match)}
    assert ("unfixed", "the fix still changes the text after 5 times") in statuses
