"""`effective`: an argument as the callee sees it, passed or left out, in the version that is installed."""

import pytest

from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Package
from tensoraudit.facts.store import FactStore
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet, parse_rules

RULE = """\
id: TST-001
title: A test
severity: high
layer: graph
match: {MATCH}
message: "{callee}"
why: Because.
remedy: Change it.
examples:
  - measurements: {output.linf: 1}
    flag: [output.linf]
  - measurements: {output.linf: 0}
"""


def states(match, code, *packages):
    rules, problems = parse_rules(RULE.replace("{MATCH}", match))
    assert not problems, problems
    store = FactStore([*read_python_text(code).facts, *packages])
    return [found.state for found in match_rules(RuleSet(tuple(rules)), store, source="", target="")]


def torch(version, side="source"):
    return Package("torch", version, side)


SAFE = "{call: torch.load, effective: {weights_only: true}}"


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        ("torch.load(f)", "2.5.1", []),
        ("torch.load(f)", "2.6.0", ["certain"]),
        ("torch.load(f, 'cpu', weights_only=True)", "2.5.1", ["certain"]),
        ("torch.load(f, weights_only=False)", "2.6.0", []),
        ("torch.load(f, weights_only=x)", "2.6.0", ["suspected"]),
        ("torch.load(f, **more)", "2.6.0", ["suspected"]),
    ],
)
def test_what_is_passed_counts_else_the_default_of_the_version(code, version, expected):
    assert states(SAFE, f"import torch\n{code}", torch(version)) == expected


def test_the_version_is_that_of_the_side_that_the_code_is_on():
    assert states(SAFE, "import torch\ntorch.load(f)", torch("2.5.1"), torch("2.6.0", "target")) == []
    assert states(SAFE, "import torch\ntorch.load(f)", torch("2.6.0"), torch("2.5.1", "target")) == ["certain"]


def test_without_a_version_it_is_known_only_where_all_versions_agree():
    code = "import torch\nfrom torch.utils.checkpoint import checkpoint\ntorch.load(f)\ncheckpoint(g, x)"
    assert states(SAFE, code) == ["suspected"]
    assert states("{call: torch.utils.checkpoint.checkpoint, effective: {use_reentrant: true}}", code) == ["certain"]
    assert states("{call: torch.utils.checkpoint.checkpoint, effective: {use_reentrant: false}}", code) == []


def test_a_parameter_that_the_version_does_not_have_is_absent():
    code = "import torch\ntorch.onnx.export(m, x, 'a')"
    absent = "{call: torch.onnx.export, effective: {dynamo: {present: false}}}"
    assert states(absent, code, torch("2.3.1")) == ["certain"]
    assert states(absent, code, torch("2.5.0")) == []
    assert states("{call: torch.onnx.export, effective: {dynamo: true}}", code, torch("2.9.0")) == ["certain"]


def test_a_callable_that_is_not_in_the_table_is_unknown():
    assert states("{call: other.f, effective: {x: 1}}", "import other\nother.f()") == ["suspected"]
    assert states("{call: other.f, effective: {x: 1}}", "import other\nother.f(x=2)") == []


def test_another_distribution_of_the_same_module():
    code = "from onnxruntime.quantization import quantize_static\nquantize_static(a, b, c)"
    match = "{call: onnxruntime.quantization.quantize_static, effective: {quant_format: {name: '**.QDQ'}}}"
    assert states(match, code, Package("onnxruntime-gpu", "1.20.0", "source")) == ["certain"]
    assert states(match, code, Package("onnxruntime-gpu", "1.10.0", "source")) == []


def test_a_wrong_name_is_said():
    _, problems = parse_rules(RULE.replace("{MATCH}", "{call: f, effective: {'a b': 1}}"))
    assert "'a b' names no argument" in problems[0].text
