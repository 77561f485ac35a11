"""MiniLM, as people use it: both routes, dynamic batch and length, no false alarm.

A wrong epsilon is traced to the first LayerNorm.
"""

import subprocess
import sys

import pytest

import tensoraudit

EXPORT = """
import sys, warnings, torch
warnings.filterwarnings("ignore")
sys.path.append(sys.argv[1])
import minilm
inputs = minilm.sample_inputs()[0]
dims = {0: "batch", 1: "length"}
model = minilm.make_model(layer_norm_eps=1e-5)
torch.onnx.export(model, (inputs["input_ids"], inputs["attention_mask"]), sys.argv[2], dynamo=True,
                  verbose=False, external_data=False, dynamic_shapes=(dims, dims))
"""


@pytest.fixture(scope="module")
def report(root):
    return tensoraudit.scan(root / "examples/minilm.py:make_model")


def test_the_grade_is_a_or_b(report):
    assert report["grade"]["onnx"] in {"A", "B"}
    assert report["exit_code"] == 0


def test_both_routes_convert(report):
    assert {c["route"]: c["status"] for c in report["conversions"]} == {
        "torch_onnx_dynamo": "ok",
        "torch_onnx_torchscript": "ok",
    }


def test_no_finding_above_low(report):
    bad = [
        (f["rule"], f["severity"], f["state"]) for f in report["findings"] if f["state"] not in {"refuted", "advice"}
    ]
    assert not [each for each in bad if each[1] != "low"], bad


def test_other_batches_and_lengths_were_compared(report):
    inputs = {row["inputs"] for row in report["equivalence"]}
    assert {"batch=1", "batch=5"} <= inputs
    assert any("batch" not in name and "=" in name for name in inputs)


@pytest.mark.usefixtures("few_inputs")
def test_a_wrong_epsilon_is_traced_to_the_first_layer_norm(root, tmp_path):
    candidate = tmp_path / "eps.onnx"
    subprocess.run([sys.executable, "-c", EXPORT, root / "examples", candidate], check=True, capture_output=True)
    report = tensoraudit.compare(root / "examples/minilm.py:make_model", candidate)
    assert {row["verdict"] for row in report["equivalence"]} & {"drift", "break"}
    first = next(row["first_divergence"] for row in report["equivalence"] if row["first_divergence"])
    assert "embeddings.LayerNorm" in first["reference_node"]
    assert report["exit_code"] == 1
