"""Finding the rules that may match a name: the same answer as trying every pattern."""

from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.language.load import RuleSet, parse_rules

TEXT = """\
id: TST-{number}
title: A test
severity: high
layer: graph
message: x
why: x
remedy: x
{scan}match: {{call: "{pattern}"}}
examples:
  - nodes: [{{op: A}}]
    flag: [A]
  - nodes: [{{op: A}}]
"""
PATTERNS = ["a.b", "a.*", "a.**", "**.b", "*.b", "?.b", "{x}.c", "*", "**", "a*c", "b.{y}.c", "ab", ""]
SCAN = {"*": "scan: true\n", "**": "scan: true\n"}
RULES = RuleSet(
    tuple(parse_rules(TEXT.format(number=n, pattern=p, scan=SCAN.get(p, "")))[0][0] for n, p in enumerate(PATTERNS))
)
NAMES = st.lists(st.sampled_from(["a", "b", "c", "?", "ab", ""]), min_size=1, max_size=4).map(".".join)


@given(NAMES)
def test_the_index_finds_what_trying_all_would(name):
    found = {entry.rule.id: dict(captures) for captures, entry in RULES.index.lookup("call", "callee", name)}
    tried = {}
    for rule in RULES:
        captures = rule.alternatives[0].pattern.names[0].match(name)
        if captures is not None:
            tried[rule.id] = dict(captures)
    assert found == tried


def test_an_alternative_with_several_names_is_found_once(lang):
    rules = RuleSet((lang.rule('{call: [a.b, "a.*", "**.b"]}'),))
    assert len(list(rules.index.lookup("call", "callee", "a.b"))) == 1
    assert list(rules.index.lookup("call", "callee", "c")) == []
