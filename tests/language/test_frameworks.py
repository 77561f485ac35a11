"""Rules about the graphs of every framework: the domain says whose operator it is."""

import pytest

from tensoraudit.facts.store import FactStore
from tensoraudit.language.example_facts import example_facts
from tensoraudit.language.examples import run_examples
from tensoraudit.language.explain import explain
from tensoraudit.language.load import parse_rules

RULE = """
id: TST-001
title: A test
severity: high
layer: graph
message: "{{op}} {{name}}"
why: Because.
remedy: Change it.
match: {match}
examples:
  - nodes: [{good}, {bad}]
    flag: [{flag}]
  - nodes: [{good}]
"""

CASES = [
    ("{node: Conv2D, domain: tf, attributes: {padding: SAME}}",
     "{op: Conv2D, domain: tf, name: c, attributes: {padding: SAME}}",
     "{op: Conv2D, domain: tf, name: d, attributes: {padding: VALID}}"),
    ("{node: LayerNormalization, domain: keras, attributes: {epsilon: {lt: 1e-5}}}",
     "{op: LayerNormalization, domain: keras, name: c, attributes: {epsilon: 1e-6}}",
     "{op: LayerNormalization, domain: keras, name: d, attributes: {epsilon: 1e-3}}"),
    ("{node: CONV_2D, domain: tflite, attributes: {fused_activation: RELU6}}",
     "{op: CONV_2D, domain: tflite, name: c, attributes: {fused_activation: RELU6}}",
     "{op: CONV_2D, domain: tflite, name: d, attributes: {fused_activation: NONE}}"),
    ("{node: scan, domain: jax, attributes: {length: {gt: 1000}}}",
     "{op: scan, domain: jax, name: c, attributes: {length: 5000}}",
     "{op: scan, domain: jax, name: d, attributes: {length: 5}}"),
    ("{node: '**', domain: [tflite.custom, tflite.flex]}",
     "{op: FlexErf, domain: tflite.flex, name: c}",
     "{op: ADD, domain: tflite, name: d}"),
    ("{node: while, domain: stablehlo}",
     "{op: while, domain: stablehlo, name: c}",
     "{op: while, domain: jax, name: d}"),
]  # fmt: skip


@pytest.mark.parametrize(("match", "bad", "good"), CASES)
def test_a_rule_and_its_examples(match, bad, good):
    (rule,), problems = parse_rules(RULE.format(match=match, bad=bad, good=good, flag="c"))
    assert not problems
    assert [each for each in run_examples(rule) if not each.good] == []
    near = explain(rule, FactStore(example_facts(rule.examples[1])))
    assert (near.outcome, near.rule) == ("silent", "TST-001")


def test_an_operator_that_onnx_does_not_have_is_right_in_another_domain():
    text = RULE.format(match="{node: Conv2D, domain: ''}", bad="{op: Conv2D, name: c}", good="{op: Add}", flag="c")
    _, problems = parse_rules(text)
    assert any("Conv2D" in problem.text for problem in problems)


def test_models_of_every_format_can_be_named():
    for name in ("saved_model", "keras", "tflite", "jaxpr", "stablehlo", "tf_function", "torch_export"):
        text = RULE.format(match=f"{{model: {name}}}", bad="{op: a}", good="{op: b}", flag="c")
        _, problems = parse_rules(text)
        assert not any("model" in problem.text and name in problem.text for problem in problems), name
