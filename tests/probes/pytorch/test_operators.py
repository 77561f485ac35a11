"""pytorch.operators and pytorch.coverage."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tensoraudit.probes.coverage import coverage
from tensoraudit.probes.protocol import JobFailed, JobUnsupported
from tensoraudit.probes.pytorch.operators import operators

MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 5, 3, stride=2, padding=1)

    def forward(self, x):
        y = self.first(x)
        return y * y + torch.relu(x).mean()


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return torch.sin(x)
        return torch.cos(x)


class Choosing(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: torch.sin(a), lambda a: torch.cos(a), (x,))


class Failing(nn.Module):
    def forward(self, x):
        return x.reshape(7, 7)
"""


@pytest.fixture
def listed(tmp_path, session, spec):
    path = tmp_path / "operator_models.py"
    path.write_text(MODELS)

    def make(name, array):
        inputs = {"name": "s", "arrays": {"x": session.put(array)}}
        return operators({"model": spec(name, path), "inputs": inputs}, session)

    return make


IMAGE = np.ones((2, 3, 7, 11), np.float32)


def test_the_graph_of_an_export(listed):
    result = listed("Net", IMAGE)
    assert (result["format"], result["control_flow"]) == ("torch_export", [])
    nodes = {node["op"]: node for node in result["nodes"]}
    conv = nodes["aten.conv2d.default"]
    assert conv["domain"] == "aten" and conv["attributes"] == {"stride": [2, 2], "padding": [1, 1]}
    assert conv["inputs"] == ["x", "p_first_weight", "p_first_bias"] and conv["source"]["line"] == 12
    assert nodes["aten.mul.Tensor"]["inputs"] == ["conv2d", "conv2d"]
    values = {value["name"]: value for value in result["values"]}
    assert (values["x"]["role"], values["p_first_bias"]["role"]) == ("input", "initializer")
    assert (
        values["conv2d"]["shape"] == [2, 5, 4, 6] and values[nodes["aten.add.Tensor"]["outputs"][0]]["role"] == "output"
    )


def test_control_flow_in_the_graph(listed):
    result = listed("Choosing", np.ones((2, 3), np.float32))
    assert result["control_flow"] == ["cond"]
    (cond,) = [node for node in result["nodes"] if node["op"] == "cond"]
    graphs = {value for value in cond["attributes"].values() if isinstance(value, str) and value.startswith("main/")}
    inside = {node["op"]: node["graph"] for node in result["nodes"] if node["graph"] != "main"}
    assert set(inside) == {"aten.sin.default", "aten.cos.default"} and set(inside.values()) == graphs


def test_what_cannot_be_exported_is_run(listed):
    result = listed("Branching", np.ones((2, 3), np.float32))
    assert result["format"] == "torch_trace" and "torch.export" in result["reason"]
    assert "aten.sin.default" in {node["op"] for node in result["nodes"]}
    assert "aten.cos.default" not in {node["op"] for node in result["nodes"]}
    source = next(node["source"] for node in result["nodes"] if node["op"] == "aten.sin.default")
    assert source["line"] == 19


def test_a_script_is_run(tmp_path, session, spec):
    module = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()))
    module.save(str(tmp_path / "m.jit"))
    given = {**spec("", tmp_path / "m.jit"), "format": "torchscript", "attribute": None}
    inputs = {"name": "s", "arrays": {"input": session.put(np.ones((2, 3), np.float32))}}
    result = operators({"model": given, "inputs": inputs}, session)
    assert result["format"] == "torch_trace" and any("relu" in node["op"] for node in result["nodes"])


def test_a_model_that_fails(listed):
    with pytest.raises(JobFailed, match="fails on this input"):
        listed("Failing", np.ones((2, 3), np.float32))


@pytest.mark.parametrize("tool", ["torch_onnx_dynamo", "torch_onnx_torchscript"])
def test_what_the_exporters_know(session, tool):
    known = ["aten.conv2d.default", "aten::conv2d", "aten::add_", "_operator.getitem"]
    result = coverage({"tool": tool, "operators": [*known, "mylib.fft.default", "aten.frob.default"]}, session)
    assert result == {"supported": known, "unsupported": ["mylib.fft.default", "aten.frob.default"]}


def test_decompositions_count(session):
    """PyTorch itself writes batch norm by other operators; the exporter has none of that name."""
    result = coverage({"tool": "torch_onnx_dynamo", "operators": ["aten.batch_norm.default"]}, session)
    assert result["unsupported"] == []


def test_the_opset_counts(session):
    asked = {"tool": "torch_onnx_torchscript", "operators": ["aten::stft", "prim::If"]}
    assert coverage({**asked, "opsets": {"": 16}}, session)["supported"] == ["prim::If"]
    assert coverage({**asked, "opsets": {"": 17}}, session)["supported"] == ["aten::stft", "prim::If"]


def test_operators_of_torchscript_alone(session):
    """They have no kernel to ask for."""
    result = coverage({"tool": "torch_onnx_dynamo", "operators": ["aten::Bool", "aten::append"]}, session)
    assert result["supported"] == []


def test_a_tool_that_is_not_installed(session, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx2torch", None)
    monkeypatch.setitem(__import__("sys").modules, "onnx2torch.node_converters", None)
    with pytest.raises(JobUnsupported, match="onnx2torch"):
        coverage({"tool": "onnx2torch", "operators": ["Conv"]}, session)


# What `torch.onnx.export(dynamo=True)` of torch 2.13 did with a model of that one operator.
TAKEN = (
    *("aten.add.Tensor", "aten.add_.Tensor", "aten.rsub.Scalar", "aten.sum.dim_IntList", "aten.max.dim"),
    *("aten.max.other", "aten.sort.default", "aten.argsort.default", "aten.topk.default", "aten.div.Tensor_mode"),
    *("aten.pow.Scalar",),
    *("aten.split.Tensor", "aten.clamp.Tensor", "aten.detach_.default", "aten.lift_fresh_copy.default"),
    *("aten.upsample_bilinear2d.vec", "aten.scaled_dot_product_attention.default", "_operator.ge"),
)  # fmt: skip
REFUSED = ("aten.sort.stable", "aten.median.dim", "aten.mode.default", "aten.kthvalue.default")


def test_the_dynamo_exporter_looks_up_overloads_and_not_their_base_name(session):
    pytest.importorskip("onnxscript")
    result = coverage({"tool": "torch_onnx_dynamo", "operators": [*TAKEN, *REFUSED]}, session)
    assert set(result["supported"]) == set(TAKEN)


def test_in_torchscript_any_overload_counts(session):
    pytest.importorskip("onnxscript")
    result = coverage({"tool": "torch_onnx_dynamo", "operators": ["aten::sort", "aten::median"]}, session)
    assert "aten::sort" in result["supported"]
