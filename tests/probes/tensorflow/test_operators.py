"""tensorflow.operators and tensorflow.coverage."""

import numpy as np
import pytest

IMAGE = {"image": np.ones((2, 17, 19, 3), np.float32)}


@pytest.fixture
def operators(ask):
    def make(name, sample):
        outcome = ask("operators", name, sample=sample)
        assert outcome.status == "ok", (outcome.reason, outcome.error)
        return outcome.result

    return make


def by_op(result, op):
    return [node for node in result["nodes"] if node["op"] == op]


def test_a_keras_model(operators):
    result = operators("cnn", IMAGE)
    assert (result["format"], result["control_flow"]) == ("tf_function", [])
    (conv,) = by_op(result, "Conv2D")
    assert conv["domain"] == "tf" and conv["attributes"]["strides"] == [1, 2, 2, 1]
    assert (
        conv["attributes"]["padding"] == "SAME" and conv["inputs"][0] == by_op(result, "Placeholder")[0]["outputs"][0]
    )
    made = next(value for value in result["values"] if value["name"] == conv["outputs"][0])
    assert (made["dtype"], made["shape"]) == ("float32", [2, 9, 10, 7])  # ceil(17 / 2), ceil(19 / 2)
    inputs = [value for value in result["values"] if value["role"] == "input" and value["graph"] == "main"]
    assert [value["shape"] for value in inputs] == [[2, 17, 19, 3]]
    layers = [row["class_name"] for row in result["configuration"]["config"]["layers"]]
    assert layers[:2] == ["InputLayer", "Conv2D"]


def test_loops_lead_to_their_bodies(operators):
    result = operators("recurrent", {"tokens": np.ones((2, 5, 6), np.float32)})
    assert result["control_flow"] == ["While"]
    loops = by_op(result, "While")
    assert len(loops) == 2  # an LSTM and a GRU
    for loop in loops:
        graph = loop["attributes"]["body"]
        assert graph.startswith("fn:") and any(node["graph"] == graph for node in result["nodes"])
    assert any(node["op"] == "MatMul" and node["graph"].startswith("fn:") for node in result["nodes"])


@pytest.mark.parametrize(
    ("tool", "known", "unknown"),
    [
        ("tf2onnx", ["Conv2D", "While", "StatelessIf", "VarHandleOp"], ["FrobnicateV2"]),
        ("tf2onnx_tflite", ["CONV_2D", "FULLY_CONNECTED"], ["FROBNICATE"]),
        ("onnx2tf", ["Conv", "Loop", "com.microsoft::FusedConv"], ["Frobnicate"]),
        ("keras_save", ["GRU", "Sequential"], ["Lambda", "net.Scale"]),
    ],
)
def test_what_converters_know(pool, tool, known, unknown):
    outcome = pool.run("tensorflow", "tensorflow.coverage", {"tool": tool, "operators": [*known, *unknown]})
    if outcome.status == "unsupported" and "No module named" in outcome.reason:
        pytest.skip(outcome.reason)
    assert outcome.result == {"supported": known, "unsupported": unknown}, outcome.reason


def test_a_tool_that_nobody_knows(pool):
    outcome = pool.run("tensorflow", "tensorflow.coverage", {"tool": "magic", "operators": ["Conv2D"]})
    assert outcome.status == "unsupported" and "magic" in outcome.reason
