import re
from pathlib import Path

import pytest

from tensoraudit.language.load import load_rules, parse_rules, rules_folder
from tensoraudit.report.rule_page import GENERATED, index_page, pages, rule_page
from tensoraudit.report.rule_words import confirm_words, fix_words, value_words

RULES = load_rules([rules_folder()])
FOLDER = Path(__file__).parents[2] / "docs" / "rules"

TEXT = """\
id: TST-001
title: A | in the title
severity: high
layer: graph
certainty: suspected
source: [pytorch]
versions: up to 2.5
match:
  call: f
message: "{callee}"
why: Because of it.
remedy: Change it.
fix: {rename-call: m.g, safety: safe}
confirm:
  probe: outputs
  confirmed: {measurement: output.verdict, value: [drift, break]}
  refuted: {measurement: output.verdict, value: noise, quantifier: every}
references: [https://example.org/1, owner/name docs/a.md]
see-also: [TST-002, TST-003]
supersedes: [TST-004]
examples:
  - measurements: {output.linf: 1}
    python: f()   # suspect
  - python: |
      import f
      f(1)   # suspect
    fixed: g(1)
  - python: |
      import h
      h(2)
  - python: |
      import f
      g(1)
"""


def one(text=TEXT):
    rules, problems = parse_rules(text)
    assert not problems
    return rules[0]


def section(page, title):
    return re.search(rf"^## {title}\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_every_rule_has_a_page_with_all_its_parts(rule):
    page = rule_page(rule)
    assert page.startswith(f"# {rule.id}: {rule.title}\n")
    titles = ["What happens", "Flagged", "Not flagged", "What to change", "How it is confirmed", "How to silence it"]
    assert re.findall("^## (.*)", page, re.MULTILINE)[:6] == titles
    assert all(reference in page for reference in rule.references)
    assert page.count("```") % 2 == 0


def test_the_pages_in_the_documentation_are_those_of_the_rules():
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    expected = pages(RULES)
    assert sorted(written) == sorted(expected), "run `make docs`"
    assert [name for name in expected if written[name] != expected[name]] == [], "run `make docs`"


def test_the_head_says_what_the_rule_claims_and_of_which_move():
    head = rule_page(one()).partition("## ")[0]
    assert "| severity | high |" in head
    assert "| certainty | suspected: " in head
    assert "| from | pytorch |" in head
    assert "| to | any framework |" in head
    assert "| versions | up to 2.5 |" in head
    assert "deprecated" not in head


def test_the_silent_example_is_the_most_similar_of_the_same_form():
    page = rule_page(one())
    assert "```python\nimport f\nf(1)   # suspect\n```" in section(page, "Flagged")
    assert "Lines marked `# suspect` are reported as suspicions." in section(page, "Flagged")
    silent = section(page, "Not flagged")
    assert "```python\nimport f\ng(1)\n```" in silent
    assert "h(2)" not in silent
    assert "After the fix:\n\n```python\ng(1)\n```" in section(page, "What to change")


def test_the_proof_in_words():
    proof = section(rule_page(one()), "How it is confirmed")
    assert "the probe `outputs`" in proof
    assert "**confirmed** when\n\n- a measured `output.verdict` is `drift` or `break`\n" in proof
    assert "**refuted** when\n\n- every measured `output.verdict` is `noise`\n" in proof


def test_a_rule_that_no_probe_can_tell_says_so():
    rule = next(rule for rule in RULES if rule.confirm is None)
    assert section(rule_page(rule), "How it is confirmed").startswith("By the match itself")


def test_silencing_is_shown_where_it_can_stand():
    code = section(rule_page(one()), "How to silence it")
    assert "`# tensoraudit: ignore[TST-001] why" in code
    assert 'where = "src/*.py"' in code
    text = TEXT.replace("call: f", "model: onnx").replace("{callee}", "x")
    text = re.sub(r"^(fix: .*|    fixed: .*)\n", "", text, flags=re.MULTILINE)  # a verb needs a call
    graph = section(rule_page(one(text)), "How to silence it")
    assert "# tensoraudit" not in graph
    assert 'rule = "TST-001"\nreason = ' in graph  # a whole model has no place that a glob could name


def test_relatives_are_linked_with_their_titles():
    related = section(rule_page(one(), {"TST-002": "Another"}), "See also").splitlines()
    assert related[:2] == ["- [TST-002](TST-002.md): Another", "- [TST-003](TST-003.md)"]
    assert related[2].endswith("[TST-004](TST-004.md)")
    assert "- <https://example.org/1>\n- owner/name docs/a.md" in rule_page(one())


def test_the_index_groups_by_pack_and_category():
    text = index_page(RULES)
    assert "## selection / onnx-compatibility\n" in text
    assert all(f"[{rule.id}]({rule.id}.md)" in text for rule in RULES)
    assert "A \\| in the title" in index_page([one()])


def test_pages_say_that_they_are_generated():
    assert all(text.startswith(GENERATED) for text in pages([one()]).values())


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (0, "is `0`"),
        (True, "is `true`"),
        ([1, 2, 3], "is `1`, `2` or `3`"),
        ({"gt": 0, "le": 2.5}, "is more than `0` and is at most `2.5`"),
        ({"count": {"ge": 1}}, "has a number of elements that is at least `1`"),
        ({"any": {"regex": "^x"}}, "has an element that has text that fits `^x`"),
        ({"present": False}, "was not measured"),
        ({"odd": 1}, "has odd: `1`"),
    ],
)
def test_value_tests_in_words(test, words):
    assert value_words(test) == words


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        ("a -> b ", "a -> b"),
        ({"set-argument": {"n": False}, "safety": "safe"}, "`tensoraudit fix` sets the argument `n=False`."),
        ({"set-argument": {"t": {"name": "a.B"}}, "safety": "safe"}, "`tensoraudit fix` sets the argument `t=a.B`."),
        (
            {"remove-argument": "n", "safety": "unsafe"},
            "`tensoraudit fix --unsafe` removes the argument `n`. "
            "It may change what the code means: look at the difference.",
        ),
    ],
)
def test_fixes_in_words(fix, words):
    assert fix_words(fix) == words


def test_nested_proof_is_a_nested_list():
    row = {"measurement": "output.verdict", "value": "break", "subject": "{name}", "side": "target"}
    assert list(confirm_words({"all": [row, [row, {"measurement": "run.error"}]]})) == [
        "- all of these hold:",
        "  - a measured `output.verdict` of `{name}` on the target's side is `break`",
        "  - one of these holds:",
        "    - a measured `output.verdict` of `{name}` on the target's side is `break`",
        "    - a measured `run.error`",
    ]
