"""Examples inside rules: each form, each outcome, and the conditions that no example needs."""

import textwrap

import pytest

from tensoraudit.language.examples import dropped_conditions, run_examples
from tensoraudit.language.load import parse_rules

HEAD = """\
id: TST-001
title: A test
severity: high
layer: graph
message: A test
why: Because.
remedy: Change it.
"""


def rule(match, examples, extra=""):
    extra, examples = (textwrap.dedent(part).strip() for part in (extra, examples))
    text = f"{HEAD}{extra}\nmatch: {match}\nexamples:\n{textwrap.indent(examples, '  ')}\n"
    rules, problems = parse_rules(text)
    assert not problems, problems
    return rules[0]


def outcomes(match, examples, extra=""):
    return [(o.example, o.status) for o in run_examples(rule(match, examples, extra))]


SILENT = "\n- measurements: {output.linf: 0}\n"


def test_python_lines():
    examples = """
    - python: |
        from torch import load as restore
        import torch as th
        restore("a.pt")                          # flag
        th.load("a.pt", **options)               # suspect
        th.load("a.pt", weights_only=False)
        with th.serialization.safe_globals([Config]):
            th.load("a.pt")
    - python: |
        import torch
        torch.save("a.pt")
    """
    match = """
  call: torch.load
  args: {weights_only: {present: false}}
  not: {inside: {with: torch.serialization.safe_globals}}"""
    assert outcomes(match, examples) == [(1, "reported"), (1, "reported"), (2, "validated")]


def test_onnx_lines():
    examples = """
    - onnx: |
        y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)   # flag
        z = Conv <auto_pad = "SAME_UPPER", strides = [1, 1]> (y, w)

        p = Pad (z, pads)
        q = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (p, w)
    - onnx: |
        y = Conv <strides = [2, 2]> (x, w)
    """
    match = """
  node: Conv
  attributes: {auto_pad: SAME_UPPER, strides: {any: {gt: 1}}}
  not: {producer: {index: 0, node: Pad}}"""
    assert outcomes(match, examples) == [(1, "reported"), (2, "validated")]


def test_onnx_types_constants_and_opsets():
    examples = """
    - onnx: y = Add (x, half)
      inputs: ["float[batch,2] x"]
      outputs: ["float[batch,2] y"]
      initializers: ["float16 half = {-1.5}"]
      opset: 13
      ir_version: 7
      flag: [x, half]
      suspect: []
    - onnx: y = Relu (z)
    """
    match = "[{value: x, dtype: float32, shape: {rank: 2}}, {value: half, role: initializer, constant: -1.5}]"
    assert [status for _, status in outcomes(match, examples)] == ["reported", "reported", "validated"]
    versions = rule("{model: onnx, version: 7, opsets: {'': 13, my.ops: 3}}", """
    - onnx: y = my.ops.F (x)
      opset: 13
      opsets: {my.ops: 3}
      ir_version: 7
      flag: [onnx]
    - onnx: y = Relu (x)
    """)  # fmt: skip
    assert [o.status for o in run_examples(versions)] == ["reported", "validated"]


def test_a_whole_onnx_model():
    examples = """
    - onnx_model: |
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[1] x, bool c) => (float[1] y) {
          y = If (c) <
            then_branch = t () => (float[1] a) { [inner] a = Relu (x) },
            else_branch = e () => (float[1] b) { b = Neg (x) }
          >
        }
      flag: [inner]
    - onnx: y = Relu (x)
    """
    assert outcomes("{node: Relu, graph: {regex: then_branch}}", examples) == [(1, "reported"), (2, "validated")]


@pytest.mark.parametrize(
    ("match", "example"),
    [
        (
            "{node: aten::conv2d, domain: aten}",
            "torchscript: [{op: aten::conv2d, name: n}, {op: prim::If}]\n  flag: [n]",
        ),
        (
            "{node: aten.mul.Tensor, domain: aten}",
            "exported_program: [{op: aten.mul.Tensor, outputs: [m]}]\n  flag: [m]",
        ),
        (
            "{node: A, producer: {index: 0, node: B}}",
            "nodes: [{op: B, outputs: [x]}, {op: A, inputs: [x], name: a}]\n  flag: [a]",
        ),
        (
            "{value: x, shape: {0: {dim: symbolic}}, role: input}",
            "values: {x: 'float32[n,3] input', y: {dtype: int64}}\n  flag: [x]",
        ),
        ("{value: x, constant: {is: [1, 2]}}", "values: {x: {dtype: int64, constant: [1, 2]}}\n  flag: [x]"),
        (
            "{model: onnx, inputs: {any: {name: x, dtype: int64}}}",
            "model: {format: onnx, inputs: {x: 'int64[n]'}}\n  flag: [onnx]",
        ),
        (
            "{tensor: a.weight, dtype: float8_e5m2, shape: {rank: 2}}",
            "tensors: {a.weight: 'float8_e5m2[4,4]', b.weight: 'float8_e5m2[4,4]'}\n  flag: [a.weight]",
        ),
        (
            "{checkpoint: pickle, imports: os.system}",
            "checkpoint: {format: pickle, imports: [os.system]}\n  flag: [pickle]",
        ),
        (
            "{package: torch, version: '<2', side: source}",
            "environment: {source: {torch: '1.9'}, target: {torch: '1.9'}}\n  flag: [torch]",
        ),
        ("{variable: A, value: '1'}", "environment: {variables: {source: {A: '1'}}}\n  flag: [A]"),
        ("{device: cuda}", "environment: {devices: {target: [cuda, {kind: cpu}]}}\n  flag: [cuda]"),
        (
            "{measurement: output.linf, value: {gt: 0}}",
            "measurements: {output.linf: 3, output.verdict: x}\n  flag: [output.linf]",
        ),
        (
            "{measurement: output.linf, value: {gt: 0}}",
            "measurements: [{measurement: output.linf, subject: y, value: 3}]\n  flag: [output.linf@y]",
        ),
    ],
)
def test_other_forms(match, example):
    assert outcomes(match, f"- {example}{SILENT}")[0] == (1, "reported")


def test_missing_and_noisy():
    examples = """
    - python: |
        import m
        m.g()        # flag
        m.f()
    - python: import m
    """
    found = run_examples(rule("{call: m.f}", examples))
    assert [(o.example, o.status) for o in found] == [(1, "missing"), (1, "noisy"), (2, "validated")]
    assert found[0].text == "python line 2 is not reported as 'flag'"
    assert found[1].text == "call m.f in python line 3 is reported as 'flag'"


def test_the_wrong_mark_is_missing_and_noisy():
    examples = "- python: 'import m; m.f()  # suspect'" + SILENT
    assert outcomes("{call: m.f}", examples)[:2] == [(1, "missing"), (1, "noisy")]
    assert outcomes("{call: m.f}", examples, "certainty: suspected")[0] == (1, "reported")


def test_a_name_in_flag_must_be_reported():
    example = "- nodes: [{op: A, name: a}]\n  flag: [a, b]" + SILENT
    assert outcomes("{node: A}", example)[:2] == [(1, "reported"), (1, "missing")]


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("onnx: y = (x", "line 1 of the example is no node"),
        ("onnx_model: y", "the example is no ONNX model"),
        ("python: 'def f(:'", "the example cannot be read: not valid Python"),
        ("nodes: 3", "a list of nodes is expected"),
        ("nodes: [{name: x}]", "a node needs 'op'"),
        ("nodes: [{op: A, attribute: {}}]", "did you mean 'attributes'?"),
        ("values: {x: 'float32[1'}", "is no typed value"),
        ("model: {formats: onnx}", "did you mean 'format'?"),
        ("environment: {target: {torch: 2.1}}", "the version of torch is the number 2.1 here; quote it"),
        ("environment: {sources: {}}", "did you mean 'source'?"),
        ("measurements: x", "measurements are a mapping of metric to value, or a list"),
        ("measurements: [{metric: x}]", "has no 'metric'"),
        ("measurements: [{value: 1}]", "a measurement needs 'measurement', the metric"),
        ("measurements: {output.lnf: 1}", "'output.lnf' is no metric; did you mean 'output.linf'?"),
        ("measurements: [{measurement: output.lnf}]", "did you mean 'output.linf'?"),
        ("tensors: {a: 'flaot16[1]'}", "'flaot16' is no dtype; did you mean 'float16'?"),
        ("{python: f(), side: left}", "'left' is no side"),
    ],
)
def test_broken_examples(example, words):
    example = example[1:-1].replace(", ", "\n  ") if example.startswith("{") else example
    found = run_examples(rule("{call: f}", f"- {example}\n  flag: [f]{SILENT}"))
    assert found[0].status == "broken"
    assert words in found[0].text
    assert not found[0].good


def test_an_example_that_needs_a_missing_package_is_skipped(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx.parser", None)
    found = run_examples(rule("{node: Relu}", "- onnx: 'y = Relu (x) # flag'" + SILENT))
    assert [(o.status, o.good) for o in found] == [("skipped", False), ("validated", True)]


# Dropped conditions


def dropped(match, examples, extra=""):
    return [d.path for d in dropped_conditions(rule(match, examples, extra))]


def test_a_condition_that_no_example_needs_is_found():
    match = "{node: Conv, domain: '', attributes: {group: 1}}"
    nodes = "[{op: Conv, name: a, attributes: {group: 1}}, {op: Conv, name: b}]"
    examples = f"- nodes: {nodes}\n  flag: [a]\n- nodes: [{{op: Relu}}]"
    assert dropped(match, examples) == ["match.domain"]
    assert dropped(match, examples + "\n- nodes: [{op: Conv, domain: x, attributes: {group: 1}}]") == []


def test_its_place_is_told():
    match = "\n  node: Conv\n  domain: ''"
    examples = "- nodes: [{op: Conv}]\n  flag: [Conv]\n- nodes: [{op: Relu}]"
    (found,) = dropped_conditions(rule(match, examples))
    assert (found.path, found.line, found.column) == ("match.domain", 11, 3)


def test_conditions_are_looked_for_everywhere():
    match = """
  call: m.f
  args: {a: {ge: 1, le: 9}, b: 2}
  any:
    - {inside: {loop: true}}
    - {exists: {call: m.g, in: module, before: true}}"""
    examples = """
    - python: |
        import m
        m.g()
        m.f(a=1, b=2)    # flag
    - python: import m
    """
    # One call that matches needs none of the conditions but the one part of `any` that holds of it.
    assert dropped(match, examples) == [
        "match.args", "match.args.a", "match.args.a.ge", "match.args.a.le", "match.args.b", "match.any", "match.any[0]",
        "match.any[1].exists.before",
    ]  # fmt: skip


def test_when_is_a_condition():
    flagged = "- python: 'import m; m.f() # flag'\n  environment: {source: {torch: '2.6'}}\n- python: import m\n"
    when = "when: [{package: torch, version: '>=2'}]"
    assert dropped("{call: m.f}", flagged, when) == ["when[0]", "when[0].version"]
    old = "- python: import m; m.f()\n  environment: {source: {torch: '1.0'}}"
    assert dropped("{call: m.f}", flagged + old, when) == []


def test_an_example_that_cannot_be_built_here_is_left_out(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx.parser", None)
    examples = "- nodes: [{op: A, name: a}]\n  flag: [a]\n- onnx: y = A (x)"
    assert dropped("{node: A, name: a}", examples) == ["match.name"]
