"""What a written file says."""

import onnx
from onnx import TensorProto, helper

from tensoraudit.routes.onnx_header import dynamic_written, read_header


def test_header(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [x, w],
        [y],
        [helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "m.onnx")
    header = read_header(str(tmp_path / "m.onnx"))
    assert (header["opset"], header["ir_version"], header["opsets"]) == (17, 9, {"": 17, "custom": 1})
    assert header["inputs"] == {"x": ["batch", 3, None]}  # a weight that is listed as an input is none
    assert header["outputs"] == {"y": [2, 3]}
    assert dynamic_written(header["inputs"]) == {"x": {"0": "batch", "2": "?"}}
