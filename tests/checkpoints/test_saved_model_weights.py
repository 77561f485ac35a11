"""The variables of SavedModels, and of one that people use: basic-pitch."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tensoraudit.checkpoints.saved_model_weights import read, recognises
from tensoraudit.errors import InputError

END = "/.ATTRIBUTES/VARIABLE_VALUE"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "tensorflow"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saved", "exported"])
def test_names_types_shapes_and_bytes(tensorflow_files, name, stored_bytes):
    stored = read(tensorflow_files.root / name)
    expected = tensorflow_files.expected[name]
    assert {entry.name + END for entry in stored.entries} == expected.keys() - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    for entry in stored.entries:
        assert (entry.dtype, entry.shape, stored_bytes(stored, entry)) == expected[entry.name + END]
    assert (stored.format, stored.root) == ("saved_model", tensorflow_files.root / name)
    assert stored.writer.startswith("TensorFlow 2.") and stored.observations == ()


@pytest.mark.slow
def test_what_keras_exports_twice_counts_once(tensorflow_files):
    stored = read(tensorflow_files.root / "exported")
    weights = {entry.alias: entry.shape for entry in stored.entries if entry.group == "model"}
    expected = {name: value[1] for name, value in tensorflow_files.expected["model"].items()}
    assert {name: shape for name, shape in weights.items() if "seed" not in name} == {
        name: shape for name, shape in expected.items() if "seed" not in name
    }
    assert sum(entry.group == "model" for entry in stored.entries) == len(weights)


@pytest.mark.slow
def test_without_its_variables(tensorflow_files, tmp_path):
    folder = Path(shutil.copytree(tensorflow_files.root / "saved", tmp_path / "m"))
    assert recognises(folder) and recognises(folder / "saved_model.pb") and not recognises(folder / "variables")
    (folder / "variables/variables.index").unlink()
    with pytest.raises(InputError, match=r"variables\.index: does not exist"):
        read(folder)
    shutil.rmtree(folder / "variables")
    [observation] = read(folder).observations
    assert (observation.kind, observation.file) == ("no_tensors", "saved_model.pb")


SCRIPT = """
import json, sys
import numpy as np, tensorflow as tf
reader = tf.train.load_checkpoint(sys.argv[1])
found = {}
for name, dtype in reader.get_variable_to_dtype_map().items():
    if dtype != tf.string:
        value = reader.get_tensor(name)
        found[name] = [str(value.dtype), list(value.shape), value.tobytes().hex()]
json.dump(found, open(sys.argv[2], "w"))
"""


@pytest.mark.real
@pytest.mark.skipif(
    importlib.util.find_spec("basic_pitch") is None or not os.environ.get("TENSORAUDIT_TF_PYTHON"),
    reason="needs basic-pitch (requirements/real-models.txt) and TENSORAUDIT_TF_PYTHON",
)
def test_basic_pitch(tmp_path, stored_bytes):
    """It was written by TensorFlow 2.4 and keeps the whole state of its training."""
    [package] = importlib.util.find_spec("basic_pitch").submodule_search_locations
    folder = Path(package) / "saved_models/icassp_2022/nmp"
    stored = read(folder)
    out = tmp_path / "expected.json"
    command = [os.environ["TENSORAUDIT_TF_PYTHON"], "-c", SCRIPT, str(folder / "variables/variables"), str(out)]
    subprocess.run(command, check=True, capture_output=True)
    expected = json.loads(out.read_text())
    assert len(stored.entries) == len(expected) > 70
    for entry in stored.entries:
        assert [entry.dtype, list(entry.shape), stored_bytes(stored, entry).hex()] == expected[entry.name + END]
    weights = {entry.alias: entry.shape for entry in stored.entries if entry.group == "model"}
    assert len(weights) == 24 and weights["contours-reduced/kernel"] == (5, 5, 8, 1)
    [adam] = stored.training.optimizers
    assert (stored.training.step, adam.kind, adam.parameters, stored.writer) == (17_900, "adam", 18, "TensorFlow 2.4.1")
    assert adam.groups[0]["beta_2"] == pytest.approx(0.999)


def test_the_committed_fixture():
    stored = read(FIXTURES / "affine")
    assert {entry.shape for entry in stored.entries if entry.group == "model"} and not stored.observations
