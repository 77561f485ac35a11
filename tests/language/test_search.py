"""`exists` and `absent`: every place, order, `same`, sides, captures, and what is not known."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.facts import (
    Checkpoint,
    ClassDef,
    Device,
    Import,
    Measurement,
    Model,
    Name,
    Package,
    Site,
    Tensor,
    Unknown,
    Variable,
)


def tensor(name, dtype="float16", file="a.safetensors", side="source"):
    return Tensor(name, dtype, (1,), file, 0, 2, "inline", Site(file, tensor=name), side)


@pytest.fixture
def code(lang):
    """f in Net.run, g in Net.run.inner, h in Net.other, k in a free function, m in the module, n in another file."""
    return [
        lang.scope(0, "module", ""),
        lang.scope(1, "class", "Net", 0),
        lang.scope(2, "function", "Net.run", 1),
        lang.scope(3, "function", "Net.run.inner", 2),
        lang.scope(4, "function", "Net.other", 1),
        lang.scope(5, "function", "free", 0),
        lang.scope(10, "module", "", path="b.py"),
        ClassDef("Net", (), ("run", "other"), 1, Site("a.py", 2, 1), "source"),
        lang.call("f", {0: Name("x"), "self": Name("m")}, scope=2, order=5, line=5, assigned="y"),
        lang.call("g", {0: 3}, scope=3, order=6, line=6, assigned="x"),
        lang.call("h", {0: Name("x")}, scope=4, order=7, line=7),
        lang.call("k", scope=5, order=8, line=8),
        lang.call("m", scope=0, order=1, line=1),
        lang.call("n", scope=10, path="b.py"),
        Import("torch", ("torch",), 0, Site("a.py", 1, 1), "source"),
    ]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("{call: g, in: function}", True),
        ("{call: h, in: function}", False),
        ("{call: h, in: class}", True),
        ("{call: k, in: class}", False),
        ("{call: k, in: module}", True),
        ("{call: n, in: module}", False),
        ("{call: n, in: project}", True),
        ("{call: f, in: function}", False),  # never the anchor itself
        ("{call: [a, b, g], in: function}", True),
        ("{call: '*', in: function}", True),
        ("{call: '{x}', in: module}", None),
        ("{import: torch, in: module}", True),
        ("{class: Net, in: module}", True),
        ("{function: inner, in: function}", True),
        ("{function: other, in: function}", False),
        ("{call: m, in: module, before: true}", True),
        ("{call: g, in: module, before: true}", False),
        ("{call: g, in: module, after: true}", True),
        ("{import: torch, in: module, before: true}", True),
        ("{call: g, in: module, args: {0: 3}}", True),
        ("{call: g, in: module, args: {0: 4}}", False),
        ("{call: g, in: module, inside: {function: inner}}", True),
        ("{call: h, in: module, same: [args.0]}", True),
        ("{call: g, in: module, same: {assigned: args.0}}", True),
        ("{call: g, in: module, same: {assigned: args.self}}", False),
        ("{call: g, in: module, same: [args.0]}", False),
        ("{call: h, in: module, same: [args.2]}", False),
        ("{call: h, in: module, same: {args.0|x: args.0}}", True),
        ("{call: [g, h], in: module, same: [args.0], before: true}", False),
        ("{call: g, in: module, side: target}", False),
        ("{call: g, in: module, side: source}", True),
    ],
)
def test_exists_and_absent(lang, code, search, found):
    if found is None:
        assert "captures nothing" in lang.problems(f"{{call: f, exists: {search}}}")[0]
        return
    assert bool(lang.matches(lang.rule(f"{{call: f, exists: {search}}}"), *code)) is found
    assert bool(lang.matches(lang.rule(f"{{call: f, absent: {search}}}"), *code)) is not found


@pytest.mark.parametrize(
    ("value", "found"), [({"model": Name("net")}, True), ({"net": Name("net")}, False), ((), False)]
)
def test_a_partner_may_share_what_a_written_dict_holds_under_a_key(lang, value, found):
    rule = lang.rule("{call: f, exists: {call: g, in: module, same: {assigned: args.0|obj.model}}}")
    assert bool(lang.matches(rule, lang.call("f", {0: value}), lang.call("g", assigned="net"))) is found


@pytest.mark.parametrize(("ours", "theirs"), [(Unknown("?"), 1), (1, Unknown("?"))])
def test_what_is_not_known_may_be_the_same(lang, ours, theirs):
    facts = [lang.call("f", {0: ours}), lang.call("g", {0: theirs}, line=2)]
    rule = lang.rule("{call: f, exists: {call: g, in: module, same: [args.0]}}")
    assert [match.state for match in lang.matches(rule, *facts)] == ["suspected"]
    known = lang.rule("{call: f, exists: {call: g, in: module, same: [args.0], known: true}}")
    assert lang.matches(known, *facts) == []
    assert lang.matches(known, lang.call("f", {0: 1}), lang.call("g", {0: 1}, line=2)) != []


ORDERS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2, Unknown("?")])), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), ORDERS, st.sampled_from(["before", "after"]))
def test_order_is_that_of_looking_at_every_pair(lang, anchors, others, direction):
    rule = lang.rule(f"{{call: f, exists: {{call: g, in: module, {direction}: true, args: {{0: 1}}}}}}")
    facts = [lang.call("f", order=order, line=n + 1) for n, order in enumerate(anchors)]
    facts += [lang.call("g", {0: value}, order=order, line=50 + n) for n, (order, value) in enumerate(others)]
    expected = {}
    for n, own in enumerate(anchors):
        seen = [
            value for order, value in others if (order < own if direction == "before" else order > own) and value != 2
        ]
        if seen:
            expected[n + 1] = "certain" if 1 in seen else "suspected"
    assert {match.where.line: match.state for match in lang.matches(rule, *facts)} == expected


@pytest.mark.parametrize(("search", "found"), [("{call: g, in: class}", True), ("{call: k, in: class}", False)])
def test_a_class_looks_into_itself(lang, code, search, found):
    assert bool(lang.matches(lang.rule(f"{{class: Net, exists: {search}}}"), *code)) is found


def test_code_outside_functions_looks_into_the_module(lang, code):
    assert lang.matches(lang.rule("{call: m, exists: {call: h, in: function}}"), *code)
    assert not lang.matches(lang.rule("{call: m, exists: {call: h, in: class}}"), *code)


def test_absence_of_code_is_likely_and_presence_certain(lang, code):
    def state(match):
        return [found.state for found in lang.matches(lang.rule(match), *code)]

    assert state("{call: f, absent: {call: z, in: project}}") == ["likely"]
    assert state("{call: f, exists: {call: g, in: module}}") == ["certain"]
    assert state("{call: f, not: {exists: {call: z, in: module}}}") == ["likely"]
    assert state("{call: f, not: {absent: {call: g, in: module}}}") == ["certain"]
    assert state("{call: f, absent: {package: z}}") == ["suspected"]  # no environment was read


def test_an_ambiguous_partner_is_unknown(lang, code):
    rule = lang.rule("{call: f, exists: {call: z, in: module}}")
    (match,) = lang.matches(rule, *code, lang.call("z", scope=0, ambiguous=True))
    assert match.state == "suspected"


def test_a_value_not_known_may_be_the_same(lang, code):
    rule = lang.rule("{call: f, exists: {call: z, in: module, same: [args.0]}}")
    hidden = lang.call("z", {0: Unknown("?")}, scope=0)
    splat = lang.call("z", scope=0, splat=True)
    assert [match.state for match in lang.matches(rule, *code, hidden)] == ["suspected"]
    assert [match.state for match in lang.matches(rule, *code, splat)] == ["suspected"]
    rule = lang.rule("{call: q, exists: {call: f, in: module, same: [args.0]}}")
    assert [match.state for match in lang.matches(rule, *code, lang.call("q", {0: Unknown("?")}))] == ["suspected"]


def test_captures_are_put_in(lang):
    rule = lang.rule('{tensor: "{layer}.weight", absent: {tensor: ["{layer}.scale", "{layer}.s"], in: checkpoint}}')
    names = ["a.weight", "b.weight", "b.scale", "c.d.weight", "c.d.s"]
    matches = lang.matches(rule, *map(tensor, names))
    assert [(match.anchor.name, match.captures, match.state) for match in matches] == [
        ("a.weight", {"layer": "a"}, "certain")
    ]


def test_captures_deep_inside_are_those_of_each_anchor(lang):
    rule = lang.rule('{node: "{x}A", exists: {node: Z, in: graph, producer: {node: "{x}B"}}}')
    facts = [
        lang.node("pA", name="1"),
        lang.node("qA", name="2"),
        lang.node("qB", ["i"], ["o"]),
        lang.node("Z", ["o"], ["e"]),
    ]
    assert [match.anchor.name for match in lang.matches(rule, *facts)] == ["2"]
    assert [match.anchor.name for match in lang.matches(rule, *reversed(facts))] == ["2"]


def test_a_checkpoint_is_all_its_files(lang):
    rule = lang.rule('{tensor: "{layer}.weight", exists: {tensor: "{layer}.scale", in: checkpoint}}')
    facts = [tensor("a.weight", file="1"), tensor("a.scale", file="2")]
    assert not lang.matches(rule, *facts)
    assert lang.matches(rule, *facts, Checkpoint("safetensors", ("1", "2"), (), {}, Site("x"), "source"))
    assert not lang.matches(rule, tensor("a.weight"), tensor("a.scale", side="target"))


def test_a_checkpoint_is_beside_its_tensors(lang):
    rule = lang.rule("{tensor: w, exists: {checkpoint: safetensors, in: checkpoint}}")
    assert lang.matches(rule, tensor("w", file="1"), Checkpoint("safetensors", ("1",), (), {}, Site("x"), "source"))
    assert not lang.matches(rule, tensor("w", file="1"), Checkpoint("safetensors", ("2",), (), {}, Site("x"), "source"))


def test_graphs_and_models(lang):
    facts = [
        lang.node("If", name="n"),
        lang.node("Relu", graph="main/n.then"),
        lang.node("Conv", path="other.onnx"),
        Model("onnx", "", 8, {}, (), (), {}, Site("m.onnx"), "target"),
    ]

    def found(search, anchor="node: If"):
        return bool(lang.matches(lang.rule(f"{{{anchor}, exists: {search}}}"), *facts))

    assert not found("{node: Relu, in: graph}")
    assert found("{node: Relu, in: model}")
    assert not found("{node: Conv, in: model}")
    assert found("{node: Conv, in: project}")
    assert found("{node: Relu, in: model}", "model: onnx")
    assert found("{model: onnx}")


def test_nodes_that_share_an_attribute_are_joined(lang):
    facts = [lang.node("A", attributes={"to": 1}, name=f"a{n}") for n in range(3)] + [
        lang.node("B", attributes={"to": 1})
    ]
    rule = lang.rule("{node: A, exists: {node: B, in: graph, same: [attributes.to]}}")
    assert len(lang.matches(rule, *facts)) == 3
    assert not lang.matches(rule, *facts[:3], lang.node("B", attributes={"to": 2}))
    assert not lang.matches(rule, *facts[:3], lang.node("B"))


@pytest.mark.parametrize(
    ("test", "facts", "states"),
    [
        ("{exists: {package: torch, version: '>=2'}}", [Package("torch", "2.1", "source")], ["certain"]),
        ("{exists: {package: torch, version: '>=3'}}", [Package("torch", "2.1", "source")], []),
        ("{exists: {package: torch, side: target}}", [Package("torch", "2.1", "source")], ["suspected"]),
        (
            "{exists: {package: torch, side: target}}",
            [Package("torch", "2.1", "source"), Package("x", "1", "target")],
            [],
        ),
        ("{exists: {package: torch}}", [Package("torch", "2.1", "both")], ["certain"]),
        ("{exists: {package: Torch_Audio}}", [Package("torch-audio", "2.1", "source")], ["certain"]),
        ("{absent: {variable: A, value: '1'}}", [Variable("A", "1", "source")], []),
        ("{absent: {variable: A, value: '1'}}", [Package("x", "1", "source")], ["certain"]),
        ("{absent: {variable: A, value: '1'}}", [], ["suspected"]),
        ("{exists: {device: cuda, side: target}}", [Device("cuda", "H200", "9.0", "", "target")], ["certain"]),
    ],
)
def test_environments(lang, test, facts, states):
    rule = lang.rule(f"{{call: f, all: [{test}]}}")
    assert [match.state for match in lang.matches(rule, lang.call("f"), *facts)] == states


def test_measurements_of_one_subject(lang):
    partner = "{measurement: run.error, same: [subject], value: true}"
    rule = lang.rule(f"{{measurement: output.linf, value: {{gt: 0}}, exists: {partner}}}")
    rows = [
        Measurement("output.linf", "x", 1),
        Measurement("output.linf", "y", 1),
        Measurement("run.error", "x", True),
        Measurement("run.error", "y", False),
    ]
    assert [match.anchor.subject for match in lang.matches(rule, *rows)] == ["x"]
