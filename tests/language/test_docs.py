"""The page of the language names every word of it, and its first example is a rule that works."""

import re
from pathlib import Path

import pytest

from tensoraudit.language.compile import OPTIONAL, REQUIRED
from tensoraudit.language.example import EXAMPLE_KEYS
from tensoraudit.language.examples import dropped_conditions, run_examples
from tensoraudit.language.load import parse_rules
from tensoraudit.language.metrics import METRICS, PROBES
from tensoraudit.language.operators import OPERATORS
from tensoraudit.language.relations import RELATIONS
from tensoraudit.language.schema import ANCHORS, FRAMEWORKS, PLACES

PAGE = (Path(__file__).parents[2] / "docs" / "rule-language.md").read_text(encoding="utf-8")
FIELDS = {field for fields in ANCHORS.values() for field in fields}


@pytest.mark.parametrize(
    "words",
    [REQUIRED, OPTIONAL, ANCHORS, FIELDS, OPERATORS, RELATIONS, PLACES, METRICS, PROBES, EXAMPLE_KEYS, FRAMEWORKS],
)
def test_every_word_is_on_the_page(words):
    assert [
        word for word in words if not re.search(rf"`[^`]*\b{re.escape(word)}\b[^`]*`|^{word}:", PAGE, re.MULTILINE)
    ] == []


def test_the_first_example_is_a_rule_that_works():
    text = re.search(r"```yaml\n(id: .*?)```", PAGE, re.DOTALL)[1]
    (rule,), problems = parse_rules(text)
    assert problems == []
    assert [outcome.status for outcome in run_examples(rule)] == ["reported", "validated"]
    assert dropped_conditions(rule) == []
