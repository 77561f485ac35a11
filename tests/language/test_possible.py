"""What can never hold is refused; what can is not, which a property tests over values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.facts import ABSENT
from tensoraudit.facts.store import FactStore
from tensoraudit.language.document import read_documents
from tensoraudit.language.kleene import NO
from tensoraudit.language.operators import compile_test
from tensoraudit.language.problems import Wrong
from tensoraudit.language.schema import DATA


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("{node: MyOp, attributes: {axis: {gt: 5, lt: 3}}}", "this can never hold: its parts exclude each other"),
        ("{node: MyOp, attributes: {axis: {ge: 3, lt: 3}}}", "exclude each other"),
        ("{node: MyOp, attributes: {axis: {in: [1, 2], gt: 2}}}", "exclude each other"),
        ("{node: MyOp, attributes: {axis: {is: 1, not: 1}}}", "exclude each other"),
        ("{node: MyOp, attributes: {axis: {present: false, ge: 0}}}", "exclude each other"),
        ("{node: MyOp, attributes: {axis: {is: a, gt: 0}}}", "exclude each other"),
        ("{node: MyOp, attributes: {axis: {any: {gt: 5, lt: 3}}}}", "exclude each other"),
        ("{node: MyOp, attributes: {axis: {count: {lt: 0}}}}", "a count is a whole number from 0 on"),
        ("{node: MyOp, attributes: {axis: {count: {of: 1, is: -1}}}}", "a count is a whole number from 0 on"),
        ("{node: MyOp, attributes: {axis: {count: 1.5}}}", "a count is a whole number"),
        ("{value: x, shape: {rank: -1}}", "a rank is a whole number from 0 on"),
        ("{value: x, shape: {0: {dim: static, is: n}}}", "exclude each other"),
        ("{call: f, args: {x: {literal: true, present: false}}}", "exclude each other"),
        ("{operation: '//='}", "'//=' is no operation that is ever seen; did you mean '//'?"),
        ("{operation: [if, whille]}", "did you mean 'while'?"),
        ("{model: onx}", "'onx' is no model that is ever seen; did you mean 'onnx'?"),
        ("{device: gpu}", "'gpu' is no device that is ever seen; "),
        ("{measurement: output.verdit}", "no metric that is ever seen; did you mean 'output.verdict'?"),
        ("{measurement: 'outputs.*'}", "'outputs.*' is no metric"),
        ("{measurement: output.verdict, value: [drift, brake]}", "never 'brake'; did you mean 'break'?"),
        ("{measurement: export.status, value: true}", "export.status is never True"),
        ("{value: x, dtype: float8_e4m3}", "'float8_e4m3' is no dtype; did you mean 'float8_e4m3fn'?"),
        ("{node: MyOp, input: {index: 0, dtype: [float32, flaot16]}}", "did you mean 'float16'?"),
        ("{node: Convv, domain: ''}", "'Convv' is no operator of ONNX's domain ''; did you mean 'Conv'?"),
        ("{node: [Conv, 'Reduced*'], domain: ''}", "'Reduced*' is no operator"),
        ("{node: Conv, domain: ai.onnx.ml}", "'Conv' is no operator of ONNX's domain 'ai.onnx.ml'"),
        ("{node: Conv, domain: '', attributes: {auto_padd: VALID}}", "'auto_padd'; did you mean 'auto_pad'?"),
        ("{node: LayerNormalization, domain: '', opset: {lt: 17}}", "the operator came with opset 17"),
        ("{call: f, exists: {node: Convv, domain: '', in: project}}", "did you mean 'Conv'?"),
        ("{call: f, exists: {package: torch, version: '>=3,<2'}}", "no version is in '<2,>=3'"),
        ("{call: f, exists: {package: torch, version: '>=2.6,<2.6.0'}}", "no version is in"),
        ("{call: f, exists: {package: torch, version: '==2.6,!=2.6.*'}}", "no version is in"),
        ("{call: f, exists: {package: torch, version: '>=2.6.0.dev0,<2.6.0'}}", "no version is in"),
        ("{call: f, exists: {package: torch, version: '===abc'}}", "no version is in"),
    ],
)  # fmt: skip
def test_what_can_never_hold(lang, match, words):
    assert words in "\n".join(lang.problems(match))


@pytest.mark.parametrize(
    "match",
    [
        "{node: MyOp, attributes: {axis: {gt: 2, lt: 3}}}",
        "{node: MyOp, attributes: {axis: {not: {gt: 5, lt: 9}}}}",
        "{node: MyOp, attributes: {axis: {not: {present: true}}}}",
        "{node: MyOp, attributes: {axis: {count: 0}}}",
        "{node: MyOp, attributes: {axis: {count: {lt: .inf}}}}",
        "{node: MyOp, attributes: {axis: {every: {in: [1, 2], not: 2}}}}",
        "{node: MyOp, attributes: {axis: {regex: a, not: b}}}",
        "{node: MyOp, attributes: {axis: {is: [1, 2]}}}",
        "{value: x, shape: {0: {dim: symbolic, not: n}}}",
        "{call: f, args: {x: {literal: false, present: true}}}",
        "{call: f, args: {x: {literal: false, gt: 3}}}",
        "{measurement: '*.linf', value: {gt: 1}}",
        "{measurement: output.verdict, value: {not: drift}}",
        "{value: x, dtype: 'sequence(float32)'}",
        "{value: x, dtype: {contains: float8}}",
        "{node: 'Reduce*', domain: ''}",
        "{node: [Conv, MaxPool], domain: '', attributes: {group: 1, dilations: {any: {gt: 1}}}}",
        "{node: Conv, domain: my.ops, attributes: {whatever: 1}}",
        "{node: Convv}",
        "{node: Upsample, domain: '', opset: {ge: 10}}",
        "{node: LayerNormalization, domain: '', opset: {ge: 29}}",
        "{call: f, exists: {package: torch, version: '>2.6,<2.6.1'}}",
        "{call: f, exists: {package: torch, version: '==2.6.*'}}",
        "{call: f, exists: {package: torch, version: '!=2.6.*,>=2.6'}}",
    ],
)
def test_what_can_hold(lang, match):
    assert lang.rule(match)


NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 1.5, -2.0]))
TESTS = st.dictionaries(st.sampled_from(["lt", "le", "gt", "ge"]), NUMBERS, min_size=1, max_size=3)


@given(TESTS, st.one_of(st.none(), NUMBERS), st.one_of(st.integers(-6, 6), st.floats(-5, 5)))
def test_no_test_that_holds_of_something_is_refused(test, other, value):
    """Whatever is refused holds of no number that is drawn."""
    rows = {**test, **({} if other is None else {"not": other})}
    tree = read_documents(f"x: {rows}", "")[0][0].items["x"]
    try:
        compile_test(tree, DATA)
    except Wrong:
        compiled = [compile_test(type(tree)({key: part}, tree.keys, 1, 1), DATA) for key, part in tree.items.items()]
        assert any(one(value, FactStore()) is NO for one in compiled)
        assert any(one(ABSENT, FactStore()) is NO for one in compiled)


def test_every_fault_of_a_test_is_told(lang):
    problems = lang.problems("{node: MyOp, attributes: {a: {gtt: 1, lee: 2}, b: [x, {ge: x}]}, opset: {gt: [1]}}")
    assert problems == [
        "'gtt' is no test; did you mean 'gt'?",
        "'lee' is no test; did you mean 'le'?",
        "'ge' takes a number, not 'x'",
        "'gt' takes a number, not a list",
    ]


def test_every_fault_of_confirm_is_told(lang):
    confirm = """
    confirm:
      probe: output
      confirmed: [{measurement: output.verdict, value: dift}, {measurement: x}]
      refuted: {any: [{mesurement: output.verdict, vaule: noise}]}
    """
    assert lang.problems("{call: f}", confirm) == [
        "'output' is no probe; did you mean 'outputs'?",
        "output.verdict is never 'dift'; did you mean 'drift'?",
        "'x' is no metric",
        "a test on measurements has no key 'mesurement'; did you mean 'measurement'?",
        "a test on measurements has no key 'vaule'; did you mean 'value'?",
    ]
