from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime.values import values

FLOAT = TensorProto.FLOAT


def test_every_node_output_with_type_and_origin(bench, mlp):
    result = values({"path": mlp}, bench.session)
    assert [each["name"] for each in result["values"]] == ["h", "a", "logits", "n"]
    assert (result["inputs"], result["outputs"], result["weights"]) == (["x"], ["logits", "n"], ["w", "b"])
    hidden = result["values"][0]
    assert hidden == {
        "name": "h", "node": "/fc/MatMul", "op": "MatMul", "module": "fc", "call": 0, "operator": None, "traced": None,
        "source": None, "inputs": ["w", "x"], "graph_index": 0, "dtype": "float32", "shape": ["batch", 5],
    }  # fmt: skip
    assert result["values"][3]["dtype"] == "int64"
    assert json.loads(json.dumps(result)) == result


def test_unsorted_file_and_second_output(bench):
    nodes = [
        bench.node("Neg", ["first"], ["y"], name="late"),
        bench.node("Split", ["x"], ["first", "second"], name="early", num_outputs=2),
        bench.node("Dropout", ["second"], ["d", ""], name="one"),
    ]
    path = bench.model(nodes, [bench.value("x", FLOAT, [4])], [bench.value("y", FLOAT, [2])])
    listed = values({"path": path}, bench.session)["values"]
    assert [(each["name"], each["graph_index"]) for each in listed] == [("first", 1), ("second", 1), ("y", 0), ("d", 2)]


def test_what_cannot_be_inferred_is_none(bench):
    node = bench.node("Mystery", ["x"], ["y"], domain="com.example")
    path = bench.model([node], [bench.value("x", FLOAT, [4])], [])
    (only,) = values({"path": path}, bench.session)["values"]
    assert (only["op"], only["shape"], only["dtype"], only["module"]) == ("com.example::Mystery", None, None, None)


EXPORT = """
import sys, torch, torch.nn as nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Sequential(nn.Linear(7, 7), nn.ReLU()), nn.Tanh())
        self.heads = nn.ModuleDict({"main": nn.Linear(7, 7)})
    def forward(self, x):
        return self.heads["main"](self.seq(x)) + 1      # THE SUM
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([Block()])])
        self.norm_1 = nn.LayerNorm(7)
    def forward(self, x):
        return self.norm_1(self.layers[0][0](x))
torch.manual_seed(0)
model, x = Net().eval(), torch.ones(3, 7)
torch.onnx.export(model, (x,), sys.argv[2], dynamo=sys.argv[1] == "dynamo", verbose=False, opset_version=20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_real_exports_give_the_paths_of_named_modules(bench, exporter):
    script, path = bench.folder / "net.py", bench.folder / "net.onnx"
    script.write_text(EXPORT)
    subprocess.run(
        [sys.executable, "-W", "ignore", script, exporter, path], check=True, capture_output=True, timeout=300
    )
    listed = values({"path": str(path)}, bench.session)["values"]
    by_module: dict[str, set[str]] = {}
    for each in listed:
        by_module.setdefault(each["module"], set()).add(each["op"])
    assert "Relu" in by_module["layers.0.0.seq.0.1"]
    assert "Tanh" in by_module["layers.0.0.seq.1"]
    assert "Add" in by_module["layers.0.0"]
    assert {"Gemm"} <= by_module["layers.0.0.seq.0.0"]
    assert {"Gemm"} <= by_module["layers.0.0.heads.main"]
    assert "LayerNormalization" in by_module["norm_1"]
    assert all(each["dtype"] for each in listed)
    if exporter == "dynamo":
        add = next(each for each in listed if each["op"] == "Add")
        line = 1 + next(n for n, text in enumerate(EXPORT.splitlines()) if "THE SUM" in text)
        assert (add["source"]["path"], add["source"]["line"]) == (str(script), line)
        assert add["operator"] == "aten.add.Tensor"


def test_initializers_are_no_inputs(bench):
    path = bench.model(
        [bench.node("Add", ["x", "w"], ["y"])],
        [bench.value("x", FLOAT, [2]), bench.value("w", FLOAT, [2])],
        [bench.value("y", FLOAT, [2])],
        [onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")],
        ir=3,
    )
    assert values({"path": path}, bench.session)["inputs"] == ["x"]
