from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from tensoraudit.probes.onnxruntime.graph import infer_types, light_copy, reads_of, topological
from tensoraudit.probes.onnxruntime.model_file import shape_of

FLOAT = TensorProto.FLOAT


def test_reads_include_what_subgraphs_take_from_outside():
    body = helper.make_graph(
        [helper.make_node("Add", ["outer", "own"], ["sum"])],
        "then",
        [],
        [helper.make_tensor_value_info("sum", FLOAT, None)],
        initializer=[onnx.numpy_helper.from_array(np.ones(1, np.float32), "own")],
    )
    passes = helper.make_graph([], "else", [], [helper.make_tensor_value_info("through", FLOAT, None)])
    node = helper.make_node("If", ["condition", ""], ["y"], then_branch=body, else_branch=passes)
    assert reads_of(node) == {"condition", "outer", "through"}


def test_order_is_kept_when_it_is_one():
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
    ]
    assert topological(nodes) == [0, 1, 2]


def test_nodes_out_of_order_are_sorted_and_cycles_come_last():
    nodes = [
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Add", ["p", "x"], ["q"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Neg", ["q"], ["p"]),
        helper.make_node("Neg", ["x"], ["a"]),
    ]
    assert topological(nodes) == [4, 2, 0, 1, 3]


def model_of(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_light_copy_leaves_large_weights_out():
    weights = [
        onnx.numpy_helper.from_array(np.zeros((300, 7), np.float32), "large"),
        onnx.numpy_helper.from_array(np.array([-1]), "small"),
    ]
    model = model_of([], [], [], weights)
    copy = light_copy(model)
    assert [tensor.name for tensor in copy.graph.initializer] == ["small"]
    assert shape_of(copy.graph.input[0].type) == [300, 7]
    assert len(model.graph.initializer) == 2
    assert copy.ByteSize() < 300


def test_given_sizes_turn_symbols_into_numbers():
    """batch x length x 6 is reshaped to batch x (length * 6) through Shape, Slice and Concat, as exporters write it."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["b"]),
        helper.make_node("Concat", ["b", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = [
        onnx.numpy_helper.from_array(np.array([n]), name) for name, n in {"zero": 0, "one": 1, "minus": -1}.items()
    ]
    model = model_of(
        nodes, [value("x", FLOAT, ["batch", "length", 6])], [value("y", FLOAT, ["batch", "flat"])], weights
    )
    assert shape_of(infer_types(model, {"x": [5, 7, 6]})["y"]) == [5, 42]


def test_inference_that_fails_is_no_error():
    model = model_of([helper.make_node("Nonsense", ["x"], ["y"])], [], [])
    assert "y" not in infer_types(model)
