from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from tensoraudit.probes.onnxruntime.describe import describe
from tensoraudit.probes.protocol import JobFailed


def test_signature_and_providers(bench, mlp):
    answer = describe({"path": mlp}, bench.session)
    assert answer["inputs"] == [{"name": "x", "dtype": "float32", "type": "tensor(float)", "shape": ["batch", 3]}]
    assert [(each["name"], each["dtype"]) for each in answer["outputs"]] == [("logits", "float32"), ("n", "int64")]
    assert (answer["opset"], answer["opsets"], answer["ir_version"], answer["loads"]) == (20, {"": 20}, 10, True)
    cpu, cuda = answer["providers"]
    assert cpu == {"requested": "cpu", "active": ["CPUExecutionProvider"], "reason": ""}
    assert cuda["requested"] == "cuda"
    assert bool(cuda["active"]) != bool(cuda["reason"]), "either it runs or there is a reason why not"


def test_unnamed_dimension_and_type_that_cannot_be_carried(bench):
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    path = bench.model(
        [bench.node("SequenceConstruct", ["x"], ["s"])], [bench.value("x", TensorProto.FLOAT, [None, 3])], [sequence]
    )
    answer = describe({"path": path, "requested": ["cpu"]}, bench.session)
    assert answer["inputs"][0]["shape"] == [None, 3]
    assert (answer["outputs"][0]["dtype"], answer["outputs"][0]["type"]) == (None, "seq(tensor(float))")


def test_model_that_does_not_load(bench):
    path = bench.model([bench.node("Foo", [], ["y"])], [], [bench.value("y", TensorProto.FLOAT, [1])])
    with pytest.raises(JobFailed, match="does not know the operator Foo"):
        describe({"path": path}, bench.session)
