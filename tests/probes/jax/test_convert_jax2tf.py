"""JAX models that become SavedModels by jax2tf: TensorFlow computes the same at other batch sizes, without JAX."""

import json
import os
import subprocess

import numpy as np
import pytest

from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool

pytestmark = pytest.mark.slow
FILE = "tensorflow_bound_models.py"
W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.array([0.5, -0.25, 0.125], np.float32)
KERNEL = np.random.default_rng(0).normal(size=(3, 3, 3, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def pool(jax_python):
    tensorflow = os.environ.get("TENSORAUDIT_TF_PYTHON")
    if not tensorflow:
        pytest.skip("TENSORAUDIT_TF_PYTHON names no interpreter that has TensorFlow")
    with Pool(Limits(timeout=300, memory=8 << 30), {"jax": jax_python, "tensorflow": tensorflow}, threads=1) as pool:
        pool.start("tensorflow")
        yield pool


@pytest.fixture
def convert(attempt, pool, tmp_path):
    def call(name, sample, dynamic=None):
        inputs = {"name": "s", "arrays": {key: pool.put(array) for key, array in sample.items()}}
        varies = {key: {"0": "batch"} for key in sample} if dynamic is None else dynamic
        return attempt("convert", name, FILE, tool="jax2tf", inputs=inputs, dynamic=varies, folder=str(tmp_path))

    return call


@pytest.fixture
def run(pool):
    def call(result, *arrays, **params):
        given = {name: pool.put(array) for name, array in zip(result["input_names"], arrays, strict=True)}
        request = {**result["params"], "inputs": [{"name": "s", "arrays": given}], "perturbations": 0, **params}
        row = pool.run("tensorflow", "tensorflow.run", request).result["runs"][0]
        assert row["error"] is None, row["error"]
        return {name: pool.get(each) for name, each in row["outputs"].items()}, row

    return call


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_a_convolution_with_two_outputs(convert, run):
    result = convert("cnn", {"image": drawn(2, 7, 11, 3)}).result
    assert result["output_names"] == ["output.features", "output.mean"]
    assert any("XlaCallModule" in each for each in result["warnings"]) and result["options"]["native_serialization"]
    for batch in (2, 5, 1):
        image = drawn(batch, 7, 11, 3, seed=batch)
        padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        wanted = np.zeros((batch, 4, 6, 5))
        for row in range(4):
            for column in range(6):
                patch = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3, :]
                wanted[:, row, column] = np.einsum("nhwc,hwco->no", patch, KERNEL.astype(np.float64))
        found, _ = run(result, image)
        np.testing.assert_allclose(found["output.features"], np.maximum(wanted, 0), atol=1e-5)
        np.testing.assert_allclose(found["output.mean"], np.maximum(wanted, 0).mean((1, 2)), atol=1e-5)


def test_a_gru_as_jax_itself_runs_it(convert, run, attempt, pool):
    result = convert("gru", {"tokens": drawn(2, 4, 6)}).result
    tokens = drawn(5, 4, 6, seed=1)
    inputs = [{"name": "s", "arrays": {"tokens": pool.put(tokens)}}]
    own = attempt("run", "gru", FILE, inputs=inputs, oracle=False, perturbations=0).result["runs"][0]
    found, _ = run(result, tokens)
    np.testing.assert_allclose(found["output"], pool.get(own["outputs"]["output"]), atol=1e-6)


def test_weights_are_variables_and_narrowed_integers_are_said(convert, run, pool):
    ids = np.array([1, 6], np.int64)
    result = convert("two", {"x": drawn(2, 4), "ids": ids}).result
    assert result["dtype_changes"] == {"ids": ["int64", "int32"]} and result["input_names"] == ["x", "ids"]
    described = pool.run("tensorflow", "tensorflow.describe", result["params"]).result
    assert {(each["name"], tuple(each["shape"])) for each in described["parameters"]} == {
        ("w:0", (4, 3)),
        ("b:0", (3,)),
    }
    x = drawn(5, 4, seed=2)
    found, row = run(result, x, np.arange(5, dtype=np.int32))
    np.testing.assert_allclose(found["output.0"], x @ W + B, atol=1e-6)
    np.testing.assert_allclose(found["output.1"], W[np.arange(5) % 4].sum(-1), atol=1e-6)
    assert row["oracle"] is None and "compiled for one precision" in row["oracle_reason"]


def test_bytes_go_in_as_bytes(convert, run):
    image = np.random.default_rng(1).integers(0, 256, (2, 3, 5, 2)).astype(np.uint8)
    result = convert("uint8", {"image": image}).result
    found, row = run(result, image)
    np.testing.assert_allclose(found["output"], image.sum((1, 2)) / 255, rtol=1e-6)
    assert row["oracle"] is None  # XLA computes in single precision, whatever the graph around it says


def test_bfloat16_stays_bfloat16(convert, run):
    x = drawn(2, 4)
    found, row = run(convert("bfloat16", {"x": x}).result, x)
    assert row["outputs"]["output"]["logical"] == "bfloat16"
    np.testing.assert_allclose(found["output"], x @ W, atol=2e-2)


def test_tensorflow_needs_no_jax_and_can_differentiate(convert, tmp_path):
    result = convert("two", {"x": drawn(2, 4), "ids": np.array([1, 2], np.int32)}).result
    code = """
import sys
sys.modules["jax"] = None  # Keras imports it where it is there
import numpy as np, tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
x = tf.ones([3, 4])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = model.signatures["serving_default"](x=x, ids=tf.constant([0, 1, 2]))["output.0"]
    total = tf.reduce_sum(y)
print(np.asarray(tape.gradient(total, x))[0].tolist())
"""
    python = os.environ["TENSORAUDIT_TF_PYTHON"]
    path = result["params"]["model"]["path"]
    done = subprocess.run([python, "-c", code, path], check=True, capture_output=True, text=True)
    np.testing.assert_allclose(json.loads(done.stdout.strip().splitlines()[-1]), W.sum(1), rtol=1e-6)


def test_a_call_back_into_python_is_refused(convert):
    outcome = convert("calls_python", {"x": drawn(2, 4)})
    assert outcome.status == "failed" and "calls back into Python" in outcome.reason
    assert outcome.error["details"]["source"]["path"].endswith(FILE)


def test_a_size_that_decides_is_refused_with_its_line_and_works_fixed(convert, run):
    outcome = convert("depends_on_size", {"x": drawn(2, 4)})
    details = outcome.error["details"]
    assert outcome.status == "failed" and "does not hold for every size" in outcome.reason
    assert details["fixed"] == {"x": {"0": 2}} and "x.shape[0] > 3" in details["source"]["text"]
    found, _ = run(convert("depends_on_size", {"x": drawn(2, 4)}, {}).result, drawn(2, 4))
    np.testing.assert_array_equal(found["output"], 2 * drawn(2, 4))
