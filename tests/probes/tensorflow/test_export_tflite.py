"""TensorFlow Lite files that become ONNX by tf2onnx: the file computes what arithmetic says, under the file's names."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

pytestmark = pytest.mark.slow
FIXTURES = Path(__file__).parents[3] / "fixtures" / "tflite"
W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.array([0.5, -0.25, 0.125], np.float32)
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


@pytest.fixture
def export(pool, tmp_path):
    def call(path, sample, **params):
        spec = {"format": "tflite", "path": str(path)}
        arrays = {name: pool.put(array) for name, array in sample.items()}
        request = {"model": spec, "route": "tf2onnx_tflite", "inputs": {"name": "s", "arrays": arrays}, **params}
        return pool.run("tensorflow", "tensorflow.export", {**request, "path": str(tmp_path / "m.onnx")})

    return call


def test_names_sizes_and_values(export):
    result = export(FIXTURES / "affine.tflite", {"x": X}, dynamic={"x": {"0": "batch"}}).result
    assert (result["input_names"], set(result["output_names"])) == (["x"], {"y", "total"})
    assert result["dynamic_lost"] == {} and result["exporter"].startswith("tf2onnx_tflite 1.")
    session = onnxruntime.InferenceSession(result["path"])
    for size in (5, 1):
        found = dict(zip(result["file_output_names"], session.run(None, {"x": X[:size]}), strict=True))
        np.testing.assert_allclose(found["y"], X[:size] @ W + B, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found["total"], X[:size].sum(-1), rtol=1e-6, atol=1e-6)


def test_stored_bytes_stay_bytes(export):
    image = np.random.default_rng(3).integers(0, 256, (2, 7, 11, 3)).astype(np.uint8)
    result = export(FIXTURES / "quantised.tflite", {"image": image}).result
    found = onnxruntime.InferenceSession(result["path"]).run(["features"], {"image": image})[0]
    assert found.dtype == np.int8 and found.min() == -128 and found.max() > 0


@pytest.mark.parametrize(
    ("name", "sample", "words"),
    [
        ("custom", {"x": np.ones((2, 3), np.float32)}, "no translation for the TensorFlow Lite operator Erfc"),
        ("counter", {"x": np.ones((1, 3), np.float32)}, "ASSIGN_VARIABLE, CALL_ONCE, READ_VARIABLE, VAR_HANDLE"),
    ],
)
def test_what_it_cannot_translate_is_named(export, tmp_path, name, sample, words):
    outcome = export(FIXTURES / f"{name}.tflite", sample)
    assert outcome.status == "failed" and words in outcome.reason and outcome.error["details"]["remedy"]
    assert not (tmp_path / "m.onnx").exists()


def test_a_damaged_file(export, tmp_path):
    (tmp_path / "cut.tflite").write_bytes((FIXTURES / "affine.tflite").read_bytes()[:300])
    outcome = export(tmp_path / "cut.tflite", {"x": X})
    assert outcome.status == "failed" and "damaged" in outcome.reason


def test_other_models_are_for_the_other_route(ask, tmp_path):
    outcome = ask("export", "affine", sample={"x": X}, route="tf2onnx_tflite", path=str(tmp_path / "m.onnx"))
    assert outcome.status == "unsupported"
