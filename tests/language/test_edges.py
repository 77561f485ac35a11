"""The relations of graphs, through subgraphs too."""

import pytest

from tensoraudit.facts import Unknown

# x, w -> Mul -> a -> Conv(a, w, ) -> b -> Relu -> c; b -> Cast -> d;  c -> If[ Neg(b) ]


@pytest.fixture
def graph(lang):
    n, v = lang.node, lang.value
    return [
        n("Mul", ["x", "w"], ["a"], name="mul"),
        n("Conv", ["a", "w", ""], ["b"], name="conv"),
        n("Relu", ["b"], ["c"], name="relu"),
        n("Cast", ["b"], ["d"], name="cast"),
        n("If", ["c"], ["e"], name="if"),
        n("Neg", ["b"], ["f"], name="neg", graph="main/if.then"),
        v("x", shape=("batch", 3), role="input"),
        v("w", dtype="float16", shape=(3, 3), constant=((1.0,),), role="initializer"),
        v("a", dtype=Unknown("untyped")),
        v("b", shape=(1, 2), role="intermediate"),
    ]


def holds(lang, graph, match):
    return [found.state for found in lang.matches(lang.rule(match), *graph)]


@pytest.mark.parametrize(
    ("relation", "answer"),
    [
        ("input: {index: 1, role: initializer}", "certain"),
        ("input: {index: 0, role: initializer}", None),
        ("input: {dtype: float16}", "certain"),
        ("input: {dtype: float16, quantifier: every}", "suspected"),
        ("input: {index: 1, constant: {present: true}}", "certain"),
        ("input: {index: 1, constant: {any: {gt: 0}}}", "certain"),
        ("input: {index: 1, shape: {rank: 2}, dtype: [float16, bfloat16]}", "certain"),
        ("input: {index: 0, dtype: int64}", "suspected"),
        ("input: {index: 2, present: false}", "certain"),
        ("input: {index: 5, present: false}", "certain"),
        ("input: {index: 2, present: true}", None),
        ("input: {index: 0, present: true}", "certain"),
        ("input: {index: 2, dtype: int64}", None),
        ("input: {index: -2, role: initializer}", "certain"),
        ("output: {index: 0, shape: {0: 1}}", "certain"),
        ("output: {index: 0, name: c}", None),
        ("[input: {index: 0, name: a}, output: {name: b}]", "certain"),
        ("producer: {index: 0, node: Mul}", "certain"),
        ("producer: {index: 1, node: Mul}", None),
        ("producer: {node: [Add, Mul]}", "certain"),
        ("producer: {node: Mul, quantifier: every}", None),
        ("producer: {index: 0}", "certain"),
        ("producer: {index: 1}", None),
        ("producer: {index: 2}", None),
        ("producer: {index: 0, name: mul, input: {index: 0, role: input}}", "certain"),
        ("consumer: {node: Relu}", "certain"),
        ("consumer: {index: 0, node: [Relu, Cast], quantifier: every}", None),
        ("consumer: {node: [Relu, Cast, Neg], quantifier: every}", "certain"),
        ("consumer: {node: Neg}", "certain"),
        ("consumer: {node: If}", None),
        ("upstream: {node: Mul, within: 1}", "certain"),
        ("downstream: {node: If, within: 1}", None),
        ("downstream: {node: If, within: 2}", "certain"),
        ("downstream: {within: 1, name: cast}", "certain"),
        ("downstream: {node: Relu, within: 8, consumer: {node: If}}", "certain"),
    ],
)
def test_relations_of_a_node(lang, graph, relation, answer):
    body = relation[1:-1] if relation.startswith("[") else relation
    assert holds(lang, graph, f"{{node: Conv, {body}}}") == ([answer] if answer else [])


def test_a_subgraph_sees_what_is_around_it(lang, graph):
    assert holds(lang, graph, "{node: Neg, producer: {index: 0, node: Conv}}") == ["certain"]
    assert holds(lang, graph, "{node: Neg, input: {index: 0, shape: {rank: 2}}}") == ["certain"]
    assert holds(lang, graph, "{node: Neg, upstream: {node: Mul, within: 2}}") == ["certain"]


def test_values_have_producers_and_consumers(lang, graph):
    assert holds(lang, graph, "{value: b, producer: {node: Conv}}") == ["certain"]
    assert holds(lang, graph, "{value: x, producer: {}}") == []
    assert holds(lang, graph, "{value: w, consumer: {node: Conv}}") == ["certain"]
    assert holds(lang, graph, "{value: a, downstream: {node: If, within: 3}}") == ["certain"]


def test_nothing_has_no_consumer_and_every_holds(lang):
    facts = [lang.node("Relu", ["x"], ["y"])]
    assert holds(lang, facts, "{node: Relu, consumer: {node: Cast, quantifier: every}}") == ["certain"]
    assert holds(lang, facts, "{node: Relu, consumer: {node: Cast}}") == []


def test_of_a_value_without_a_fact_nothing_is_known(lang):
    facts = [lang.node("Relu", ["x"], ["y"]), lang.node("Neg", ["y"], ["z"])]
    assert holds(lang, facts, "{node: Relu, input: {index: 0, role: initializer}}") == ["suspected"]
    assert holds(lang, facts, "{node: Relu, input: {index: 0, constant: {present: true}}}") == ["suspected"]
    assert holds(lang, facts, "{node: Neg, input: {index: 0, role: intermediate}}") == ["certain"]
    assert holds(lang, facts, "{node: Neg, input: {index: 0, constant: {present: true}}}") == []
    assert holds(lang, facts, "{node: Relu, input: {index: 0, name: x}}") == ["certain"]


def test_a_cycle_ends(lang):
    facts = [lang.node("A", ["b"], ["a"]), lang.node("B", ["a"], ["b"])]
    assert holds(lang, facts, "{node: A, upstream: {node: C, within: 8}}") == []
    assert holds(lang, facts, "{node: A, downstream: {node: A, within: 8}}") == []


def test_a_stream_too_wide_to_search_is_unknown(lang):
    facts = [lang.node("A", ["x"], ["a"])] + [lang.node("B", ["a"], [f"b{n}"]) for n in range(3_000)]
    assert holds(lang, facts, "{node: A, downstream: {node: C, within: 2}}") == ["suspected"]
    assert holds(lang, facts, "{node: A, downstream: {node: B, within: 2}}") == ["certain"]


def test_files_are_kept_apart(lang):
    facts = [lang.node("A", ["x"], ["y"], path="1.onnx"), lang.node("B", ["y"], ["z"], path="2.onnx")]
    assert holds(lang, facts, "{node: B, producer: {node: A}}") == []


def test_nodes_that_show_their_source_are_held_together_by_their_file(lang):
    facts = [lang.node("A", ["x"], ["y"], path="net.py", file="m.onnx"), lang.node("B", ["y"], ["z"], path="m.onnx")]
    assert holds(lang, facts, "{node: B, producer: {node: A}}") == ["certain"]
