"""The messages are what ONNX Runtime 1.31.1 printed for models with these faults."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime.explain import explain, plain_message
from tensoraudit.probes.onnxruntime.forward import run
from tensoraudit.probes.protocol import JobFailed

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32


def refuse(bench, nodes, inputs=None, outputs=None, **more):
    inputs = inputs or [bench.value("x", FLOAT, ["b", 3])]
    outputs = outputs or [bench.value("y", FLOAT, None)]
    with pytest.raises(JobFailed) as refusal:
        run({"path": bench.model(nodes, inputs, outputs, **more), "inputs": []}, bench.session)
    assert refusal.value.details["text"]
    return refusal.value


def test_unknown_operator(bench):
    refusal = refuse(bench, [bench.node("Foo", ["x"], ["y"], name="n")])
    assert refusal.message == "ONNX Runtime does not know the operator Foo in opset 20: node 'n'"
    assert refusal.details["operator"] == "Foo"


def test_operator_of_a_domain_that_is_not_imported(bench):
    refusal = refuse(bench, [bench.node("Foo", ["x"], ["y"], name="n", domain="my.ops")])
    assert refusal.message == "The model uses Foo of the domain 'my.ops' (node 'n'), which it does not import"


def test_ir_version_too_new(bench):
    refusal = refuse(bench, [bench.node("Identity", ["x"], ["y"])], ir=99)
    assert refusal.message.startswith("The model has IR version 99; this ONNX Runtime reads at most ")


def test_opset_too_new(bench):
    refusal = refuse(bench, [bench.node("Identity", ["x"], ["y"])], opset=99)
    assert refusal.message.startswith("The model needs opset 99 of ai.onnx; this ONNX Runtime supports at most ")


def test_kernel_missing_for_a_type(bench):
    bf16 = TensorProto.BFLOAT16
    inputs, outputs = [bench.value("x", bf16, [3])], [bench.value("y", bf16, [3])]
    refusal = refuse(bench, [bench.node("Sin", ["x"], ["y"], name="s")], inputs, outputs, opset=22)
    assert refusal.message == "ONNX Runtime has no kernel for Sin (version 22) with these types: node 's'"


def test_type_that_an_operator_does_not_take(bench):
    refusal = refuse(
        bench,
        [bench.node("Sin", ["x"], ["y"], name="s")],
        [bench.value("x", INT32, [3])],
        [bench.value("y", INT32, [3])],
    )
    assert refusal.message == "Sin does not take tensor(int32): input 'x' of node 's'"


def test_cycle(bench):
    nodes = [
        bench.node("Add", ["x", "q"], ["z"]),
        bench.node("Add", ["x", "z"], ["q"]),
        bench.node("Neg", ["z"], ["y"]),
    ]
    assert refuse(bench, nodes).message.startswith("The graph has a cycle")


def test_dangling_input(bench):
    assert "'nope'" in refuse(bench, [bench.node("Neg", ["nope"], ["y"])]).message


def test_declared_type_is_wrong(bench):
    refusal = refuse(
        bench, [bench.node("Neg", ["x"], ["y"], name="s")], None, [bench.value("y", TensorProto.INT64, [3])]
    )
    assert refusal.message == "The model declares 'y' as tensor(int64), but node 's' makes tensor(float)"


def test_invalid_attribute(bench):
    refusal = refuse(bench, [bench.node("Softmax", ["x"], ["y"], name="s", bogus=3)])
    assert refusal.message == "Node 's' is no valid Softmax: Unrecognized attribute: bogus for operator Softmax"


def test_message_of_no_known_kind_loses_its_code_and_stays():
    sentence, details = explain(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Something\n else"))
    assert (sentence, details) == ("Something else", {})


def test_empty_message_gives_the_type():
    assert plain_message(MemoryError()) == "MemoryError"


def test_sentence_is_bounded():
    assert len(explain(RuntimeError("x" * 10_000))[0]) == 500


def test_braces_in_a_message_are_text():
    sentence, _ = explain(
        RuntimeError("Non-zero status code returned while running Gather node. Name:'{0}' Status Message: {x}")
    )
    assert sentence == "Gather failed at node '{0}': {x}"


def test_division_at_run_time_names_the_node(bench):
    path = bench.model(
        [bench.node("Gather", ["x", "i"], ["y"], name="g")],
        [bench.value("x", FLOAT, [3]), bench.value("i", TensorProto.INT64, [1])],
        [bench.value("y", FLOAT, [1])],
    )
    sample = bench.sample(x=np.ones(3, np.float32), i=np.array([7]))
    error = run({"path": path, "inputs": [sample]}, bench.session)["runs"][0]["error"]
    assert error["node"] == "g"
    assert "indices element out of data bounds" in error["message"]
