"""What the initializers of a file mean to the nodes that read them."""

import numpy as np
import onnx
from onnx import TensorProto

from tensoraudit.probes.onnxruntime.parameters import parameters


def draw(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_every_weight_says_what_it_is(bench):
    weights = {
        **{"k": draw(5, 3, 2, 2), "kb": draw(5), "t": draw(5, 7, 2, 2), "gamma": draw(7), "beta": draw(7)},
        **{"mean": draw(7), "variance": np.abs(draw(7)), "g": draw(11, 7), "gb": draw(11), "m": draw(11, 13)},
        "unused": draw(4),
    }
    nodes = [
        bench.node("Conv", ["x", "k", "kb"], ["a"], name="conv"),
        bench.node("ConvTranspose", ["a", "t"], ["b"], name="up"),
        bench.node("BatchNormalization", ["b", "gamma", "beta", "mean", "variance"], ["c"], name="norm"),
        bench.node("GlobalAveragePool", ["c"], ["d"], name="pool"),
        bench.node("Flatten", ["d"], ["e"], name="flat"),
        bench.node("Gemm", ["e", "g", "gb"], ["f"], name="fc", transB=1),
        bench.node("MatMul", ["f", "m"], ["h"], name="last"),
        bench.node("Constant", [], ["p"], value=onnx.numpy_helper.from_array(draw(13))),
        bench.node("Add", ["h", "p"], ["y"], name="plus"),
    ]
    ends = [bench.value("x", TensorProto.FLOAT, [1, 3, 8, 8])], [bench.value("y", TensorProto.FLOAT, [1, 13])]
    path = bench.model(nodes, *ends, [bench.weight(name, array) for name, array in weights.items()])
    result = parameters({"path": path, "values": True}, bench.session)
    rows = {row["name"]: row for row in result["parameters"]}
    assert {name: (row["module"], row["kind"], row["axes"]) for name, row in rows.items()} == {
        "k": ("conv", "kernel", "oihw"),
        "kb": ("conv", "bias", "o"),
        "t": ("up", "kernel", "iohw"),
        "gamma": ("norm", "gamma", "c"),
        "beta": ("norm", "beta", "c"),
        "mean": ("norm", "mean", "c"),
        "variance": ("norm", "variance", "c"),
        "g": ("fc", "kernel", "oi"),
        "gb": ("fc", "bias", "o"),
        "m": ("last", "kernel", "io"),
        "p": ("plus", "other", ""),
    }
    np.testing.assert_array_equal(bench.session.get(rows["k"]["tensor"]), weights["k"])
    assert result["modules"] == []


def test_recurrent_weights_know_their_gates(bench):
    weights = [bench.weight("w", draw(1, 15, 3)), bench.weight("r", draw(1, 15, 5)), bench.weight("b", draw(1, 30))]
    node = bench.node("GRU", ["x", "w", "r", "b"], ["y"], name="gru", hidden_size=5)
    ends = [bench.value("x", TensorProto.FLOAT, [7, 2, 3])], [bench.value("y", TensorProto.FLOAT, [7, 1, 2, 5])]
    rows = parameters({"path": bench.model([node], *ends, weights)}, bench.session)["parameters"]
    assert [(row["kind"], row["gates"], row["part"]) for row in rows] == [
        ("kernel", "zrn", "input"),
        ("kernel", "zrn", "state"),
        ("bias", "zrn", ""),
    ]
    assert all("tensor" not in row for row in rows)


def test_settings_and_integers_are_no_weights(bench):
    weights = [bench.weight("one", np.float32([2.0])), bench.weight("shape", np.array([3, 1]))]
    nodes = [bench.node("Mul", ["x", "one"], ["a"]), bench.node("Reshape", ["a", "shape"], ["y"])]
    ends = [bench.value("x", TensorProto.FLOAT, [3])], [bench.value("y", TensorProto.FLOAT, [3, 1])]
    assert parameters({"path": bench.model(nodes, *ends, weights)}, bench.session)["parameters"] == []
