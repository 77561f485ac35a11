"""ONNX files that become SavedModels by onnx2tf: against arithmetic done here, and what is said of the layout."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

SPEC = importlib.util.spec_from_file_location("onnx_files", Path(__file__).parent / "onnx_files.py")
onnx_files = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(onnx_files)

pytestmark = pytest.mark.slow


@pytest.fixture
def convert(pool, tmp_path):
    """Convert a file on a sample; the folder of the hop is empty, as the audit makes it."""

    def call(path, sample, dynamic=None):
        folder = tmp_path / "hop"
        folder.mkdir(exist_ok=True)
        arrays = {name: pool.put(array) for name, array in sample.items()}
        params = {"path": path, "tool": "onnx2tf", "inputs": {"name": "s", "arrays": arrays}}
        return pool.run(
            "tensorflow",
            "tensorflow.convert",
            {**params, "dynamic": dynamic or {}, "opset": None, "folder": str(folder)},
        )

    return call


@pytest.fixture
def run(pool):
    """Run what a conversion left, on arrays in the order of its inputs."""

    def call(result, *arrays):
        given = {name: pool.put(array) for name, array in zip(result["input_names"], arrays, strict=True)}
        request = {**result["params"], "inputs": [{"name": "s", "arrays": given}], "perturbations": 0, "repeat": 1}
        row = pool.run("tensorflow", "tensorflow.run", request).result["runs"][0]
        assert row["error"] is None, row["error"]
        return {name: pool.get(each) for name, each in row["outputs"].items()}

    return call


def image(batch, dtype=np.float32):
    numbers = np.random.default_rng(batch).random((batch, 3, 17, 19), dtype=np.float32)
    return numbers if dtype == np.float32 else (numbers * 255).astype(dtype)


def test_a_cnn_keeps_its_names_and_its_layout_is_said(convert, run, tmp_path):
    path = onnx_files.cnn(tmp_path / "cnn.onnx")
    outcome = convert(path, {"image.1": image(2)}, {"image.1": {"0": "batch"}})
    assert outcome.status == "ok", outcome.error
    result = outcome.result
    assert (result["input_names"], result["output_names"]) == (["image_1"], ["features", "scores"])
    assert result["layouts"] == {"inputs": {}, "outputs": {"features": [0, 2, 3, 1]}}
    assert (result["dynamic_lost"], result["dtype_changes"], result["warnings"]) == ({}, {}, [])
    assert result["options"]["distance_on_sample"] < 1e-5
    for batch in (2, 5, 1):  # others than that of the sample
        wanted, found = onnx_files.cnn_by_hand(image(batch)), run(result, image(batch))
        np.testing.assert_allclose(found["features"], wanted["features"].transpose(0, 2, 3, 1), atol=1e-5)
        np.testing.assert_allclose(found["scores"], wanted["scores"], atol=1e-5)


def test_bytes_go_in_as_bytes(convert, run, tmp_path):
    path = onnx_files.cnn(tmp_path / "cnn.onnx", TensorProto.UINT8, "image")
    result = convert(path, {"image": image(2, np.uint8)}).result
    found = run(result, image(3, np.uint8))
    wanted = onnx_files.cnn_by_hand(image(3, np.uint8))
    np.testing.assert_allclose(found["scores"], wanted["scores"], atol=2e-4)


def test_half_inputs_are_floats_inside(convert, run, tmp_path):
    path = onnx_files.cnn(tmp_path / "cnn.onnx", TensorProto.FLOAT16, "image")
    half = image(2).astype(np.float16)
    result = convert(path, {"image": half}).result
    assert result["dtype_changes"] == {"image": ["float16", "float32"]}
    np.testing.assert_allclose(run(result, half)["scores"], onnx_files.cnn_by_hand(half)["scores"], atol=1e-5)


def test_a_sequence_is_no_image(convert, run, tmp_path):
    tokens = np.random.default_rng(1).normal(size=(7, 3, 6)).astype(np.float32)
    result = convert(onnx_files.gru(tmp_path / "gru.onnx"), {"tokens": tokens}).result
    assert result["layouts"] == {"inputs": {}, "outputs": {}}
    np.testing.assert_allclose(run(result, tokens)["y"], onnx_files.gru_by_hand(tokens)["y"], atol=1e-6)


def test_the_file_stays_as_it_was_and_nothing_is_fetched(convert, tmp_path):
    path = onnx_files.cnn(tmp_path / "cnn.onnx")
    before = Path(path).read_bytes()
    assert convert(path, {"image.1": image(1)}).status == "ok"
    assert Path(path).read_bytes() == before
    assert (tmp_path / "hop" / "calibration_image_sample_data_20x128x128x3_float32.npy").exists()


def test_the_worker_is_what_it_was(pool, ask, convert, tmp_path):
    """onnx2tf changes limits and environment of its process when it is imported."""
    assert convert(onnx_files.gru(tmp_path / "gru.onnx"), {"tokens": np.zeros((7, 1, 6), np.float32)}).status == "ok"
    x = np.ones((2, 4), np.float32)
    again = ask("run", "affine", {"a": {"x": x}}).result["runs"][0]
    assert again["error"] is None and pool.get(again["outputs"]["total"]).tolist() == [4, 4]
    assert ask("describe", "cnn").status == "ok"  # Keras 3, not the older one that onnx2tf runs on


def test_an_operator_without_a_translation_is_named(convert, tmp_path):
    sample = {"x": np.ones((2, 3), np.float32), "like": np.zeros(1, np.int64)}
    outcome = convert(onnx_files.cast_like(tmp_path / "m.onnx"), sample)
    assert outcome.status == "failed"
    assert "no translation for the operator CastLike" in outcome.reason
    details = outcome.error["details"]
    assert (details["stage"], details["operator"], details["node"]) == ("translate", "CastLike", "alike")
    assert details["remedy"]


def test_a_file_that_onnx_runtime_does_not_run(convert, tmp_path):
    outcome = convert(onnx_files.foreign(tmp_path / "m.onnx"), {"x": np.ones(2, np.float32)})
    assert outcome.status == "failed" and "ONNX Runtime does not run the file" in outcome.reason
    assert outcome.error["details"]["stage"] == "run"


def test_a_tool_that_is_none(pool):
    outcome = pool.run("tensorflow", "tensorflow.convert", {"tool": "magic"})
    assert outcome.status == "unsupported" and "onnx2tf, keras_save" in outcome.reason
