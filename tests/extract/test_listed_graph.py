"""What a worker lists, as facts; and listings that no worker of ours would send."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensoraudit.extract.listed_graph import data, facts_from_listing
from tensoraudit.facts import ABSENT, Model, Node, Unknown, Value
from tensoraudit.facts.store import FactStore

LISTING = {
    "format": "jaxpr",
    "nodes": [
        {
            "op": "dot_general", "domain": "jax", "name": "dot_general_0", "graph": "main", "inputs": ["x", "w"],
            "outputs": ["v2"], "source": {"path": "/home/me/net.py", "line": 7},
            "attributes": {"dimension_numbers": [[[1], [0]], [[], []]], "mesh": {"unknown": "a Mesh"}, "to": None},
        },
        {"op": "scan", "domain": "jax", "name": "scan_1", "graph": "main", "inputs": ["v2"], "outputs": ["v3"],
         "attributes": {"jaxpr": "main/scan_1.jaxpr"}, "source": None},
        {"op": "tanh", "domain": "jax", "name": "tanh_0", "graph": "main/scan_1.jaxpr", "inputs": ["v2"],
         "outputs": ["v4"], "attributes": {}, "source": None},
    ],
    "values": [
        {"name": "x", "dtype": "float32", "shape": [None, "n", 3], "role": "input", "graph": "main"},
        {"name": "w", "dtype": "float32", "shape": [3, 2], "role": "initializer", "graph": "main"},
        {"name": "k", "dtype": "int32", "shape": [2], "role": "initializer", "graph": "main", "constant": [4, 5]},
        {"name": "v3", "dtype": None, "shape": None, "role": "output", "graph": "main"},
    ],
    "control_flow": ["scan"],
}  # fmt: skip


def test_nodes_values_and_model():
    facts = facts_from_listing(LISTING, "source", name="net.py:make", root=Path("/home/me"))
    model, dot = facts[0], next(each for each in facts if isinstance(each, Node))
    assert isinstance(model, Model) and model.format == "jaxpr" and model.metadata["control_flow"] == ["scan"]
    assert [each.name for each in model.inputs] == ["x"] and [each.name for each in model.outputs] == ["v3"]
    assert (dot.op, dot.domain, dot.inputs, dot.outputs) == ("dot_general", "jax", ("x", "w"), ("v2",))
    assert (dot.at.path, dot.at.line, dot.at.node, dot.file) == ("net.py", 7, "dot_general_0", "net.py:make")
    assert dot.attributes == {"dimension_numbers": (((1,), (0,)), ((), ())), "mesh": Unknown("a Mesh"), "to": None}
    values = {each.name: each for each in facts if isinstance(each, Value)}
    assert values["x"].shape[1:] == ("n", 3) and isinstance(values["x"].shape[0], Unknown)
    assert values["x"].constant is ABSENT and values["k"].constant == (4, 5)
    assert isinstance(values["w"].constant, Unknown) and isinstance(values["v3"].dtype, Unknown)


def test_a_graph_inside_sees_the_values_around_it():
    store = FactStore(facts_from_listing(LISTING, "source"))
    tanh = next(each for each in store.of("node") if each.op == "tanh")
    assert store.graphs.producer(tanh, "v2").op == "dot_general"


def test_the_overload_of_an_aten_operator():
    row = {"op": "aten.conv2d.default", "domain": "aten", "name": "c"}
    node = facts_from_listing({"nodes": [row]}, "source")[1]
    assert (node.overload, node.domain, node.inputs) == ("default", "aten", ())


@pytest.mark.parametrize(
    "listing",
    [{}, {"nodes": 3}, {"nodes": [None, 1, "x"]}, {"values": [{"shape": "x", "role": "king", "name": 3}]},
     {"nodes": [{"attributes": [1], "inputs": "ab", "source": {"path": 1, "line": "x"}}]}],
)  # fmt: skip
def test_what_does_not_fit_is_left_out(listing):
    facts = facts_from_listing(listing, "source")
    assert isinstance(facts[0], Model)
    assert all(each.inputs == () and each.attributes == {} for each in facts if isinstance(each, Node))
    assert all(each.role == "intermediate" and each.name == "3" for each in facts if isinstance(each, Value))


def test_plain_data():
    assert data([1, [2, {"a": [3]}]]) == (1, (2, {"a": (3,)}))
    assert data({"unknown": "why"}) == Unknown("why")
