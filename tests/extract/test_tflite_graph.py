"""TensorFlow Lite files as facts; what each fixture holds stands in fixtures/tflite/make.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensoraudit.errors import InputError
from tensoraudit.extract.tflite_graph import read_tflite_graph, tensor_names
from tensoraudit.facts import ABSENT, Node, Unknown, Value
from tensoraudit.facts.store import FactStore

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tflite"


def read(name):
    facts = read_tflite_graph(FIXTURES / f"{name}.tflite")
    nodes = [each for each in facts if isinstance(each, Node)]
    return facts, nodes, {each.name: each for each in facts if isinstance(each, Value) and each.graph == "main"}


def test_a_convolution_with_a_fused_activation():
    facts, (conv, mean), values = read("image")
    assert (conv.op, conv.domain, conv.name, conv.graph) == ("CONV_2D", "tflite", "CONV_2D_0", "main")
    assert conv.attributes == {
        "padding": "SAME", "stride_w": 2, "stride_h": 2, "fused_activation": "RELU", "dilation_w": 1, "dilation_h": 1,
    }  # fmt: skip
    assert mean.inputs[0] == conv.outputs[0] and mean.attributes == {"keep_dims": False}
    assert values[mean.inputs[1]].constant == (1, 2) and values[mean.inputs[1]].role == "initializer"
    assert values[conv.inputs[1]].constant == Unknown("a constant of 135 elements")  # 5 x 3 x 3 x 3
    assert values[conv.inputs[2]].constant == (0.0,) * 5
    image = values[conv.inputs[0]]
    assert (image.dtype, image.role, image.constant, image.shape[1:]) == ("float32", "input", ABSENT, (7, 11, 3))
    model = facts[0]
    assert (model.format, model.version, [each.name for each in model.inputs]) == ("tflite", 3, ["image"])
    assert sorted(each.name for each in model.outputs) == ["features", "mean"]


def test_weights_are_those_that_were_written():
    _, nodes, values = read("affine")
    dense = next(each for each in nodes if each.op == "FULLY_CONNECTED")
    assert values[dense.inputs[2]].constant == (0.5, -0.25, 0.125)
    expected = (np.arange(12, dtype=np.float32) / 7).reshape(4, 3).T
    assert np.array_equal(np.asarray(values[dense.inputs[1]].constant, np.float32), expected)


def test_quantised_values_have_their_scales():
    facts, nodes, values = read("quantised")
    conv = next(each for each in nodes if each.op == "CONV_2D")
    told = facts[0].metadata["quantised"]
    assert values[conv.inputs[1]].dtype == "int8" and len(told[conv.inputs[1]]["scale"]) == 5
    assert told[conv.inputs[1]]["zero_point"] == (0,) * 5 and len(told[conv.inputs[0]]["scale"]) == 1


@pytest.mark.parametrize(
    ("name", "op", "domain"), [("custom", "Erfc", "tflite.custom"), ("flex", "FlexErf", "tflite.flex")]
)
def test_operators_that_are_not_its_own(name, op, domain):
    _, (node,), _ = read(name)
    assert (node.op, node.domain) == (op, domain)


def test_a_call_leads_to_its_graph():
    _, nodes, _ = read("counter")
    call = next(each for each in nodes if each.op == "CALL_ONCE")
    assert call.attributes["init"] in {each.graph for each in nodes} and call.attributes["init"].startswith("fn:")


def test_edges():
    facts, (conv, mean), _ = read("image")
    assert FactStore(facts).graphs.producer(mean, mean.inputs[0]) is conv


@pytest.mark.parametrize("name", ["image", "counter"])
def test_damage_is_an_input_error_or_harmless(tmp_path, name):
    whole = (FIXTURES / f"{name}.tflite").read_bytes()
    path = tmp_path / "m.tflite"
    told = 0
    for place in range(8, len(whole), max(1, len(whole) // 150)):
        path.write_bytes(whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4 :])
        try:
            read_tflite_graph(path)
        except InputError:
            told += 1
    assert told > 10
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged or truncated"):
        read_tflite_graph(path)


def test_tensors_of_one_name_stay_apart():
    class Row:
        def __init__(self, name):
            self.name = name

    class Graph:
        tensors = (Row("a"), Row(""), Row("a"), Row("b"))

    assert tensor_names(Graph()) == ["a", "#1", "a#2", "b"]
