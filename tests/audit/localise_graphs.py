"""Ports of `fixtures/localise/small_models.py` to ONNX, node by node and without any name of the original."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_small(model, path, epsilon=1e-3, tanh_gelu=False, scale=1.0):
    """Write a port of `Small`; `epsilon`, `tanh_gelu` and `scale` (of the inner kernel) are the faults."""
    state = {name: each.detach().numpy() for name, each in model.state_dict().items()}
    weights = {
        "w0": state["conv.weight"],
        "b0": state["conv.bias"],
        "gamma": state["norm.weight"],
        "beta": state["norm.bias"],
        "mean": state["norm.running_mean"],
        "var": state["norm.running_var"],
        "w1": state["inner.weight"] * np.float32(scale),
        "b1": state["inner.bias"],
        "w2": np.ascontiguousarray(state["head.weight"].T),
        "b2": state["head.bias"],
    }
    nodes = [
        helper.make_node("Conv", ["img", "w0", "b0"], ["v0"], "n0", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["v0", "gamma", "beta", "mean", "var"], ["v1"], "n1", epsilon=epsilon),
        helper.make_node("Gelu", ["v1"], ["v2"], "n2", approximate="tanh" if tanh_gelu else "none"),
        helper.make_node("Conv", ["v2", "w1", "b1"], ["v3"], "n3"),
        helper.make_node("Tanh", ["v3"], ["v4"], "n4"),
        helper.make_node("Add", ["v4", "v2"], ["v5"], "n5"),
        helper.make_node("GlobalAveragePool", ["v5"], ["v6"], "n6"),
        helper.make_node("Flatten", ["v6"], ["v7"], "n7"),
        helper.make_node("MatMul", ["v7", "w2"], ["v8"], "n8"),
        helper.make_node("Add", ["v8", "b2"], ["y"], "n9"),
    ]
    return write(nodes, weights, [None, 3, None, None], [None, 7], path)


def write_deep(model, path, faulty=None):
    """Write a port of `Deep`; the kernel of layer `faulty` is 2 % too large."""
    weights, nodes, last = {"share": np.float32(0.3)}, [], "img"
    for i, conv in enumerate(model.convs):
        weights[f"w{i}"] = conv.weight.detach().numpy() * np.float32(1.02 if i == faulty else 1)
        weights[f"b{i}"] = conv.bias.detach().numpy()
        nodes += [
            helper.make_node("Conv", [last, f"w{i}", f"b{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1]),
            helper.make_node("Tanh", [f"c{i}"], [f"t{i}"], f"tanh{i}"),
            helper.make_node("Mul", [f"t{i}", "share"], [f"m{i}"], f"mul{i}"),
            helper.make_node("Add", [last, f"m{i}"], [f"x{i}"], f"add{i}"),
        ]
        last = f"x{i}"
    nodes.append(helper.make_node("Identity", [last], ["y"], "end"))
    return write(nodes, weights, [None, 64, None, None], [None, 64, None, None], path)


def write(nodes, weights, shape, out_shape, path):
    graph = helper.make_graph(
        nodes,
        "port",
        [helper.make_tensor_value_info("img", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out_shape)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
