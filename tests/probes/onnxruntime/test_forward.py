from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime.forward import run, same_bits
from tensoraudit.probes.protocol import JobFailed, JobUnsupported

FLOAT = TensorProto.FLOAT


def one(bench, path, **params):
    return run({"path": path, **params}, bench.session)["runs"][0]


def test_outputs_are_those_of_numpy_and_settings_are_reported(bench, mlp, mlp_weights):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = run({"path": mlp, "inputs": [bench.sample(x=x)], "threads": 1}, bench.session)
    (answer,) = result["runs"]
    expected = np.maximum(x @ mlp_weights["w"] + mlp_weights["b"], 0)
    outputs = bench.read(answer["outputs"])
    assert list(outputs) == ["logits", "n"]
    np.testing.assert_allclose(outputs["logits"], expected, rtol=1e-6)
    assert outputs["n"].dtype == np.int64
    assert outputs["n"].tolist() == expected.argmax(-1).tolist()
    assert answer["error"] is None
    assert result["provider"] == "cpu"
    settings = result["settings"]
    assert (settings["threads"], settings["level"], settings["providers"]) == (1, "all", ["CPUExecutionProvider"])
    assert settings["deterministic_compute"] is True


def test_second_run_of_a_deterministic_model_is_the_same_tensor(bench, mlp):
    answer = one(bench, mlp, inputs=[bench.sample(x=np.ones((2, 3), np.float32))])
    assert answer["repeat"] == answer["outputs"]


def test_repeat_of_a_random_model_differs(bench):
    path = bench.model(
        [bench.node("RandomNormalLike", ["x"], ["y"])],
        [bench.value("x", FLOAT, [64])],
        [bench.value("y", FLOAT, [64])],
    )
    answer = one(bench, path, inputs=[bench.sample(x=np.zeros(64, np.float32))])
    first, second = bench.read(answer["outputs"])["y"], bench.read(answer["repeat"])["y"]
    assert not np.array_equal(first, second)


def test_one_run_has_no_repeat(bench, mlp):
    assert one(bench, mlp, inputs=[bench.sample(x=np.ones((2, 3), np.float32))], repeat=1)["repeat"] == {}


def test_dtype_mismatch_is_an_error_and_no_cast(bench, mlp):
    answer = one(bench, mlp, inputs=[bench.sample(x=np.ones((2, 3)))])
    assert answer["outputs"] == {}
    assert answer["error"] == {
        "type": "InputMismatch",
        "message": "input 'x' is float64 in the sample, but the model takes float32",
    }


def test_wrong_size_is_an_error_of_this_sample_only(bench, mlp):
    bad, good = bench.sample("bad", x=np.ones((2, 4), np.float32)), bench.sample("good", x=np.ones((1, 3), np.float32))
    first, second = run({"path": mlp, "inputs": [bad, good]}, bench.session)["runs"]
    assert first["error"]["type"] == "InvalidArgument"
    assert first["error"]["message"].startswith(
        "Got invalid dimensions for input: x for the following indices index: 1"
    )
    assert second["error"] is None


def test_failing_node_is_named(bench):
    path = bench.model(
        [bench.node("Reshape", ["x", "shape"], ["y"], name="frozen")],
        [bench.value("x", FLOAT, ["n"])],
        [bench.value("y", FLOAT, [2, 3])],
        [bench.weight("shape", np.array([2, 3]))],
    )
    error = one(bench, path, inputs=[bench.sample(x=np.ones(7, np.float32))])["error"]
    assert (error["operator"], error["node"]) == ("Reshape", "frozen")
    assert error["message"].startswith("Reshape failed at node 'frozen': ")
    assert "onnxruntime_src" not in error["message"]


def test_array_that_the_model_dropped_is_reported(bench, mlp):
    sample = bench.sample(x=np.ones((2, 3), np.float32), mask=np.ones(2, np.float32), flag={"value": True})
    answer = one(bench, mlp, inputs=[sample])
    assert answer["error"] is None
    assert (answer["unused_inputs"], answer["constant_inputs"]) == (["mask"], ["flag"])


def test_inputs_with_other_names_are_paired_by_position_and_said(bench, mlp):
    answer = one(bench, mlp, inputs=[bench.sample(tokens=np.ones((2, 3), np.float32))])
    assert answer["paired_by_position"] == {"x": "tokens"}


def test_missing_input_is_an_error(bench, mlp):
    error = one(bench, mlp, inputs=[bench.sample()])["error"]
    assert error["type"] == "InputMismatch"
    assert "'x'" in error["message"]
    assert "nothing" in error["message"]


def test_zero_dimensional_and_empty_arrays(bench):
    path = bench.model(
        [bench.node("Mul", ["x", "k"], ["y"])],
        [bench.value("x", FLOAT, ["n"]), bench.value("k", FLOAT, [])],
        [bench.value("y", FLOAT, ["n"])],
    )
    sample = bench.sample(x=np.zeros(0, np.float32), k=np.float32(3))
    assert bench.read(one(bench, path, inputs=[sample])["outputs"])["y"].shape == (0,)
    scalar = bench.sample(x=np.ones(2, np.float32), k={"value": 2.5})
    assert bench.read(one(bench, path, inputs=[scalar])["outputs"])["y"].tolist() == [2.5, 2.5]
    wrong = bench.sample(x=np.ones(2, np.float32), k={"value": 2})
    assert "Python value 2" in one(bench, path, inputs=[wrong])["error"]["message"]


def test_bfloat16_goes_in_and_comes_out_exactly(bench):
    path = bench.model(
        [bench.node("Identity", ["x"], ["y"])],
        [bench.value("x", TensorProto.BFLOAT16, [4])],
        [bench.value("y", TensorProto.BFLOAT16, [4])],
    )
    values = np.array([1.5, -0.0, 3.3895314e38, np.nan], np.float32)  # all of them bfloat16 values
    sample = {"name": "s", "arrays": {"x": bench.session.put(values, "bfloat16")}}
    answer = one(bench, path, inputs=[sample])
    ref = answer["outputs"]["y"]
    assert (ref["dtype"], ref["logical"]) == ("float32", "bfloat16")
    assert np.array(bench.session.get(ref)).tobytes() == values.tobytes()
    plain = {"name": "s", "arrays": {"x": bench.session.put(values)}}
    message = one(bench, path, inputs=[plain])["error"]["message"]
    assert message == "input 'x' is float32 in the sample, but the model takes bfloat16"


def test_float16_stays_float16(bench):
    path = bench.model(
        [bench.node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)],
        [bench.value("x", FLOAT, [2])],
        [bench.value("y", TensorProto.FLOAT16, [2])],
    )
    answer = one(bench, path, inputs=[bench.sample(x=np.array([1.0, 1e-8], np.float32))])
    assert answer["outputs"]["y"]["dtype"] == "float16"


def test_outputs_that_cannot_be_carried_are_named_and_the_others_compared(bench):
    nodes = [
        bench.node("SequenceConstruct", ["x", "x"], ["sequence"]),
        bench.node("Cast", ["x"], ["text"], to=TensorProto.STRING),
        bench.node("Cast", ["x"], ["small"], to=TensorProto.FLOAT8E4M3FN),
        bench.node("Optional", [], ["nothing"], type=onnx.helper.make_tensor_type_proto(FLOAT, [2])),
        bench.node("Neg", ["x"], ["y"]),
    ]
    optional = onnx.helper.make_optional_type_proto(onnx.helper.make_tensor_type_proto(FLOAT, [2]))
    outputs = [
        onnx.helper.make_tensor_sequence_value_info("sequence", FLOAT, None),
        bench.value("text", TensorProto.STRING, [2]),
        bench.value("small", TensorProto.FLOAT8E4M3FN, [2]),
        onnx.helper.make_value_info("nothing", optional),
        bench.value("y", FLOAT, [2]),
    ]
    path = bench.model(nodes, [bench.value("x", FLOAT, [2])], outputs)
    answer = one(bench, path, inputs=[bench.sample(x=np.array([1, 2], np.float32))])
    assert answer["error"] is None
    assert list(answer["outputs"]) == ["y"]
    refused = answer["unsupported_outputs"]
    assert set(refused) == {"sequence", "text", "small", "nothing"}
    assert "seq(tensor(float))" in refused["sequence"]
    assert "tensor(string)" in refused["text"]
    assert "without a value" in refused["nothing"]


def test_output_listed_twice_is_said(bench):
    y = bench.value("y", FLOAT, [2])
    path = bench.model([bench.node("Neg", ["x"], ["y"])], [bench.value("x", FLOAT, [2])], [y, y])
    answer = one(bench, path, inputs=[bench.sample(x=np.ones(2, np.float32))])
    assert "more than once" in answer["unsupported_outputs"]["y"]
    assert bench.read(answer["outputs"])["y"].tolist() == [-1, -1]


def test_default_of_an_initializer_input_needs_no_array(bench):
    path = bench.model(
        [bench.node("Add", ["x", "w"], ["y"])],
        [bench.value("x", FLOAT, [2]), bench.value("w", FLOAT, [2])],
        [bench.value("y", FLOAT, [2])],
        [bench.weight("w", np.array([10, 20], np.float32))],
    )
    answer = one(bench, path, inputs=[bench.sample(x=np.ones(2, np.float32))])
    assert bench.read(answer["outputs"])["y"].tolist() == [11, 21]


def test_cuda_that_is_not_active_is_unsupported_with_the_reason(bench, mlp):
    from tensoraudit.probes.onnxruntime.hello import find_devices

    if any(device["kind"] == "cuda" for device in find_devices()[0]):
        pytest.skip("this machine has CUDA")
    with pytest.raises(JobUnsupported, match=r"^CUDA provider not active: .{10,}"):
        one(bench, mlp, inputs=[], provider="cuda")


@pytest.mark.cuda
def test_cuda_agrees_with_cpu(bench, mlp):
    from tensoraudit.probes.onnxruntime.hello import find_devices

    if not any(device["kind"] == "cuda" for device in find_devices()[0]):
        pytest.skip("no CUDA device is active")
    sample = bench.sample(x=np.ones((2, 3), np.float32))
    cpu, cuda = (one(bench, mlp, inputs=[sample], provider=name) for name in ("cpu", "cuda"))
    for name, array in bench.read(cpu["outputs"]).items():
        np.testing.assert_allclose(bench.read(cuda["outputs"])[name], array, atol=1e-5)


@pytest.mark.parametrize(("key", "value"), [("level", "fast"), ("provider", "tpu")])
def test_unknown_setting_is_refused_with_the_known_ones(bench, mlp, key, value):
    with pytest.raises(JobFailed, match=f"'{value}'; use one of"):
        one(bench, mlp, inputs=[], **{key: value})


def test_session_is_kept_and_renewed_when_the_file_changes(bench, mlp):
    sample = bench.sample(x=np.ones((1, 3), np.float32))
    one(bench, mlp, inputs=[sample])
    (kept,) = bench.session.cache["onnxruntime.sessions"].values()
    one(bench, mlp, inputs=[sample])
    assert list(bench.session.cache["onnxruntime.sessions"].values()) == [kept]
    model = onnx.load(mlp)
    model.graph.node[2].op_type = "Neg"
    onnx.save(model, mlp)
    changed = bench.read(one(bench, mlp, inputs=[sample])["outputs"])["logits"]
    assert len(bench.session.cache["onnxruntime.sessions"]) == 2
    assert (changed < 0).any()


def test_same_bits_takes_nan_as_equal_and_minus_zero_as_different():
    assert same_bits(np.array([np.nan, 1]), np.array([np.nan, 1]))
    assert not same_bits(np.array([0.0]), np.array([-0.0]))
    assert not same_bits(np.zeros(2), np.zeros((2, 1)))
    assert not same_bits(np.zeros(2, np.int32), np.zeros(2, np.float32))
    assert same_bits(np.zeros((0, 3)), np.zeros((0, 3)))


def test_a_complex_input_is_fed_as_its_real_and_imaginary_parts(bench):
    path = bench.model(
        [bench.node("ReduceL2", ["x"], ["y"], axes=[-1], keepdims=0)],
        [bench.value("x", FLOAT, ["b", 2, 2])],
        [bench.value("y", FLOAT, ["b", 2])],
        opset=17,
    )
    x = np.array([[3 + 4j, -5 + 12j], [8j, 7]], np.complex64)
    answer = one(bench, path, inputs=[bench.sample(x=x)])
    assert bench.read(answer["outputs"])["y"].tolist() == [[5, 13], [8, 7]]
    assert answer["real_views"] == ["x"]
    with pytest.raises(JobUnsupported, match="complex128 of shape"):
        one(bench, path, inputs=[bench.sample(x=x.astype(np.complex128))])


def test_moved_inputs_in_bfloat16_move_by_its_own_unit(bench):
    path = bench.model(
        [bench.node("Cast", ["x"], ["y"], to=FLOAT)],
        [bench.value("x", TensorProto.BFLOAT16, [64])],
        [bench.value("y", FLOAT, [64])],
    )
    given = bench.session.put(np.full(64, 1.0, np.float32) * 2, "bfloat16")
    answer = one(bench, path, inputs=[bench.sample(x=given)], perturbations=1)
    assert answer["perturbed_by"] == "inputs"
    assert set(bench.read(answer["perturbed"][0])["y"].tolist()) == {2.015625, 1.9921875}
