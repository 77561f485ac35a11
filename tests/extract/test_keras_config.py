"""Layers of Keras configurations as facts, in the forms of Keras 3 and Keras 2."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tensoraudit.errors import InputError
from tensoraudit.extract.keras_config import read_config, read_keras_layers, read_saved_model_layers
from tensoraudit.facts import Node, Unknown, Value
from tensoraudit.facts.store import FactStore

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorflow"


def tensor(name, call=0, output=0, shape=(None, 5), dtype="float32"):
    config = {"shape": list(shape), "dtype": dtype, "keras_history": [name, call, output]}
    return {"class_name": "__keras_tensor__", "config": config}


def layer(kind, name, *calls, **config):
    """A layer of Keras 3; each call is the list of its arguments."""
    inbound = [{"args": list(args), "kwargs": {"mask": None}} for args in calls]
    return {
        "module": "keras.layers", "class_name": kind, "registered_name": None, "name": name,
        "config": {"name": name, **config}, "inbound_nodes": inbound,
    }  # fmt: skip


def model(*layers, outputs=(), kind="Functional"):
    config = {"name": "net", "layers": list(layers), "output_layers": list(outputs)}
    return {"module": "keras", "class_name": kind, "config": config, "registered_name": kind}


def read(config):
    return read_config(config, "m.keras", "keras", "keras 3.15.1", "source")


def nodes(facts):
    return {(each.graph, each.name): each for each in facts if isinstance(each, Node)}


def values(facts, graph="main"):
    return {each.name: each for each in facts if isinstance(each, Value) and each.graph == graph}


INPUT = layer("InputLayer", "x", batch_shape=[None, 7], dtype="float32")
POLICY = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "mixed_float16"}}
GLOROT = {"module": "keras.initializers", "class_name": "GlorotUniform", "config": {"seed": None}}


def test_a_layer_that_is_called_twice():
    dense = layer("Dense", "d", [tensor("x", shape=(None, 7))], [tensor("n")], units=5, dtype=POLICY,
                  kernel_initializer=GLOROT)  # fmt: skip
    norm = layer("LayerNormalization", "n", [tensor("d")], epsilon=1e-6, axis=[-1])
    add = layer("Add", "a", [[tensor("d"), tensor("d", 1)]])
    facts = read(model(INPUT, dense, norm, add, outputs=[["a", 0, 0]]))
    found = nodes(facts)
    assert found["main", "d"].inputs == ("x:0",) and found["main", "d"].outputs == ("d:0",)
    assert found["main", "d#1"].inputs == ("n:0",) and found["main", "d#1"].outputs == ("d#1:0",)
    assert found["main", "a"].inputs == ("d:0", "d#1:0")
    assert found["main", "n"].attributes == {"epsilon": 1e-6, "axis": (-1,)}
    assert found["main", "d"].attributes == {
        "units": 5, "dtype": "mixed_float16", "kernel_initializer": "GlorotUniform",
    }  # fmt: skip
    assert {each.domain for each in found.values()} == {"keras"} and found["main", "d"].metadata is None
    known = values(facts)
    assert known["d:0"].dtype == "float32" and known["d:0"].shape[1:] == (5,)
    assert known["a:0"].role == "output" and known["x:0"].role == "input" and known["x:0"].shape[1] == 7
    assert [each.name for each in (*facts[0].inputs, *facts[0].outputs)] == ["x:0", "a:0"]
    store = FactStore(facts)
    assert store.graphs.producer(found["main", "n"], "d:0").name == "d"


def test_the_form_of_keras_2():
    rows = [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_input_shape": [None, 3], "dtype": "float32"},
         "name": "x", "inbound_nodes": []},
        {"class_name": "Dense", "config": {"name": "d", "units": 2}, "name": "d",
         "inbound_nodes": [[["x", 0, 0, {}]]]},
        {"class_name": "Attention", "config": {"name": "t"}, "name": "t",
         "inbound_nodes": [[["x", 0, 0, {"value": ["d", 0, 0]}]]]},
    ]  # fmt: skip
    facts = read(
        {"class_name": "Functional", "config": {"name": "net", "layers": rows, "output_layers": [["t", 0, 0]]}}
    )
    found = nodes(facts)
    assert found["main", "d"].inputs == ("x:0",) and found["main", "t"].inputs == ("x:0", "d:0")
    assert values(facts)["x:0"].shape[1] == 3 and values(facts)["t:0"].role == "output"


def test_a_layer_with_several_outputs():
    lstm = layer("LSTM", "l", [tensor("x")], return_state=True)
    facts = read(model(INPUT, lstm, layer("Add", "a", [[tensor("l", 0, 1), tensor("l", 0, 2)]]),
                       outputs=[["l", 0, 0], ["a", 0, 0]]))  # fmt: skip
    assert nodes(facts)["main", "l"].outputs == ("l:0", "l:1", "l:2")
    assert values(facts)["l:0"].role == "output" and values(facts)["l:1"].role == "intermediate"


def test_a_model_and_a_wrapped_layer_inside():
    inner = {"name": "inner", "layers": [INPUT, layer("ReLU", "r")]}
    sequential = {"module": "keras", "class_name": "Sequential", "name": "inner", "config": inner,
                  "inbound_nodes": [{"args": [tensor("x")], "kwargs": {}}]}  # fmt: skip
    wrapped = {"module": "keras.layers", "class_name": "GRU", "config": {"name": "g", "units": 4}}
    both = layer("Bidirectional", "b", [tensor("inner")], layer=wrapped, merge_mode="concat")
    facts = read(model(INPUT, sequential, both, outputs=[["b", 0, 0]]))
    found = nodes(facts)
    assert found["main", "inner"].attributes == {"layers": "main/inner.layers"}
    assert found["main", "b"].attributes == {"layer": "main/b.layer", "merge_mode": "concat"}
    assert found["main/b.layer", "g"].op == "GRU" and found["main/b.layer", "g"].attributes == {"units": 4}
    assert {name for graph, name in found if graph == "main/inner.layers"} == {"x", "r"}


def test_a_class_of_the_users_says_where_it_comes_from():
    mine = {**layer("Scale", "s", [tensor("x")]), "module": "net.layers", "registered_name": "net>Scale"}
    found = nodes(read(model(INPUT, mine, outputs=[["s", 0, 0]])))["main", "s"]
    assert found.op == "Scale" and found.metadata == {"module": "net.layers", "registered_name": "net>Scale"}


def test_a_model_of_the_users_class_is_one_node():
    facts = read({"module": "net", "class_name": "Net", "config": {"units": 3}, "registered_name": "net>Net"})
    (node,) = nodes(facts).values()
    assert (node.op, node.metadata["module"], node.attributes) == ("Net", "net", {"units": 3})


def test_a_sequential_file():
    facts = read_keras_layers(FIXTURES / "dense.keras")
    found = [each for each in facts if isinstance(each, Node)]
    assert [each.op for each in found] == ["InputLayer", "Dense"] and found[0].outputs == found[1].inputs
    assert facts[0].producer.startswith("keras 3")


def test_metadata_beside_a_saved_model(tmp_path):
    def part(field, content):
        size = len(content)
        return bytes([field << 3 | 2, size & 0x7F | 0x80, size >> 7]) + content

    text = json.dumps(model(INPUT, layer("Dense", "d", [tensor("x")]), outputs=[["d", 0, 0]])).encode()
    other = part(1, part(3, b"root.layer-0") + part(4, b"{}"))
    (tmp_path / "keras_metadata.pb").write_bytes(other + part(1, part(3, b"root") + part(4, text)))
    facts = read_saved_model_layers(tmp_path)
    assert {each.op for each in facts if isinstance(each, Node)} == {"InputLayer", "Dense"}
    (tmp_path / "keras_metadata.pb").write_bytes(b"\x0a\xff")
    with pytest.raises(InputError, match="damaged"):
        read_saved_model_layers(tmp_path)
    (tmp_path / "keras_metadata.pb").unlink()
    assert read_saved_model_layers(tmp_path) == []


# Hostile configurations


def test_shared_models_are_read_once():
    """Each of 30 levels is called twice: read anew at every call, that would be 2 ** 30 layers."""
    inner = {"module": "keras.layers", "class_name": "ReLU", "config": {"name": "r"}, "inbound_nodes": []}
    for level in range(30):
        calls = [{"args": [tensor("x")], "kwargs": {}}] * 2
        row = {**inner, "name": f"m{level}", "inbound_nodes": calls}
        inner = {"class_name": "Functional", "config": {"name": f"m{level}", "layers": [INPUT, row]}}
    assert len(nodes(read(inner))) < 200


@pytest.mark.parametrize(
    "config",
    [
        {}, {"config": []}, {"config": {"layers": [None, 3, "x", []]}}, {"class_name": 3, "config": {"layers": [{}]}},
        model(layer("Dense", "d", [{"class_name": "__keras_tensor__", "config": {"keras_history": "x"}}])),
        model({"class_name": "Dense", "config": None, "inbound_nodes": {"a": [1, 2]}}),
        model(layer("Dense", "d", [["d", 0, 10**9]])), model(INPUT, outputs=[["gone", 0, 0]]),
    ],
)  # fmt: skip
def test_wrong_types_end(config):
    facts = read(config)
    assert all(isinstance(each.shape, (tuple, Unknown)) for each in facts if isinstance(each, Value))
    assert len(facts) < 5_000


def test_deep_configurations(tmp_path):
    value = {"a": 1}
    for _ in range(500):
        value = {"deep": [value]}
    facts = read(model(layer("Dense", "d", extra=value)))
    assert isinstance(nodes(facts)["main", "d"].attributes["extra"], dict)
    path = tmp_path / "deep.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "[" * 100_000)
        archive.writestr("metadata.json", "{}")
    with pytest.raises(InputError, match="no JSON"):
        read_keras_layers(path)
