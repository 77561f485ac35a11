"""basic-pitch against its own ONNX and TFLite files, and on its way to other frameworks.

What is right is said by direct runs of the three files (fixtures/real/basic_pitch_runs.py), never by an audit.
"""

import importlib.util
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import tensoraudit

VARIABLE = "TENSORAUDIT_TF_PYTHON"
PASSES = {"identical", "equivalent", "noise"}
OPEN = {"certain", "likely", "confirmed", "contradictory", "suspected", "unverified"}
SILENCE = "edge-zeros"
ONE = {"input": ("input_2:float32[1,43844,1]",)}
FILE_NAMES = {
    "contour": "StatefulPartitionedCall:0",
    "note": "StatefulPartitionedCall:1",
    "onset": "StatefulPartitionedCall:2",
}
SPOILT = "contours-reduced"

pytestmark = pytest.mark.skipif(
    not os.environ.get(VARIABLE),
    reason=f"set {VARIABLE} to a Python with TensorFlow, JAX, PyTorch and LiteRT (requirements/frameworks.txt)",
)


@pytest.fixture(scope="module")
def files():
    package = importlib.util.find_spec("basic_pitch").submodule_search_locations[0]
    return Path(package) / "saved_models" / "icassp_2022"


@pytest.fixture(scope="module")
def python():
    return dict.fromkeys(("pytorch", "tensorflow", "jax", "litert"), os.environ[VARIABLE])


@pytest.fixture(scope="module")
def direct(files, root, tmp_path_factory):
    """Outputs of the three files without tensoraudit: `tensorflow/contour`, `tflite/contour`, `onnx/...:0`."""
    out = tmp_path_factory.mktemp("direct") / "runs.npz"
    script = root / "fixtures/real/basic_pitch_runs.py"
    subprocess.run([os.environ[VARIABLE], script, files, out], check=True, capture_output=True)
    with np.load(out) as stored:
        arrays = dict(stored)
    session = onnxruntime.InferenceSession(files / "nmp.onnx", providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    results = session.run(names, {session.get_inputs()[0].name: arrays["sound"]})
    return arrays | {f"onnx/{name}": array for name, array in zip(names, results, strict=True)}


def apart(first, second):
    return float(np.abs(first - second).max())


def rows(report, candidate):
    return [row for row in report["equivalence"] if row["candidate"].startswith(f"{candidate}@")]


def wrong(rows_of_one):
    """Rows that do not pass. Silence is left out: what the model answers there is nobody's fault (see below)."""
    return [row for row in rows_of_one if row["verdict"] not in PASSES and row["inputs"] != SILENCE]


def open_rules(report):
    return {finding["rule"] for finding in report["findings"] if finding["state"] in OPEN}


@pytest.fixture(scope="module")
def against_onnx(files, python):
    return tensoraudit.compare(files / "nmp", files / "nmp.onnx", python=python, **ONE)


def test_outputs_with_other_names_in_another_order_are_paired_rightly(direct, against_onnx):
    for key, name in FILE_NAMES.items():
        assert apart(direct[f"tensorflow/{key}"], direct[f"onnx/{name}"]) < 1e-4
    assert apart(direct["tensorflow/note"], direct[f"onnx/{FILE_NAMES['onset']}"]) > 0.1
    judged = [row for row in rows(against_onnx, "candidate") if row["notes"]]
    assert {row["tensor"] for row in judged} == set(FILE_NAMES)
    for row in judged:
        assert f"{row['tensor']} is compared with {FILE_NAMES[row['tensor']]}, paired by" in row["notes"][0]


def test_the_onnx_file_is_the_same_model(against_onnx):
    judged = rows(against_onnx, "candidate")
    assert {"random-0", "batch=2", "batch=5"} <= {row["inputs"] for row in judged}
    assert not wrong(judged)


def test_at_silence_where_the_reference_contradicts_itself_no_candidate_is_blamed(direct, against_onnx):
    """The model divides logarithms by their own range, which is 0 or one unit in the last place there.

    So the reference alone answers silence in a batch of one otherwise than in a batch of two.
    """
    own = apart(direct["silence/1/onset"][0], direct["silence/2/onset"][0])
    if own < 1e-3:
        pytest.skip("the logarithms of TensorFlow agree with each other on this processor")
    silent = [row for row in rows(against_onnx, "candidate") if row["inputs"] == SILENCE]
    assert {row["tensor"] for row in silent} == set(FILE_NAMES)
    assert {row["verdict"] for row in silent} <= {*PASSES, "unverified"}


def test_levels_of_the_runtime_that_differ_by_noise_raise_no_alarm(direct, files, against_onnx):
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(files / "nmp.onnx", plain, providers=["CPUExecutionProvider"])
    argument = session.get_inputs()[0].name
    for name in FILE_NAMES.values():
        (first,) = session.run([name], {argument: direct["sound"]})
        (moved,) = session.run([name], {argument: np.nextafter(direct["sound"], np.float32(9))})
        assert apart(first, direct[f"onnx/{name}"]) < 8 * apart(first, moved)
    assert "EQV-005" not in open_rules(against_onnx)


@pytest.mark.usefixtures("few_inputs")
def test_the_tflite_file_is_the_same_model(direct, files, python):
    for key in FILE_NAMES:
        assert apart(direct[f"tensorflow/{key}"], direct[f"tflite/{key}"]) < 1e-4
    report = tensoraudit.compare(files / "nmp", files / "nmp.tflite", python=python, **ONE)
    assert {row["tensor"] for row in rows(report, "candidate")} == set(FILE_NAMES)
    assert not wrong(rows(report, "candidate"))


@pytest.fixture(scope="module")
def spoilt(files, tmp_path_factory):
    """A copy of the ONNX file in which one kernel of a convolution is 1 % larger, and the name of that node."""
    model = onnx.load(files / "nmp.onnx")
    node = next(each for each in model.graph.node if each.op_type == "Conv" and SPOILT in each.name)
    kernel = next(each for each in model.graph.initializer if each.name == node.input[1])
    kernel.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(kernel) * np.float32(1.01), kernel.name))
    path = tmp_path_factory.mktemp("spoilt") / "nmp.onnx"
    onnx.save(model, path)
    return path, node


@pytest.mark.usefixtures("few_inputs")
def test_one_kernel_that_is_one_percent_off_is_found_and_named(files, python, spoilt):
    path, node = spoilt
    report = tensoraudit.compare(files / "nmp", path, python=python, **ONE)
    bad = wrong(rows(report, "candidate"))
    assert {row["tensor"] for row in bad if row["inputs"] == "random-0"} == set(FILE_NAMES)
    assert {row["verdict"] for row in bad} <= {"drift", "break"}
    places = [row["first_divergence"] for row in bad if row["first_divergence"]]
    assert places
    assert {place["candidate_node"] for place in places} == {node.name}
    assert all(SPOILT in place["reference_node"] for place in places)
    assert report["exit_code"] == 1


@pytest.mark.usefixtures("few_inputs")
def test_on_its_way_to_onnx_and_pytorch_no_output_is_taken_for_another(files, python):
    """The converters change nothing here but the order of the outputs."""
    report = tensoraudit.scan(files / "nmp", target="onnx,pytorch", python=python, **ONE)
    assert {row["target"]: row["status"] for row in report["conversions"]} == {"onnx": "ok", "pytorch": "ok"}
    for route in ("tf2onnx", "tf2onnx+onnx2torch"):
        judged = rows(report, route)
        assert {row["tensor"] for row in judged} == set(FILE_NAMES)
        assert not wrong(judged), [(row["tensor"], row["reason"]) for row in wrong(judged)]
