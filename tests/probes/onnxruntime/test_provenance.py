"""Metadata and names as torch 2.13 writes them; the expected paths are those of `named_modules()`."""

from __future__ import annotations

import pytest

from tensoraudit.probes.onnxruntime.provenance import Origin, module_of_scope, modules_of, origin_of

NOTHING: frozenset[str] = frozenset()

DYNAMO = {
    "namespace": ": net.Net/layer.0: net.Self/layer.0.query: torch.nn.Linear/linear: aten.linear.default",
    "pkg.torch.onnx.class_hierarchy": "['net.Net', 'net.Self', 'torch.nn.Linear', 'aten.linear.default']",
    "pkg.torch.onnx.name_scopes": "['', 'layer.0', 'layer.0.query', 'linear']",
    "pkg.torch.onnx.stack_trace": (
        'File "/home/me/net.py", line 17, in forward\n    x = l(x)\n'
        '  File "/home/me/net.py", line 8, in forward\n    y = self.query(x)\n'
        '  File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n'
        "    return F.linear(input, self.weight, self.bias)"
    ),
}


def test_dynamo_metadata():
    assert origin_of("node_linear", DYNAMO, "", [], NOTHING) == Origin(
        module="layer.0.query",
        call=None,
        operator="aten.linear.default",
        traced="linear",
        source={"path": "/home/me/net.py", "line": 8, "text": "y = self.query(x)"},
    )


def test_dynamo_node_of_the_root_module():
    metadata = {
        "pkg.torch.onnx.name_scopes": "['', 'add_15']",
        "pkg.torch.onnx.class_hierarchy": "['net.Net', 'aten.add.Tensor']",
    }
    origin = origin_of("node_add_15", metadata, "", [], NOTHING)
    assert (origin.module, origin.operator, origin.traced, origin.source) == ("", "aten.add.Tensor", "add_15", None)


def test_dynamo_second_call_of_a_module():
    origin = origin_of("n", {"pkg.torch.onnx.name_scopes": "['', 'shared@1', 'relu_2']"}, "", [], NOTHING)
    assert (origin.module, origin.call) == ("shared", 1)


@pytest.mark.parametrize("text", ["", "[", "__import__('os')", "{'a': 1}", "[" * 5000])
def test_metadata_that_is_no_list_is_not_known(text):
    assert origin_of("n", {"pkg.torch.onnx.name_scopes": text}, "", [], NOTHING) == Origin()


def test_frames_of_the_framework_alone_give_no_source():
    trace = 'File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return x'
    assert origin_of("n", {"pkg.torch.onnx.stack_trace": trace}, "", [], NOTHING).source is None


def test_user_code_in_site_packages_and_in_a_folder_called_torch_is_the_users():
    for path in ("/env/lib/python3.11/site-packages/transformers/models/bert.py", "/home/me/torch/model.py"):
        trace = f'File "{path}", line 3, in forward\n    y = x'
        source = origin_of("n", {"pkg.torch.onnx.stack_trace": trace}, "", [], NOTHING).source
        assert source == {"path": path, "line": 3, "text": "y = x"}


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("/encoder/layer.0/attention/self/query/MatMul", "encoder.layer.0.attention.self.query"),
        ("/layers.0.0/seq/seq.0/seq.0.1/Relu", "layers.0.0.seq.0.1"),
        ("/fc/fc.1/Relu", "fc.1"),
        ("/attention/attention/Add", "attention.attention"),
        ("/Softmax", ""),
        ("Identity_25", None),
        ("", None),
    ],
)
def test_scopes_of_the_torchscript_exporter(name, module):
    assert module_of_scope(name, [], NOTHING)[0] == module


def test_scope_of_an_indexed_container_comes_from_the_weight():
    """ModuleDict `drop` has no scope; the weight's name has it."""
    weights = ["layers.0.0.drop.k_x.weight", "layers.0.0.drop.k_x.bias"]
    assert module_of_scope("/layers.0.0/k_x/Gemm", weights, NOTHING) == ("layers.0.0.drop.k_x", 0)


def test_a_shared_weight_does_not_rename_its_reader():
    """The exporter stores equal tensors once: norm2 may read the weight of norm1."""
    assert module_of_scope("/mha/norm2/Mul", ["mha.norm1.weight"], NOTHING)[0] == "mha.norm2"


def test_second_call_of_a_module():
    assert module_of_scope("/shared/seq/seq.0/seq.0.1_1/Relu", [], NOTHING) == ("shared.seq.0.1", 1)
    assert module_of_scope("/shared_1/Add", [], NOTHING) == ("shared", 1)


def test_module_that_is_really_called_so():
    modules = modules_of(["conv_1.weight", "block.conv_2.bias", "alone"])
    assert modules == {"conv_1", "block", "block.conv_2"}
    assert module_of_scope("/conv_1/Conv", [], modules) == ("conv_1", 0)
    assert module_of_scope("/block/conv_2/Conv", [], modules) == ("block.conv_2", 0)
    assert module_of_scope("/block/conv_2_1/Conv", [], modules) == ("block.conv_2", 1)


def test_source_in_a_doc_string():
    lines = "# /home/me/net.py:12:0\n# /env/lib/python3.11/site-packages/torch/nn/modules/linear.py:134:0\n"
    assert origin_of("/fc/Gemm", {}, lines, [], NOTHING).source == {"path": "/home/me/net.py", "line": 12, "text": ""}
    frames = (
        "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py(134): forward\n"
        "/env/lib/python3.11/site-packages/torch/nn/modules/module.py(1768): _slow_forward\n"
        "/home/me/blocks.py(6): forward\n/home/me/net.py(11): forward\n"
    )
    assert origin_of("/fc/Gemm", {}, frames, [], NOTHING).source == {
        "path": "/home/me/blocks.py",
        "line": 6,
        "text": "",
    }
    assert origin_of("/fc/Gemm", {}, "A node made by hand (see 3).", [], NOTHING).source is None
