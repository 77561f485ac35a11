"""Migrations from TensorFlow and Keras to ONNX, end to end: right ones pass, planted faults are found, nothing in
between. They run in the interpreter that TENSORAUDIT_TF_PYTHON names."""

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensoraudit
from tensoraudit.artifacts.protobuf import fields
from tensoraudit.errors import InputError

pytestmark = pytest.mark.usefixtures("warm_workers")

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "tensorflow"
MODELS = ROOT / "tests" / "probes" / "tensorflow" / "models.py"


@pytest.fixture(scope="module")
def python():
    named = os.environ.get("TENSORAUDIT_TF_PYTHON")
    if not named:
        pytest.skip("TENSORAUDIT_TF_PYTHON names no interpreter that has TensorFlow")
    return {"tensorflow": named}


def scan(artifact, python, **options):
    return tensoraudit.scan(str(artifact), python=python, **options)


def rules(report):
    return {finding["rule"]: finding["state"] for finding in report["findings"]}


def shipped(report):
    """The rows that decide; the others show the reference in its other modes."""
    return [row for row in report["equivalence"] if not row["candidate"].startswith(("eager@", "xla@"))]


def verdicts(report):
    return {row["verdict"] for row in shipped(report)}


def assert_right(report):
    assert report["grade"]["onnx"] == "A", (report["findings"], report["probes"])
    assert report["exit_code"] == 0 and verdicts(report) <= {"identical", "equivalent", "noise"}
    assert any(row["error_ratio"] is not None for row in report["equivalence"])


@pytest.mark.slow
def test_a_convolution_in_its_own_layout(python):
    report = scan(f"{MODELS}:cnn", python)
    assert_right(report)
    shapes = {name: each["image"] for name, each in report["settings"]["inputs"].items()}
    assert all(shape.endswith(", 17, 19, 3]") for shape in shapes.values())
    assert {shape.split("[")[1].split(",")[0] for shape in shapes.values()} >= {"1", "2", "5"}
    assert report["settings"]["dynamic"] == {"image": {"0": "batch"}}
    assert report["artifact"]["framework"] == "tensorflow" and report["tool"]["tensorflow"].startswith("2.")
    assert not any("no oracle" in row["reason"] for row in report["equivalence"])


@pytest.mark.slow
def test_recurrent_layers_at_other_lengths_with_outputs_by_name(python):
    report = scan(f"{MODELS}:recurrent", python)
    assert_right(report)
    assert report["settings"]["dynamic"] == {"tokens": {"0": "batch", "1": "tokens_1"}}
    assert {row["tensor"] for row in report["equivalence"]} == {"logits", "score"}
    assert any(row["inputs"].startswith("tokens_1=") for row in report["equivalence"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["affine", "dense.keras", "dense.h5"])
def test_files_and_folders(python, name):
    assert_right(scan(FIXTURES / name, python))


@pytest.mark.slow
def test_a_class_with_its_own_inputs_and_a_function_with_ids(python):
    assert_right(scan(f"{MODELS}:two", python))
    report = scan(f"{MODELS}:pick", python)
    assert report["grade"]["onnx"] == "A" and verdicts(report) == {"identical"}


@pytest.mark.slow
def test_constants_that_a_saved_function_captures_do_not_become_inputs(python, tmp_path):
    report = scan(f"{MODELS}:Constant", python)
    assert_right(report)
    (conversion,) = report["conversions"]
    assert conversion["details"]["input_names"] == ["x"]


@pytest.mark.slow
def test_a_graph_is_audited_when_its_object_graph_does_not_load(python, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "affine", folder)
    path = folder / "saved_model.pb"
    data = bytearray(path.read_bytes())
    (meta,) = [(at, stop) for number, _, at, stop in fields(bytes(data), 0, len(data)) if number == 2]
    ((start, end),) = [(at, stop) for number, _, at, stop in fields(bytes(data), *meta) if number == 7]
    data[start:end] = data[start:end].replace(b"signature_wrapper", b"signature_missing")
    path.write_bytes(data)
    report = scan(folder, python)
    assert_right(report)
    assert any("its graph and signature serving_default were run instead" in note for note in report["notes"])


@pytest.mark.slow
def test_a_bicubic_resize_drifts_and_is_explained(python):
    report = scan(FIXTURES / "bicubic", python)
    assert {"EQV-002", "ONX-025"} <= set(rules(report)) and rules(report)["EQV-002"] == "confirmed"
    assert report["exit_code"] == 1 and "drift" in verdicts(report)


@pytest.mark.slow
def test_an_operator_that_the_converter_leaves_is_found(python):
    report = scan(f"{MODELS}:exact_gelu", python)
    assert rules(report)["ONX-039"] == "confirmed" and report["grade"]["onnx"] == "F"
    assert any("Erfc" in text for text in report["conversions"][0]["details"]["warnings"])


@pytest.mark.slow
def test_dropout_that_stays_on_and_state_that_moves(python):
    assert rules(scan(f"{MODELS}:dropped", python))["EQV-006"] == "confirmed"
    report = scan(f"{MODELS}:Counter", python)
    assert rules(report)["EQV-009"] == "confirmed"
    assert "an ONNX graph has no memory" in report["conversions"][0]["cause"]


def affine_onnx(path, offset):
    w = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    b = np.array([0.5, -0.25, 0.125 + offset], np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["y"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["total"], keepdims=0),
    ]
    arrays = {"w": w, "b": b, "axes": np.array([1], np.int64)}
    graph = helper.make_graph(
        nodes,
        "affine",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [
            helper.make_tensor_value_info("total", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3]),
        ],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.mark.slow
def test_a_given_file_is_compared_output_by_output_name(python, tmp_path):
    right = tensoraudit.compare(str(FIXTURES / "affine"), affine_onnx(tmp_path / "right.onnx", 0), python=python)
    assert_right(right)
    wrong = tensoraudit.compare(str(FIXTURES / "affine"), affine_onnx(tmp_path / "wrong.onnx", 0.01), python=python)
    found = {row["tensor"]: row["verdict"] for row in shipped(wrong) if row["inputs"] == "random-0"}
    assert found["y"] in {"drift", "break"} and found["total"] in {"identical", "equivalent", "noise"}
    assert wrong["exit_code"] == 1


@pytest.mark.slow
def test_code_in_a_file_needs_trust(python):
    with pytest.raises(InputError, match=r"lambda\.h5 is a Keras model that stores code.*--trust"):
        scan(FIXTURES / "lambda.h5", python)
    assert_right(scan(FIXTURES / "lambda.h5", python, trust=True))
    assert_right(scan(FIXTURES / "lambda.keras", python, trust=True))


def test_code_in_an_archive_is_refused_before_a_worker_starts():
    nowhere = {"tensorflow": "/nonexistent/python"}
    with pytest.raises(InputError, match=r"bytecode of a lambda.*--trust"):
        scan(FIXTURES / "lambda.keras", nowhere)
    with pytest.raises(InputError, match="does not lead from TensorFlow to onnx"):
        scan(FIXTURES / "affine", nowhere, via="torch_onnx_dynamo")


def test_operators_that_use_files_are_a_critical_finding_and_nothing_runs():
    report = scan(FIXTURES / "reads_files", {"tensorflow": "/nonexistent/python"})
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("CNV-008", "critical") and "ReadFile" in finding["message"]
    assert (report["grade"]["onnx"], report["exit_code"], report["equivalence"]) == ("F?", 1, [])
    (row,) = [row for row in report["probes"] if row["name"] == "reference.run"]
    assert row["status"] == "unsupported" and "--trust" in row["reason"]


def test_without_tensorflow_nothing_passes():
    report = scan(FIXTURES / "affine", {"tensorflow": "/nonexistent/python"})
    assert report["exit_code"] == 3 and report["grade"]["onnx"].endswith("?")
    (row,) = [each for each in report["probes"] if each["name"] == "reference.describe"]
    assert row["status"] == "missing" and row["framework"] == "tensorflow"
