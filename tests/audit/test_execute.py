"""What stands in for a reference that cannot run, and what an ONNX file is held against."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensoraudit.api import scan

pytestmark = pytest.mark.slow


def write(path, node, *, bias=0.5):
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        node,
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializer=[numpy_helper.from_array(np.full((3, 1), bias, np.float32), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_a_file_has_the_numpy_evaluator_as_its_reference_and_its_double_precision(tmp_path):
    path = write(tmp_path / "m.onnx", helper.make_node("Softmax", ["a"], ["y"], axis=-1))
    report = scan(path)
    assert (report["grade"]["onnx"], report["exit_code"]) == ("A", 0)
    rows = [row for row in report["equivalence"] if row["candidate"] == "file@onnxruntime/cpu"]
    assert rows and all(row["reference"] == "onnx.reference/cpu" for row in rows)
    assert all("against double precision" in row["reason"] or row["verdict"] == "identical" for row in rows)
    assert not [row for row in rows if row["inputs"].startswith("edge")]


def test_what_the_evaluator_cannot_run_is_no_pass(tmp_path):
    """ONNX Runtime has this operator, the evaluator has not: then ONNX Runtime agrees with itself, which is nothing."""
    path = write(tmp_path / "m.onnx", helper.make_node("GlobalLpPool", ["a"], ["y"], p=2))
    report = scan(path)
    assert report["grade"]["onnx"].endswith("?") and report["exit_code"] == 3
    (row,) = [probe for probe in report["probes"] if probe["name"] == "reference.outputs"]
    assert row["required"] and row["status"] == "failed"
    assert "GlobalLpPool" in row["reason"] and "nothing else here is independent of the runtime" in row["reason"]
    rows = [row for row in report["equivalence"] if row["candidate"] == "file@onnxruntime/cpu"]
    assert rows and {row["reference"] for row in rows} == {"onnxruntime/cpu"}
