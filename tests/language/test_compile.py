"""Wrong rules: every fault of a file at once, each with its place and the nearest right word."""

import dataclasses

import pytest

from tensoraudit.facts.store import KEYS, KINDS
from tensoraudit.language.load import parse_rules
from tensoraudit.language.schema import ANCHORS, COMMON, DTYPES, VALUE_FIELDS


def test_a_whole_rule(lang):
    rule = lang.rule(
        "{call: torch.load, args: {weights_only: {present: false}}}",
        """
        certainty: likely
        source: [pytorch]
        target: onnx
        when: [{package: torch, side: target, version: ">=2.6"}]
        confirm:
          probe: session
          with: {path: "{arg:f}"}
          confirmed: {measurement: session.loads, value: false}
          refuted: {measurement: session.loads, value: true, quantifier: every}
        versions: since 2.6
        fix: Pass weights_only.
        references: [https://example.org]
        aliases: OLD-1
        see-also: [TST-002]
        supersedes: [TST-003, TST-004]
        """,
    )
    assert (rule.id, rule.severity, rule.layer, rule.certainty) == ("TST-001", "high", "graph", "likely")
    assert (rule.source, rule.target, rule.aliases) == (("pytorch",), ("onnx",), ("OLD-1",))
    assert (rule.see_also, rule.supersedes) == (("TST-002",), ("TST-003", "TST-004"))
    assert rule.confirm.parameters == {"path": "{arg:f}"}
    assert rule.fix == rule.alternatives[0].fix == "Pass weights_only."
    assert rule.alternatives[0].message.text == "{name}"
    assert len(rule.when) == 1


@pytest.mark.parametrize(
    ("source", "target", "asked"),
    [("pytorch", "onnx", True), ("", "", True), ("jax", "onnx", False), ("pytorch", "jax", False), ("", "jax", False)],
)
def test_a_rule_is_asked_for_its_frameworks_alone(lang, source, target, asked):
    rule = lang.rule("{call: f}", "source: [pytorch, keras]\ntarget: [onnx]")
    assert rule.concerns(source, target) is asked
    assert lang.rule("{call: f}").concerns(source, target)


def test_all_faults_of_a_file_at_once_with_their_places():
    text = """\
id: TST-1
title: A test
severity: bad
layers: graph
match:
  node: Conv
  atributes: {group: 1}
  domain: 3
message: "{nam}"
why: Because.
remedy: Change it.
examples:
  - onx: y = Relu (x)
"""
    rules, problems = parse_rules(text, "r.yaml")
    assert rules == []
    assert sorted(map(str, problems), key=lambda text: int(text.split(":")[1])) == [
        "r.yaml:1:1: the rule has no 'layer'",
        "r.yaml:3:11: 'bad' is no severity; known are critical, high, medium, low",
        "r.yaml:4:1: a rule has no key 'layers'; did you mean 'layer'?",
        "r.yaml:7:3: a node has no field 'atributes'; did you mean 'attributes'?",
        "r.yaml:8:11: 3 can never equal a text; quote it",
        "r.yaml:9:10: '{nam}' is nothing that a node can fill; did you mean 'name'?",
        "r.yaml:13:5: an example has no key 'onx'; did you mean 'onnx'?",
        "r.yaml:13:5: an example needs one of python, onnx, onnx_model, nodes, torchscript, exported_program, values, "
        "model, tensors, checkpoint, environment, measurements",
        "r.yaml:13:3: no example is flagged; mark a line with '# flag' or '# suspect', or list 'flag'",
    ]


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("{}", "a pattern needs an anchor such as 'call' or 'node'"),
        ("{cal: f}", "did you mean 'call'?"),
        ("{call: f, node: Conv}", "two anchors, 'call' and 'node'; a pattern has one"),
        ("{call: 3}", "the name of a call is the number 3 here; quote it"),
        ("{call: []}", "the name of a call is an empty list"),
        ('{call: "{x"}', "a capture is written {word}"),
        ('{tensor: ["{a}.w", "{b}.w"]}', "all names of one anchor must hold the same captures"),
        ('{call: "**"}', "no literal part: this would try every call; name it, or write 'scan: true'"),
        ('{node: "*", domain: ""}', "no literal part: this would try every node"),
        ('{value: "**", dtype: float16}', "no literal part"),
        ('{value: "**", role: [initializer, intermediate]}', "no literal part"),
        ('{value: "**", constant: [1, {present: false}]}', "no literal part"),
        ("{node: Conv, inside: {loop: true}}", "'inside' is a relation of call"),
        ("{call: f, producer: {node: Conv}}", "'producer' is a relation of node and value, not of a call"),
        ("{value: x, input: {index: 0, dtype: int64}}", "'input' is a relation of node"),
        ("{call: f, inside: {functions: g}}", "nothing is inside a 'functions'; did you mean 'function'?"),
        ("{call: f, inside: {}}", "'inside' needs a block, a function or a class"),
        ("{call: f, inside: {with: []}}", "a name is an empty list"),
        ("{call: f, exists: {call: g}}", "'exists' needs 'in': function, class, module"),
        ("{call: f, exists: {call: g, in: file}}", "'file' is no place"),
        ('{call: f, exists: {call: "**", in: project}}', "in: project needs a literal part"),
        ("{call: f, exists: {call: g, in: project, before: true}}", "within one file only"),
        ("{call: f, exists: {call: g, in: module, before: true, after: true}}", "together leave nothing"),
        ("{call: f, exists: {call: g, in: module, before: 1}}", "before must be true or false"),
        ("{call: f, exists: {call: g, in: module, same: [nam]}}", "a call has no field 'nam'; did you mean 'name'?"),
        ("{call: f, exists: {call: g, in: module, same: {args.0: asigned}}}", "did you mean 'assigned'?"),
        ("{call: f, exists: {call: g, in: module, side: left}}", "'left' is no side"),
        ('{call: f, exists: {tensor: "{x}.w", in: checkpoint}}', "'{x}' captures nothing"),
        ("{call: f, side: both}", "'both' is no side; known are source, target"),
        ("{call: f, args: [1]}", "args must be a mapping, not a list"),
        ("{call: f, args: {'a b': 1}}", "'a b' names no argument"),
        ("{node: Conv, input: {index: 0}}", "'input' tests nothing"),
        ("{node: Conv, input: {present: false}}", "'present' needs an 'index'"),
        ("{node: Conv, input: {index: x, dtype: int64}}", "'index' is a whole number, not 'x'"),
        ("{node: Conv, input: {index: true, dtype: int64}}", "'index' is a whole number, not True"),
        ("{node: Conv, input: {index: 0, dtyp: int64}}", "a value has no field 'dtyp'; did you mean 'dtype'?"),
        ("{node: Conv, producer: {index: 0, node: Pad, quantifier: all}}", "'all' is no quantifier"),
        ("{node: Conv, upstream: {node: Pad}}", "'upstream' needs 'within', a whole number from 1 to 8"),
        ("{node: Conv, downstream: {node: Pad, within: 9}}", "'downstream' needs 'within'"),
        ("{node: Conv, upstream: {node: Pad, within: true}}", "'upstream' needs 'within'"),
        ("{call: f, any: []}", "'any' over nothing"),
        ("{call: f, any: [3]}", "each part of 'any' must be a mapping, not 3"),
        ("{call: f, not: {callee: g}}", "a call has no field 'callee'"),
        ("3", "a pattern must be a mapping, not 3"),
        ("[]", "'match' is an empty list"),
        ("[{call: f}, {cal: g}]", "did you mean 'call'?"),
    ],
)
def test_wrong_patterns(lang, match, words):
    assert words in "\n".join(lang.problems(match))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("scan: maybe", "scan must be true or false, not 'maybe'"),
        ("scan: true", "an index finds every anchor here; leave 'scan' out"),
        ("certainty: sure", "'sure' is no certainty"),
        ("source: [torch]", "'torch' is no framework; did you mean 'pytorch'?"),
        ("aliases: [x1]", "'x1' is no id; write capital letters, a dash and digits"),
        ("versions: 2.1", "versions is the number 2.1 here; quote it to make it text"),
        ("versions: ''", "'versions' is empty"),
        ("references: {a: b}", "references must be text, not a mapping"),
        ("deprecated: 1", "deprecated must be true or false, not 1"),
        ("fix: {set-arguments: {a: 1}, safety: safe}", "did you mean 'set-argument'?"),
        ("fix: {set-argument: {a: 1}}", "a fix says 'safety: safe' or 'safety: unsafe'"),
        ("fix: {safety: safe}", "a fix has one of set-argument"),
        ("fix: {set-argument: {a: 1}, safety: perhaps}", "'perhaps' is no safety"),
        ("when: [{call: f}]", "'when' asks about package, variable, device, model, checkpoint, not 'call'"),
        ("when: [{package: torch, version: 2.10}]", "a version range is the number 2.1 here; quote it"),
        ('when: [{package: torch, version: "2.6"}]', "write '==2.6' for exactly that one"),
        ("when: [{package: torch, versio: '>1'}]", "did you mean 'version'?"),
        ("when: [{package: torch, same: [name]}]", "'same' needs an anchor to compare with"),
        ("when: [{not: {package: torch}, package: x}]", "'not' stands alone in a test of 'when'"),
        ("when: [3]", "a test of 'when' must be a mapping"),
        ("when: []", "'when' over nothing"),
        ("when: [{any: []}]", "'any' over nothing"),
        ("confirm: {prob: outputs}", "'confirm' has no key 'prob'; did you mean 'probe'?"),
        ("confirm: {probe: outputs, confirmed: {measurement: output.linf}}", "'confirm' needs 'refuted'"),
        ("confirm: {probe: output, confirmed: {}, refuted: {}}", "'output' is no probe; did you mean 'outputs'?"),
    ],
)
def test_wrong_keys(lang, extra, words):
    assert words in "\n".join(lang.problems("{call: f}", extra))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{}", "a test on measurements needs 'measurement'"),
        ("{measurement: output.verdit}", "'output.verdit' is no metric; did you mean 'output.verdict'?"),
        ("{measurement: output.linf, val: 1}", "a test on measurements has no key 'val'; did you mean 'value'?"),
        ("{measurement: output.linf, quantifier: all}", "'all' is no quantifier"),
        ("{measurement: output.linf, value: {gt: x}}", "'gt' takes a number"),
        ("{measurement: output.linf, subject: '{arg:f}.{layer}'}", "'{layer}' is nothing that a call can fill"),
        ("{measurement: output.linf, subject: '{attribute:x}'}", "'{attribute:x}' is nothing that a call can fill"),
        ("{any: {measurement: output.linf}}", "'any' stands alone and holds a list"),
        ("{any: [{measurement: x}]}", "'x' is no metric"),
        ("[{measurement: x}]", "'x' is no metric"),
        ("3", "a test on measurements must be a mapping"),
        ("[]", "an empty list of tests on measurements decides nothing"),
        ("{measurement: output.linf, subject: a*b*c*d*e*f*g*h}", "more than 6 wildcards"),
    ],
)
def test_wrong_confirm(lang, row, words):
    good = "{measurement: output.linf, value: 0}"
    confirm = f"confirm:\n  probe: outputs\n  confirmed: {row}\n  refuted: {good}"
    assert words in "\n".join(lang.problems("{call: f}", confirm))


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        ("3", "'examples' is a list"),
        ("[]", "no example is flagged"),
        ("[{python: 'f()'}]", "no example is flagged"),
        ("[{python: 'f()  # flag'}]", "no example stays silent"),
        ("[{python: 3}, {python: 'f() # flag'}]", "python is the number 3 here"),
        ("[f]", "an example must be a mapping, not 'f'"),
    ],
)
def test_wrong_examples(lang, examples, words):
    text = lang.text("{call: f}").partition("examples:")[0] + f"examples: {examples}\n"
    assert words in "\n".join(problem.text for problem in parse_rules(text)[1])


def test_scan_allows_an_anchor_without_a_name(lang):
    assert lang.rule('{node: "**"}', "scan: true").scan


@pytest.mark.parametrize(
    "match",
    [
        '{node: "**", domain: my.ops}',
        '{value: "**", role: input}',
        '{value: "**", constant: {gt: 1}}',
        '{class: "**", bases: a.B}',
        '{package: "**"}',
    ],
)
def test_another_field_may_find_the_facts(lang, match):
    assert lang.rule(match)


def test_the_fields_of_the_schema_are_those_of_the_facts():
    dataclass_of = {kind: cls for cls, kind in KINDS.items()} | {"function": {k: c for c, k in KINDS.items()}["scope"]}
    for kind, fields in ANCHORS.items():
        names = {field.name for field in dataclasses.fields(dataclass_of[kind])}
        assert set(fields) - {"effective"} <= names, kind  # which is made of `args` and the installed version
        assert KEYS[kind] in names
        assert not set(fields) & set(COMMON)
    from tensoraudit.artifacts import pickles
    from tensoraudit.extract import exported_graph, onnx_schema

    given = {*onnx_schema.DTYPES.values(), *exported_graph.DTYPES.values(), *pickles._DTYPES.values()}
    assert given <= set(DTYPES)
    assert set(VALUE_FIELDS) <= {field.name for field in dataclasses.fields(dataclass_of["value"])}


@pytest.mark.parametrize("kind", ["operation", "call"])
def test_an_anchor_without_a_name_is_refused(lang, kind):
    assert "is an empty list; nothing can match it" in lang.problems(f"{{{kind}: []}}")[0]
