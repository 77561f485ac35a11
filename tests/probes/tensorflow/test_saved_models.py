"""SavedModels that are odd: each a clear statement, never a crash, and never outputs that are silently fewer."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.state import require_model
from tensoraudit.errors import InputError

pytestmark = pytest.mark.slow
X = np.array([0.5, 1.5, 2.5], np.float32)


@pytest.fixture(scope="module")
def folder(tensorflow, tmp_path_factory):
    home = tmp_path_factory.mktemp("odd")
    script = Path(__file__).parent / "odd_saved_models.py"
    subprocess.run([tensorflow, str(script), str(home)], check=True, capture_output=True)
    return home


@pytest.fixture
def ask(pool, folder):
    def call(job, name, sample=None, **params):
        spec = {"format": "saved_model", "path": str(folder / name), "trust": False, "seed": 0, "code": []}
        given = {} if sample is None else {"name": "s", "arrays": {n: pool.put(a) for n, a in sample.items()}}
        inputs = {} if sample is None else {"inputs": given if job == "export" else [given]}
        return pool.run("tensorflow", f"tensorflow.{job}", {"model": spec, **inputs, **params})

    return call


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text_in", "input t takes text, which cannot be carried to another runtime"),
        ("resource_in", "input h takes a handle of a variable or table, which cannot be carried"),
        ("no_signature", "no_signature has no signature, so nothing tells how it is called"),
    ],
)
def test_what_cannot_be_given_is_refused_with_the_reason(ask, name, words):
    outcome = ask("describe", name)
    assert outcome.status == "failed" and words in outcome.reason
    assert outcome.error["details"]["remedy"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text_out", "output s is text, which cannot be carried"),
        ("list_out", "output l is a list or another value of TensorFlow's own"),
        ("ragged_out", "output output_0 is a ragged tensor"),
        ("sparse_out", "output output_0 is a sparse tensor"),
    ],
)
def test_an_output_that_cannot_be_carried_is_an_error_and_not_left_out(ask, tmp_path, name, words):
    row = ask("run", name, {"x": X}).result["runs"][0]
    assert row["outputs"] == {} and words in row["error"]["message"]
    exported = ask("export", name, {"x": X}, route="tf2onnx", path=str(tmp_path / "m.onnx"))
    assert exported.status == "failed" and words in exported.reason


def test_the_signature_that_was_chosen_is_said(ask, pool):
    described = ask("describe", "several").result
    assert described["notes"] == ["signature beta was audited; the SavedModel has zeta too"]
    assert (described["class"], described["arguments"][0]["shape"]) == ("SavedModel", [None, 3])
    x = np.ones((2, 3), np.float32)
    row = ask("run", "several", {"x": x}).result["runs"][0]
    np.testing.assert_array_equal(pool.get(row["outputs"]["b"]), x + 2)


def test_a_rank_that_is_open_is_no_shape(ask, pool):
    (argument,) = ask("describe", "any_rank").result["arguments"]
    assert argument == {"name": "x", "required": True, "annotation": ""}
    for x in (X, np.ones((2, 3, 4), np.float32)):
        np.testing.assert_array_equal(
            pool.get(ask("run", "any_rank", {"x": x}).result["runs"][0]["outputs"]["y"]), 2 * x
        )


def test_names_that_nobody_gave(ask, pool):
    names = {each["name"] for each in ask("describe", "no_names").result["arguments"]}
    assert names == {"a", "b"}
    row = ask("run", "no_names", {"a": X, "b": 2 * X}).result["runs"][0]
    np.testing.assert_array_equal(pool.get(row["outputs"]["output_0"]), 3 * X)
    np.testing.assert_array_equal(pool.get(row["outputs"]["output_1"]), -X)


def test_names_with_dots(ask, pool):
    assert {each["name"] for each in ask("describe", "odd_names").result["arguments"]} == {"in_1", "in_2"}
    row = ask("run", "odd_names", {"in_1": 3 * X, "in_2": X}).result["runs"][0]
    np.testing.assert_array_equal(pool.get(row["outputs"]["y.1"]), 2 * X)


def test_inputs_that_do_not_fit(ask):
    row = ask("run", "odd_names", {"in_1": X, "z": X}).result["runs"][0]
    assert "it has no argument z and the inputs lack in_2" in row["error"]["message"]


def test_wide_and_narrow_outputs(ask, pool):
    outputs = ask("run", "wide", {"x": X}).result["runs"][0]["outputs"]
    assert pool.get(outputs["i"]).tolist() == [0, 2**40, 2**41]
    assert outputs["h"]["dtype"] == "float16" and outputs["b"]["logical"] == "bfloat16"
    np.testing.assert_array_equal(pool.get(outputs["b"]), X)
    assert outputs["none"]["shape"] == [0]


def test_a_table_runs_but_has_no_onnx_form(ask, pool, tmp_path):
    ids = np.array([2, 9, 1], np.int64)
    row = ask("run", "table", {"x": ids}).result["runs"][0]
    assert pool.get(row["outputs"]["y"]).tolist() == [7, -1, 5] and row["oracle"] is None
    exported = ask("export", "table", {"x": ids}, route="tf2onnx", path=str(tmp_path / "m.onnx"))
    assert exported.status == "failed" and "such as a lookup table" in exported.reason


def test_files_that_nested_functions_read_need_trust(folder):
    artifact = identify(str(folder / "nested"))
    assert artifact.imports == ("ReadFile",)
    with pytest.raises(InputError, match=r"ReadFile.*--trust"):
        require_model(artifact, None, False)
