"""Edges of graphs, with subgraphs, functions and values that nobody declared."""

from tensoraudit.facts import ABSENT, Node, Site, Unknown, Value
from tensoraudit.facts.graph_index import UNSURE, GraphIndex


def node(op, inputs, outputs, graph="main", side="target", path="m.onnx"):
    return Node(op, "", 18, "", {}, tuple(inputs), tuple(outputs), graph, Site(path), side)


def value(name, graph="main", side="target", path="m.onnx", dtype="float32"):
    return Value(name, dtype, (1,), ABSENT, "input", graph, side, Site(path))


def test_producers_and_consumers():
    a, b, c = node("A", ["x"], ["y"]), node("B", ["y", "y", ""], ["z"]), node("C", ["y"], [])
    index = GraphIndex([a, b, c], [])
    assert index.producer(b, "y") is a
    assert index.producer(a, "x") is None
    assert index.consumers(a, "y") == [b, c]
    assert index.consumers(b, "z") == []
    assert index.consumers(node("D", [], [], path="other.onnx"), "y") == ()


def test_sides_and_files_are_apart():
    a, b = node("A", ["x"], ["y"]), node("B", ["y"], ["z"], side="source")
    assert GraphIndex([a, b], []).producer(b, "y") is None
    b = node("B", ["y"], ["z"], path="other.onnx")
    assert GraphIndex([a, b], []).producer(b, "y") is None


def test_a_subgraph_sees_around_itself_and_hides_its_own():
    outer = node("A", ["x"], ["y"])
    inner = node("B", ["y"], ["x"], "main/If_3.then_branch")
    deeper = node("C", ["y", "x"], ["c"], "main/If_3.then_branch/Loop_0.body")
    index = GraphIndex([outer, inner, deeper], [value("x")])
    assert index.producer(deeper, "y") is outer
    assert index.producer(deeper, "x") is inner
    assert index.value(inner, "y").role == "intermediate"
    assert index.consumers(outer, "y") == [inner, deeper]
    assert index.consumers(value("x"), "x") == [outer]
    assert index.consumers(inner, "x") == [deeper]


def test_names_of_nodes_with_slashes_do_not_confuse_the_nesting():
    outer = node("A", ["x"], ["y"])
    inner = node("B", ["y"], ["z"], "main//model/layer/If.then")
    assert GraphIndex([outer, inner], []).producer(inner, "y") is outer


def test_a_value_of_an_inner_graph_hides_a_producer_outside():
    outer = node("A", ["x"], ["y"])
    inner = node("B", ["y"], ["z"], "main/Loop.body")
    index = GraphIndex([outer, inner], [value("y", "main/Loop.body")])
    assert index.producer(inner, "y") is None
    assert index.consumers(outer, "y") == []


def test_a_function_sees_only_itself():
    outer, inner = node("A", ["x"], ["y"]), node("B", ["y"], ["z"], "fn:my.f")
    assert GraphIndex([outer, inner], []).producer(inner, "y") is None


def test_values():
    a = node("A", ["x", ""], ["y"])
    index = GraphIndex([a], [value("x"), value("x", dtype="int64")])
    assert index.value(a, "x").dtype == "float32"
    assert index.value(a, "") is None
    made, unseen = index.value(a, "y"), index.value(a, "q")
    assert (made.role, made.constant, made.dtype) == ("intermediate", ABSENT, UNSURE)
    assert (unseen.role, unseen.constant) == (UNSURE, UNSURE)
    assert isinstance(unseen.shape, Unknown)


def test_values_without_a_file_are_found_by_side_and_graph():
    a = node("A", ["x"], ["y"])
    inner = node("B", ["w"], ["z"], "main/If.then")
    bare = Value("x", "int64", (1,), ABSENT, "input", "main", "target")
    index = GraphIndex([a, inner], [bare, Value("w", "bool", (), ABSENT, "input", "main", "target")])
    assert index.value(a, "x").dtype == "int64"
