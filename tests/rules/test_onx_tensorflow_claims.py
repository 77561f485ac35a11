"""What the ONX rules claim about TensorFlow, Keras, JAX and tf2onnx, tried on the installed ones.

TensorFlow does not live beside the other frameworks everywhere, so each script of `claims/` runs in a process of its
own, by the interpreter that TENSORAUDIT_TF_PYTHON names, else by this one. What it measures and the files that it
writes are judged here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensoraudit.extract.onnx import read_onnx
from tensoraudit.facts import Measurement, Package
from tensoraudit.facts.store import FactStore
from tensoraudit.language.confirm import settle_confirm
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import load_rules, rules_folder

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "claims"
PYTHON = os.environ.get("TENSORAUDIT_TF_PYTHON", sys.executable)
RULES = load_rules([rules_folder()])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Run a script once per module: its measurements and the folder that it wrote into."""
    done = {}

    def run(script):
        if script not in done:
            folder = tmp_path_factory.mktemp(script)
            command = [PYTHON, str(SCRIPTS / f"{script}.py"), str(folder)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
            assert ended.returncode == 0, ended.stderr[-2000:]
            done[script] = json.loads(ended.stdout.splitlines()[-1]), folder
        rows, folder = done[script]
        if "missing" in rows:
            pytest.skip(f"{rows['missing']} in {PYTHON}; name another one in TENSORAUDIT_TF_PYTHON")
        return rows, folder

    return run


def states(rule, *facts):
    store = FactStore(list(facts))
    matches = match_rules(RULES, store, source="onnx", target="onnxruntime")
    found = [match for match in matches if match.rule.id == rule]
    return [settle_confirm(match, store).state if match.rule.confirm else match.state for match in found]


# ONX-025


@pytest.mark.parametrize(
    ("way", "least", "most"),
    [
        ("bilinear", 0, 1e-5),
        ("nearest", 0, 0),
        ("area", 1, 5),
        ("area_twice", 0, 0),
        ("area_half", 1, 5),
        ("bicubic", 1e-3, 1e-2),
        ("bicubic_twice", 0, 1e-5),
        ("bicubic_corners", 0.05, 1),
        ("bicubic_old", 0.05, 1),
    ],
)
def test_how_far_a_resize_is_off(way, least, most, measured):
    rows, _ = measured("tf2onnx_resize")
    assert least <= rows[way]["differences"][0] <= most


@pytest.mark.parametrize("way", ["lanczos3", "antialias"])
def test_a_resize_with_antialiasing_stays_a_tensorflow_operator(way, measured):
    rows, folder = measured("tf2onnx_resize")
    assert rows[way]["nodes"] == ["ScaleAndTranslate"]
    assert "No Op registered for ScaleAndTranslate" in rows[way]["error"]
    assert states("ONX-039", *read_onnx(folder / f"{way}.onnx")) == ["unverified"]


@pytest.mark.parametrize(
    ("way", "found"),
    [
        ("bilinear", 0),
        ("nearest", 0),
        ("area", 1),
        ("area_half", 1),
        ("area_twice", 0),
        ("bicubic", 1),
        ("bicubic_twice", 0),
        ("bicubic_corners", 1),
    ],
)
def test_the_files_of_inexact_resizes_are_suspected(way, found, measured):
    _, folder = measured("tf2onnx_resize")
    assert states("ONX-025", *read_onnx(folder / f"{way}.onnx")) == ["suspected"] * found


# ONX-038


def test_sequential_models_of_keras_3_are_refused(measured):
    rows, _ = measured("tf2onnx_from_keras")
    assert int(rows["keras"].split(".")[0]) >= 3
    for way in ("sequential", "sequential_signature"):
        assert rows[way]["error"].startswith("KeyError: 'keras_tensor")
    assert "error" in rows["subclassed"]
    for way in ("functional", "functional_18", "subclassed_signature"):
        assert rows[way] == {"nodes": ["MatMul"]}
    assert "Opset 19 is not supported" in rows["functional_19"]["error"]
    assert rows["from_function"]["differences"][0] < 1e-6


# ONX-039


@pytest.mark.parametrize(
    ("way", "left"),
    [
        ("gelu", "Erfc"),
        ("gelu_keras", "Erfc"),
        ("rfft_real", "RFFT"),
        ("irfft", "RFFT"),
        ("fake_5", "FakeQuantWithMinMaxArgs"),
        ("fake_narrow", "FakeQuantWithMinMaxArgs"),
    ],
)
def test_what_has_no_mapping_is_left_in_the_file(way, left, measured):
    rows, folder = measured("tf2onnx_operators")
    assert left in rows[way]["nodes"]
    assert f"No Op registered for {left}" in rows[way]["error"]
    loads = Measurement("session.loads", "model", False, target="onnxruntime")
    assert set(states("ONX-039", *read_onnx(folder / f"{way}.onnx"), loads)) == {"confirmed"}


@pytest.mark.parametrize(
    ("way", "most"), [("gelu_tanh", 1e-6), ("gelu_erf", 1e-6), ("rfft_abs", 1e-5), ("fake_8", 0.008)]
)
def test_what_has_a_mapping_runs(way, most, measured):
    rows, folder = measured("tf2onnx_operators")
    assert rows[way]["differences"][0] <= most
    assert states("ONX-039", *read_onnx(folder / f"{way}.onnx")) == []


def test_the_tanh_form_is_another_function(measured):
    rows, _ = measured("tf2onnx_operators")
    assert 4e-4 < rows["tanh_gap"] < 5e-4


# ONX-040


def test_soft_suppression_becomes_hard(measured):
    rows, _ = measured("tf2onnx_suppression")
    for iou in ("0.5", "1.0"):
        assert rows[f"0.0 {iou}"]["differences"] == [0, 0]
        assert "NonMaxSuppressionV5" in rows[f"1.0 {iou}"]["nodes"]
        assert "error" in rows[f"1.0 {iou}"]
    assert rows["0.5 0.5"]["shapes"][0] == [3]  # TensorFlow keeps four
    assert rows["0.5 1.0"]["differences"][1] == pytest.approx(0.2944, abs=1e-3)


# ONX-026


def test_recurrent_layers_of_keras_are_written_right(measured):
    rows, folder = measured("tf2onnx_from_keras")
    assert "Loop" in rows["gru"]["nodes"]
    assert "Loop" in rows["gru_before"]["nodes"]
    assert "LSTM" in rows["lstm"]["nodes"]
    for name in ("gru", "gru_before", "lstm"):
        assert rows[name]["differences"][0] < 1e-6
        assert states("ONX-026", *read_onnx(folder / f"{name}.onnx")) == []


# ONX-042


@pytest.mark.parametrize("way", ["default", "native_serialization", "enable_xla"])
def test_jax2tf_gives_one_operator_that_tf2onnx_refuses(way, measured):
    rows, _ = measured("jax2tf_to_onnx")
    assert tuple(map(int, rows["jax"].split(".")[:2])) >= (0, 9)
    assert "XlaCallModule" in rows[way]["operators"]
    assert "Could not infer the attribute type" in rows[way]["error"]


# ONX-044


def test_normalisation_by_a_reciprocal_root(measured):
    rows, folder = measured("tf2onnx_operators")
    assert rows["l2_normalize"]["nodes"] == ["Mul", "ReduceSum", "Max", "Sqrt", "Reciprocal", "Mul"]
    assert rows["l2_normalize"]["differences"][0] < 1e-6
    assert rows["divided"]["nodes"][-1] == "Div"
    for version, way, found in (
        ("8.2.5.1", "l2_normalize", ["likely"]),
        ("8.2.5.1", "divided", []),
        ("8.6.1", "l2_normalize", []),
    ):
        old = Package("tensorrt", version, "target")
        assert states("ONX-044", *read_onnx(folder / f"{way}.onnx"), old) == found
