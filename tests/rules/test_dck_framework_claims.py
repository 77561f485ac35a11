"""What DCK-013 to DCK-018 claim about Keras, TensorFlow, Flax and orbax, tried on the installed ones.

Each script of `claims/` runs once, in a process of its own, by the interpreter that TENSORAUDIT_TF_PYTHON or
TENSORAUDIT_JAX_PYTHON names, else by this one. What it measures, and the files that it writes, are judged here.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.checkpoints import keras_weights, orbax, torch_file
from tensoraudit.checkpoints.diff import diff_checkpoints
from tensoraudit.checkpoints.observations import observe_all, observe_diff_all
from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Checkpoint, Measurement, Site
from tensoraudit.facts.store import FactStore
from tensoraudit.findings.settle import findings_from_matches
from tensoraudit.language.confirm import settle_confirm
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import load_rules, rules_folder

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "claims"
PYTHONS = {
    "dck_keras": os.environ.get("TENSORAUDIT_TF_PYTHON", sys.executable),
    "dck_tensorflow": os.environ.get("TENSORAUDIT_TF_PYTHON", sys.executable),
    "dck_jax": os.environ.get("TENSORAUDIT_JAX_PYTHON", sys.executable),
}
RULES = load_rules([rules_folder()])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Run a script once per module: the measurements of each run, and the folder that it wrote into."""
    done = {}

    def run(script, *runs):
        if script not in done:
            folder = tmp_path_factory.mktemp(script)
            done[script] = [rows_of(script, folder, *each) for each in runs or [()]], folder
        return done[script]

    return run


def rows_of(script, folder, *arguments):
    command = [PYTHONS[script], str(SCRIPTS / f"{script}.py"), str(folder), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 0, ended.stderr[-2000:]
    rows = json.loads(ended.stdout.splitlines()[-1])
    if "missing" in rows:
        pytest.skip(f"{rows['missing']} in {PYTHONS[script]}")
    return rows


def settled(rule, python, *rows):
    store = FactStore([*read_python_text(python, path="port.py").facts, *rows])
    matches = match_rules(RULES, store, source="pytorch", target="tensorflow")
    return {settle_confirm(match, store).state for match in matches if match.rule.id == rule}


def measurements(observations, noun="checkpoint"):
    return [Measurement(f"{noun}.{each.kind}", each.subject, each.value, detail=each.message) for each in observations]


def reported(rows, source="pytorch", target="tensorflow"):
    store = FactStore(rows)
    found = findings_from_matches(match_rules(RULES, store, source=source, target=target), store, probes={})
    return {(each.rule, str(each.state)) for each in found}


# DCK-013, DCK-014


@pytest.mark.parametrize(
    ("layer", "least", "most"),
    [
        ("conv_raw", 1.3, 1.5),
        ("conv_moved", 0, 1e-6),
        ("dense_raw", 1.3, 1.6),
        ("dense_moved", 0, 1e-6),
        ("bn_default", 9, 11),
        ("bn_swapped", 1.5, 2.5),
        ("bn_moved", 0, 1e-6),
        ("right", 0, 1e-6),
        ("flatten", 0.9, 1.1),
    ],
)
def test_how_far_a_keras_layer_is_off(layer, least, most, measured):
    (rows,), _ = measured("dck_keras")
    assert least <= rows[layer] <= most


@pytest.mark.parametrize(("layer", "least", "most"), [("conv_raw", 1.2, 1.5), ("conv_moved", 0, 1e-6)])
def test_how_far_a_flax_layer_is_off(layer, least, most, measured):
    rows, _ = measured("dck_jax", (4,), (2,))
    assert least <= rows[0][layer] <= most


def test_what_flax_starts_with(measured):
    rows, _ = measured("dck_jax", (4,), (2,))
    assert rows[0]["statistics"] == {"mean": [0, 0, 0], "var": [1, 1, 1]}
    assert rows[0]["epsilon"] == 1e-5


PORT = """
import keras
import torch

def port(layer, conv):
    layer.set_weights([conv.weight.detach().numpy(), conv.bias.detach().numpy()])
"""
PARAMETERS = """
import keras
import torch

norm = torch.nn.BatchNorm2d(3)

def arrays(net):
    return [each.detach().numpy() for _, each in net.named_parameters()]
"""


def verdicts(rows, way):
    sides = ({"y": np.array(rows[key], "f4")} for key in ("outputs", f"{way}.outputs"))
    return [
        Measurement("output.verdict", each.name, str(each.verdict), target="tensorflow")
        for each in compare_arrays(*sides).outputs
    ]


@pytest.mark.parametrize(
    ("rule", "way", "state"),
    [
        ("DCK-013", "right", "refuted"),
        ("DCK-014", "right", "refuted"),
        ("DCK-014", "default", "confirmed"),
        ("DCK-013", "conv", "unverified"),  # the outputs break; that it is the layout, `ported` says
    ],
)
def test_outputs_settle_what_the_source_lets_suspect(rule, way, state, measured):
    (rows,), _ = measured("dck_keras")
    python = PORT if rule == "DCK-013" else PARAMETERS
    assert settled(rule, python, *verdicts(rows, way)) == {state}


def test_the_cause_confirms_a_kernel_in_the_wrong_layout(measured):
    (rows,), _ = measured("dck_keras")
    cause = Measurement("port.cause", "conv", "kernel-axes", target="tensorflow")
    assert settled("DCK-013", PORT, *verdicts(rows, "conv"), cause) == {"confirmed"}


@pytest.mark.parametrize(
    ("way", "found"),
    [
        ("right", set()),
        ("conv", {("DCK-013", "confirmed")}),
        ("flatten", {("DCK-013", "suspected")}),
        ("default", {("DCK-014", "confirmed")}),
        ("swapped", {("DCK-014", "confirmed")}),
    ],
)
def test_two_files_side_by_side(way, found, measured):
    _, folder = measured("dck_keras")
    reference, candidate = torch_file.read(folder / "net.pt"), keras_weights.read(folder / f"{way}.weights.h5")
    diff = diff_checkpoints(reference, candidate, values=True)
    assert reported(measurements(observe_diff_all(diff), "checkpoint_diff")) == found


# DCK-015, DCK-016


def test_a_restore_without_a_target(measured):
    (four, two), _ = measured("dck_jax", (4,), (2,))
    assert four["plain"] == {"opt": "list", "pair": "list", "moments": "dict"}
    assert four["update"] == "AttributeError: 'dict' object has no attribute 'mu'"
    assert two["plain"].startswith("ValueError: Topology mismatch")


def test_a_restore_with_a_target(measured):
    for rows in measured("dck_jax", (4,), (2,))[0]:
        assert rows["target"] == "ScaleByAdamState"
        assert rows["halves"] == "bfloat16"


def test_a_torch_state_in_orbax(measured):
    (four, _), _ = measured("dck_jax", (4,), (2,))
    assert four["tensors_in_a_pytree"].startswith("ValueError: TypeHandler lookup failed")
    assert (four["keys"], four["tuple"], four["tensor"]) == (["0", "1"], "list", "numpy")
    assert four["loaded"] == 0
    assert four["process"] == [0, 1]


def test_a_manager_refuses_earlier_steps(measured):
    (four, _), _ = measured("dck_jax", (4,), (2,))
    assert four["saved"] == [True, True, False, False]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("standard", {("orbax_containers", "opt"), ("orbax_devices", "checkpoint")}),
        ("torch", {("orbax_digit_keys", "optimizer")}),
    ],
)
def test_files_of_orbax(name, found, measured):
    _, folder = measured("dck_jax", (4,), (2,))
    kinds = {(each.kind, each.subject) for each in observe_all(orbax.read(folder / name))}
    assert {each for each in kinds if each[0].startswith("orbax")} == found


@pytest.mark.parametrize(
    ("python", "found"),
    [("", set()), ("import torch.distributed as dist\ndist.init_process_group('gloo')\n", {("DCK-016", "likely")})],
)
def test_a_step_without_its_tree(python, found, measured, tmp_path):
    _, folder = measured("dck_jax", (4,), (2,))
    steps = shutil.copytree(folder / "steps", tmp_path / "steps")
    (steps / "10" / "default" / "_METADATA").unlink()
    stored = orbax.read(steps)
    assert [(each.kind, each.subject) for each in stored.observations] == [("unfinished", "10")]
    rows = [*measurements(stored.observations), *read_python_text(python, path="a.py").facts]
    rows.append(Checkpoint(stored.format, stored.files, (), {}, Site(path="a"), "source"))
    assert {each for each in reported(rows, target="") if each[0].startswith("DCK")} == found


# DCK-017


def test_what_a_restore_matches(measured):
    (rows,), _ = measured("dck_tensorflow")
    assert rows["same"]["changed"] == {"dense": True, "b": True}
    assert rows["renamed"]["changed"] == {"fc": False, "b": True}
    assert rows["keyword"]["changed"] == {"fc": False, "b": False}
    assert rows["same"]["assert_consumed"] == "passes"
    for way in ("renamed", "keyword", "nothing"):
        assert rows[way]["assert_existing_objects_matched"] == "AssertionError"
    assert rows["shape"] == {"error": "ValueError"}


def test_nothing_is_restored_from_an_empty_folder(measured):
    (rows,), _ = measured("dck_tensorflow")
    assert rows["latest"] is None
    assert rows["nothing"]["status"] == "InitializationOnlyStatus"
    assert not any(rows["nothing"]["changed"].values())


RESTORE = "import tensorflow as tf\ntf.train.Checkpoint(model=m).restore(path)\n"


@pytest.mark.parametrize(("way", "state"), [("renamed", "confirmed"), ("same", "refuted")])
def test_the_model_settles_a_restore(way, state, measured):
    (rows,), _ = measured("dck_tensorflow")
    changed = rows[way]["changed"]
    facts = [Measurement("checkpoint.keys_matched", "checkpoint", sum(changed.values()) / len(changed))]
    facts += [Measurement("checkpoint.key_missing", name, [3]) for name, each in changed.items() if not each]
    store = FactStore([*read_python_text(RESTORE, path="a.py").facts, *facts])
    matches = match_rules(RULES, store, source="tensorflow", target="tensorflow")
    assert {settle_confirm(each, store).state for each in matches if each.rule.id == "DCK-017"} == {state}


# DCK-018


def test_weights_go_by_position(measured):
    (rows,), _ = measured("dck_keras")
    assert rows["position"] == {"a": "b", "b": "a"}
    assert rows["fewer"][0] is True
    assert rows["more"].startswith("ValueError")


def test_layers_that_are_skipped(measured):
    (rows,), _ = measured("dck_keras")
    assert not any(rows["by_name"])
    assert rows["by_name_new"].startswith("ValueError: `by_name` only supports loading legacy")
    assert rows["skip_mismatch"] == [False, False, True, False]


def test_files_of_layers_in_another_order(measured):
    _, folder = measured("dck_keras")
    sides = [keras_weights.read(folder / f"{name}.weights.h5") for name in ("ab", "ba")]
    rows = measurements(observe_diff_all(diff_checkpoints(*sides)), "checkpoint_diff")
    assert reported(rows, source="tensorflow") == {("DCK-018", "confirmed")}
    assert reported(measurements(observe_diff_all(diff_checkpoints(sides[0], sides[0])), "checkpoint_diff")) == set()
