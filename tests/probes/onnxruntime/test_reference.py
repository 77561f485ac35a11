from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime.forward import run
from tensoraudit.probes.onnxruntime.reference import reference
from tensoraudit.probes.protocol import JobUnsupported

FLOAT = TensorProto.FLOAT


def test_answers_like_run(bench, mlp, mlp_weights):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    params = {"path": mlp, "inputs": [bench.sample(x=x, extra=x)], "repeat": 2}
    oracle, answer = reference(params, bench.session), run(params, bench.session)
    assert set(oracle) == set(answer)
    (first,), (second,) = oracle["runs"], answer["runs"]
    assert set(first) == set(second)
    assert first["unused_inputs"] == ["extra"]
    got = bench.read(first["outputs"])
    np.testing.assert_allclose(got["logits"], np.maximum(x @ mlp_weights["w"] + mlp_weights["b"], 0), rtol=1e-6)
    assert got["n"].dtype == np.int64
    assert first["repeat"] == first["outputs"]
    assert oracle["settings"]["runtime"].startswith("onnx.reference ")


def test_bfloat16(bench):
    bf16 = TensorProto.BFLOAT16
    path = bench.model([bench.node("Neg", ["x"], ["y"])], [bench.value("x", bf16, [2])], [bench.value("y", bf16, [2])])
    values = np.array([1.5, -3], np.float32)
    sample = {"name": "s", "arrays": {"x": bench.session.put(values, "bfloat16")}}
    (answer,) = reference({"path": path, "inputs": [sample]}, bench.session)["runs"]
    assert answer["outputs"]["y"]["logical"] == "bfloat16"
    assert bench.read(answer["outputs"])["y"].tolist() == [-1.5, 3]


def test_errors_of_a_sample_are_data(bench, mlp):
    samples = [bench.sample("dtype", x=np.ones((2, 3))), bench.sample("size", x=np.ones((2, 4), np.float32))]
    dtype, size = reference({"path": mlp, "inputs": samples}, bench.session)["runs"]
    assert dtype["error"]["message"] == "input 'x' is float64 in the sample, but the model takes float32"
    assert size["error"]["type"]
    assert size["outputs"] == {}


@pytest.mark.parametrize("opset", [9, 13, 15])
def test_batch_normalization_infers_in_every_opset(bench, opset):
    """onnx 1.23 mixes in the statistics of the batch below opset 14; ONNX Runtime does not."""
    generator = np.random.default_rng(1)
    parts = {name: generator.uniform(0.5, 2, 3).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
    path = bench.model(
        [bench.node("BatchNormalization", ["x", *parts], ["y"], epsilon=1e-3)],
        [bench.value("x", FLOAT, [5, 3, 7])],
        [bench.value("y", FLOAT, [5, 3, 7])],
        [bench.weight(name, array) for name, array in parts.items()],
        opset=opset,
    )
    x = generator.standard_normal((5, 3, 7), dtype=np.float32)
    s, b, m, v = (array.reshape(3, 1) for array in parts.values())
    for job in (reference, run):
        (answer,) = job({"path": path, "inputs": [bench.sample(x=x)]}, bench.session)["runs"]
        np.testing.assert_allclose(bench.read(answer["outputs"])["y"], s * (x - m) / np.sqrt(v + 1e-3) + b, rtol=1e-5)


def test_sequence_output_is_unsupported(bench):
    from onnx import helper

    path = bench.model(
        [bench.node("SequenceConstruct", ["x"], ["s"]), bench.node("Neg", ["x"], ["y"])],
        [bench.value("x", FLOAT, [2])],
        [helper.make_tensor_sequence_value_info("s", FLOAT, None), bench.value("y", FLOAT, [2])],
    )
    (answer,) = reference({"path": path, "inputs": [bench.sample(x=np.ones(2, np.float32))]}, bench.session)["runs"]
    assert list(answer["outputs"]) == ["y"]
    assert "list" in answer["unsupported_outputs"]["s"]


def test_operator_that_the_evaluator_lacks(bench):
    path = bench.model(
        [bench.node("Foo", ["x"], ["y"])], [bench.value("x", FLOAT, [2])], [bench.value("y", FLOAT, [2])]
    )
    with pytest.raises(JobUnsupported, match=r"NumPy evaluator cannot run this model: .*Foo"):
        reference({"path": path, "inputs": []}, bench.session)
