"""Small ONNX models with known weights, written without any framework."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NUMBERS = np.random.default_rng(0)
KERNEL = NUMBERS.normal(size=(7, 3, 3, 3)).astype(np.float32)
SCALE, SHIFT = (NUMBERS.uniform(0.5, 2, 7).astype(np.float32) for _ in range(2))
DENSE = NUMBERS.normal(size=(7, 5)).astype(np.float32) / 7
GATES = [NUMBERS.normal(size=shape).astype(np.float32) / 3 for shape in ((1, 15, 6), (1, 15, 5), (1, 30))]


def write(path, nodes, inputs, outputs, weights, opset=13):
    """Write a model; inputs and outputs are {name: (dtype, shape)}."""
    ends = [[helper.make_tensor_value_info(n, *each) for n, each in found.items()] for found in (inputs, outputs)]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return str(path)


def cnn(path, dtype=TensorProto.FLOAT, image="image.1"):
    """NCHW, dynamic batch, two outputs: features (an image) and scores. Names that TensorFlow would not take."""
    node = helper.make_node
    nodes = [
        node("Cast", [image], ["real"], name="cast@0", to=TensorProto.FLOAT),
        node("Conv", ["real", "kernel"], ["c"], name="Conv 1", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["b"], name="bn", epsilon=1e-3),
        node("Relu", ["b"], ["features"], name="relu"),
        node("GlobalAveragePool", ["features"], ["p"], name="pool"),
        node("Flatten", ["p"], ["f"], name="flat", axis=1),
        node("MatMul", ["f", "dense"], ["scores"], name="dense"),
    ]
    weights = {
        "kernel": KERNEL,
        "scale": SCALE,
        "shift": SHIFT,
        "mean": SHIFT / 2,
        "variance": SCALE * 2,
        "dense": DENSE,
    }
    outputs = {
        "features": (TensorProto.FLOAT, ["batch", 7, 9, 10]),
        "scores": (TensorProto.FLOAT, ["batch", 5]),
    }
    return write(path, nodes, {image: (dtype, ["batch", 3, 17, 19])}, outputs, weights)


def cnn_by_hand(image):
    """The same in NumPy, double precision."""
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((len(image), 7, 9, 10))
    for row in range(9):
        for column in range(10):
            patch = padded[:, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            out[:, :, row, column] = np.einsum("nchw,ochw->no", patch, KERNEL.astype(np.float64))
    mean, variance = SHIFT / 2, SCALE * 2
    factor = SCALE / np.sqrt(variance.astype(np.float64) + 1e-3)
    out = out * factor[:, None, None] + (SHIFT - mean * factor)[:, None, None]
    features = np.maximum(out, 0)
    return {"features": features, "scores": features.mean((2, 3)) @ DENSE.astype(np.float64)}


def gru(path):
    """A GRU over [time, batch, 6], dynamic batch, last state out."""
    nodes = [
        helper.make_node("GRU", ["tokens", "w", "r", "b"], ["all", "last"], name="gru", hidden_size=5),
        helper.make_node("Squeeze", ["last", "axis"], ["y"], name="squeeze"),
    ]
    weights = {**dict(zip("wrb", GATES, strict=True)), "axis": np.array([0], np.int64)}
    tokens = {"tokens": (TensorProto.FLOAT, [7, "batch", 6])}
    return write(path, nodes, tokens, {"y": (TensorProto.FLOAT, ["batch", 5])}, weights)


def gru_by_hand(tokens):
    """The GRU of the ONNX specification: gates z, r, h; reset before the recurrence."""
    w, r, b = (each[0].astype(np.float64) for each in GATES)
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    wbz, wbr, wbh, rbz, rbr, rbh = np.split(b, 6)
    state = np.zeros((tokens.shape[1], 5))
    for x in tokens.astype(np.float64):
        z = 1 / (1 + np.exp(-(x @ wz.T + state @ rz.T + wbz + rbz)))
        reset = 1 / (1 + np.exp(-(x @ wr.T + state @ rr.T + wbr + rbr)))
        hidden = np.tanh(x @ wh.T + (reset * state) @ rh.T + rbh + wbh)
        state = (1 - z) * hidden + z * state
    return {"y": state}


def cast_like(path):
    """An operator that onnx2tf does not have."""
    nodes = [helper.make_node("CastLike", ["x", "like"], ["y"], name="alike")]
    inputs = {"x": (TensorProto.FLOAT, [2, 3]), "like": (TensorProto.INT64, [1])}
    return write(path, nodes, inputs, {"y": (TensorProto.INT64, [2, 3])}, {}, opset=15)


def foreign(path):
    """An operator that no runtime has."""
    nodes = [helper.make_node("Magic", ["x"], ["y"], name="n", domain="com.example")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return str(path)
