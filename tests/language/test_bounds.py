"""Bad or huge input: a clear refusal, or an answer within limits."""

import time

import pytest

from tensoraudit.facts import Node
from tensoraudit.facts.site import NOWHERE
from tensoraudit.facts.store import FactStore
from tensoraudit.language.document import MAX_BYTES, MAX_DEPTH, MAX_NODES
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet, parse_rules


def told(text):
    start = time.process_time()
    _, problems = parse_rules(text, "r.yaml")
    assert time.process_time() - start < 5
    return [str(problem) for problem in problems]


def test_a_bomb_in_a_rule(lang):
    bomb = "\n".join(
        ["references: &a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"versions{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    )
    (problem,) = told(lang.text("{call: f}", bomb))
    assert f"more than {MAX_NODES} values once its aliases are written out" in problem


def test_a_key_given_twice(lang):
    assert told(lang.text("{call: f, args: {x: 1, x: 2}}")) == [
        "r.yaml:9:26: key 'x' is given twice; the first is in line 9"
    ]
    assert told(lang.text("{call: f}", "severity: low"))[0] == (
        "r.yaml:8:1: key 'severity' is given twice; the first is in line 3"
    )


def test_a_small_number_is_a_number(lang):
    rule = lang.rule("{node: MyOp, attributes: {epsilon: {le: 1e-5}}}")
    assert lang.matches(rule, lang.node("MyOp", attributes={"epsilon": 1e-6}))
    assert not lang.matches(rule, lang.node("MyOp", attributes={"epsilon": 1e-4}))
    assert not lang.matches(
        lang.rule("{node: MyOp, attributes: {epsilon: 1e-5}}"), lang.node("MyOp", attributes={"epsilon": "1e-5"})
    )


@pytest.mark.parametrize("version", ["2.10", "2", "1e1"])
def test_a_version_without_quotes(lang, version):
    (problem,) = lang.problems("{call: f}", f"when: [{{package: torch, version: {version}}}]")
    assert "quote it to make it text" in problem


def test_versions_on_that_is_text(lang):
    (problem,) = lang.problems("{call: f, args: {x: {present: on}}}")
    assert problem == "'present' must be true or false, not 'on'"


@pytest.mark.parametrize("depth", [MAX_DEPTH, 2_000, 50_000])
def test_conditions_nested_without_end(lang, depth):
    match = "{call: f, " + "not: {" * depth + "splat: true" + "}" * depth + "}"
    assert "nested deeper than" in told(lang.text(match))[0] or "nest" in told(lang.text(match))[0]


def test_conditions_nested_as_deep_as_allowed(lang):
    depth = MAX_DEPTH - 3
    rule = lang.rule("{call: f, " + "not: {" * depth + "splat: true" + "}" * depth + "}")
    assert bool(lang.matches(rule, lang.call("f", splat=True))) is (depth % 2 == 0)


def test_relations_nested_as_deep_as_allowed(lang):
    depth = MAX_DEPTH - 3
    rule = lang.rule("{node: A, " + "producer: {index: 0, " * depth + "name: end" + "}" * depth + "}")
    facts = [lang.node("A", [f"v{n}"], [f"v{n + 1}"], name="end" if n == 9 else "") for n in range(100)]
    assert [match.anchor.outputs for match in lang.matches(rule, *facts)] == [(f"v{10 + depth}",)]


def test_a_rule_of_many_conditions(lang):
    rows = ", ".join(f"a{n}: {n}" for n in range(4_000))
    rule = lang.rule(f"{{call: f, args: {{{rows}}}}}")
    assert lang.matches(rule, lang.call("f", {f"a{n}": n for n in range(4_000)}))


def test_a_file_too_large(lang):
    assert "larger than 1 MiB" in told(lang.text("{call: f}") + "#" * MAX_BYTES)[0]


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("{call: '**'}", "this would try every call; name it, or write 'scan: true'"),
        ("{reference: '*.*'}", "this would try every reference"),
        ("{node: '{op}'}", "this would try every node"),
        ("{call: f, exists: {call: '**', in: project}}", "in: project needs a literal part in the name of the call"),
        ("{call: f, absent: {node: '*', in: project}}", "in: project needs a literal part in the name of the node"),
        ("{tensor: '{a}.{b}', exists: {tensor: '{b}.{a}', in: project}}", "this would try every tensor"),
        ("{call: 'a*b*c*d*e*f*g*h.x'}", "more than 6 wildcards"),
    ],
)
def test_a_rule_that_would_try_everything(lang, match, words):
    assert words in "\n".join(lang.problems(match))


def test_a_ring_of_nodes_ends(lang):
    """Upstream and downstream go round once; so does a value that makes itself."""
    ring = [lang.node("A", [f"v{n}"], [f"v{(n + 1) % 50}"], name=f"n{n}") for n in range(50)]
    self_made = [lang.node("B", ["w"], ["w"], name="b")]
    for direction in ("upstream", "downstream"):
        assert not lang.matches(lang.rule(f"{{node: A, {direction}: {{node: C, within: 8}}}}"), *ring)
        assert len(lang.matches(lang.rule(f"{{node: A, {direction}: {{node: A, within: 8}}}}"), *ring)) == 50
        assert not lang.matches(lang.rule(f"{{node: B, {direction}: {{node: B, within: 8}}}}"), *self_made)
    assert len(lang.matches(lang.rule("{node: B, producer: {node: B}}"), *self_made)) == 1


def test_a_graph_around_itself_ends(lang):
    """Names of graphs that hold each other, as a broken file may have them."""
    facts = [lang.node("A", ["x"], ["y"], graph="main/a/main"), lang.node("B", ["y"], ["z"], graph="main/a/main/a")]
    assert lang.matches(lang.rule("{node: B, producer: {node: A}}"), *facts)


@pytest.mark.slow
def test_a_million_nodes(lang):
    """A chain with a wide fan at its head: every relation is a look-up, and a search that grows too wide gives up."""
    count, fan = 1_000_000, 20_000
    rules = [
        lang.rule("{node: Rare, upstream: {node: Absent, within: 8}, producer: {node: Relu}}"),
        lang.rule("{node: Rare, exists: {node: Head, in: graph}, not: {consumer: {node: Absent}}}"),
        lang.rule("{node: Head, downstream: {node: Absent, within: 8}}"),
    ]

    def node(op, *ends):
        return Node(op, "", 18, "", {}, ends[:1], ends[1:], "main", NOWHERE, "target", file="m.onnx")

    facts = [node("Head", "x", "v0")]
    facts += [node("Rare" if n % 1_000 == 0 else "Relu", f"v{n - 1}", f"v{n}") for n in range(1, count - fan)]
    facts += [node("Leaf", "v0", f"leaf{n}") for n in range(fan)]
    start = time.process_time()
    store = FactStore(facts)
    found = [len(match_rules(RuleSet((rule,)), store, source="", target="")) for rule in rules]
    assert found == [0, 979, 1]  # the last one is a suspicion: beyond 2,000 nodes nobody looked
    assert time.process_time() - start < 20
