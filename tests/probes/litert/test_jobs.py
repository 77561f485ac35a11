"""TensorFlow Lite models in their interpreter, against arithmetic done here."""

import re

import numpy as np
import pytest

pytestmark = pytest.mark.slow

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.array([0.5, -0.25, 0.125], np.float32)
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
KERNEL = np.random.default_rng(0).normal(size=(3, 3, 3, 5)).astype(np.float32)


def convolved(image):
    """The fixture's convolution: 3x3, stride 2, SAME (one row and column of zeros on each side), relu."""
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows, columns = 4, 6
    out = np.zeros((len(image), rows, columns, 5))
    for row in range(rows):
        for column in range(columns):
            patch = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3, :]
            out[:, row, column] = np.einsum("nhwc,hwco->no", patch, KERNEL.astype(np.float64))
    return np.maximum(out, 0)


def test_a_signature_is_described(ask):
    described = ask("describe", "affine").result
    assert described["arguments"] == [
        {"name": "x", "required": True, "annotation": "", "dtype": "float32", "shape": [None, 4]}
    ]
    assert [(each["name"], each["shape"]) for each in described["outputs"]] == [("total", [None]), ("y", [None, 3])]
    assert described["operators"] == ["SUM", "FULLY_CONNECTED"] and not described["stateful"]


@pytest.mark.parametrize("xnnpack", [True, False])
def test_a_model_computes_what_arithmetic_says_at_any_batch(ask, pool, xnnpack):
    for size in (5, 1):
        outcome = ask("run", "affine", {"x": X[:size]}, xnnpack=xnnpack).result
        run = outcome["runs"][0]
        np.testing.assert_allclose(pool.get(run["outputs"]["y"]), X[:size] @ W + B, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(pool.get(run["outputs"]["total"]), X[:size].sum(-1), rtol=1e-6, atol=1e-6)
        assert outcome["settings"]["xnnpack"] is xnnpack
        assert run["oracle"] is None and "double precision" in run["oracle_reason"]
        moved = [abs(pool.get(draw["y"]) - pool.get(run["outputs"]["y"])).max() for draw in run["perturbed"]]
        assert len(moved) == 3 and all(0 < each < 1e-5 for each in moved)


def test_two_outputs_of_a_convolution(ask, pool):
    image = np.random.default_rng(2).normal(size=(3, 7, 11, 3)).astype(np.float32)
    outputs = ask("run", "image", {"image": image}).result["runs"][0]["outputs"]
    wanted = convolved(image)
    np.testing.assert_allclose(pool.get(outputs["features"]), wanted, atol=2e-5)
    np.testing.assert_allclose(pool.get(outputs["mean"]), wanted.mean((1, 2)), atol=2e-5)


def test_quantised_values_stay_as_they_are_stored(ask, pool):
    image = np.random.default_rng(3).integers(0, 256, (2, 7, 11, 3)).astype(np.uint8)
    result = ask("run", "quantised", {"image": image}).result
    run, known = result["runs"][0], result["quantisation"]
    stored = pool.get(run["outputs"]["features"])
    assert stored.dtype == np.int8 and run["perturbed"] == [] and "floating" in run["perturbed_reason"]
    taken, given = known["inputs"]["image"], known["outputs"]["features"]
    real = taken["scale"][0] * (image.astype(np.float64) - taken["zero_point"][0])
    found = given["scale"][0] * (stored.astype(np.float64) - given["zero_point"][0])
    wanted = np.minimum(convolved(real), given["scale"][0] * (127 - given["zero_point"][0]))
    assert abs(found - wanted).max() < 4 * given["scale"][0]
    assert abs(found - wanted).max() > 0  # 8 bits cannot hold it


def test_every_run_begins_in_the_first_state(ask, pool):
    x = np.array([[1, 2, 3]], np.float32)
    result = ask("run", "counter", {"x": x}).result
    for outputs in (result["runs"][0]["outputs"], result["runs"][0]["repeat"]):
        np.testing.assert_array_equal(pool.get(outputs["y"]), x)
    assert result["state_changed"]
    assert ask("run", "affine", {"x": X}).result["state_changed"] == []


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": X.astype(np.float64)}, "x is float32 in this model, not float64"),
        ({"x": X[:, :3]}, "x is [any, 4] in this model, not [5, 3]"),
        ({"x": X[0]}, "x is [any, 4] in this model, not [4]"),
        ({"z": X}, "it has no input z and the sample lacks x"),
    ],
)
def test_inputs_that_do_not_fit_are_an_answer(ask, inputs, words):
    error = ask("run", "affine", inputs).result["runs"][0]["error"]
    assert words in error["message"]
    assert words in ask("accepts", "affine", inputs).result["accepted"]["s"]


def test_what_fits_is_accepted(ask):
    assert ask("accepts", "affine", {"x": X}).result["accepted"] == {"s": True}


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("custom", "unsupported", "custom operator Erfc"),
        ("flex", "unsupported", r"operators of TensorFlow itself \(Flex\)"),
        ("text", "failed", "input text is text"),
    ],
)
def test_what_the_interpreter_cannot_run_is_said(ask, name, status, words):
    outcome = ask("describe", name)
    assert outcome.status == status and outcome.error["details"]["remedy"]
    assert re.search(words, outcome.reason)


def test_another_device_and_format_are_refused(ask, pool):
    assert ask("run", "affine", {"x": X}, device="cuda").status == "unsupported"
    other = pool.run("litert", "litert.describe", {"model": {"format": "saved_model", "path": "/x"}})
    assert other.status == "unsupported"


def test_intermediates_with_their_paths(ask, pool):
    image = np.random.default_rng(2).normal(size=(2, 7, 11, 3)).astype(np.float32)
    result = ask("trace", "image", {"image": image}, select="all", fingerprints=True).result
    first, second = result["events"]
    assert (first["op"], first["inputs"], second["op"]) == ("CONV_2D", ["input:image"], "MEAN")
    assert second["inputs"] == [f"{first['key']}@0"]
    assert result["outputs"] == {"features": f"{first['key']}@0", "mean": f"{second['key']}@0"}
    np.testing.assert_allclose(pool.get(first["outputs"][0]), convolved(image), atol=2e-5)
    assert first["outputs"][0]["print"]["count"] == 2 * 4 * 6 * 5
    assert result["settings"]["xnnpack"] is False


def test_a_trace_keeps_to_its_budget(ask):
    image = np.zeros((2, 7, 11, 3), np.float32)
    few = ask("trace", "image", {"image": image}, select="all", budget=100).result
    assert ["file" in event["outputs"][0] for event in few["events"]] == [False, False]
    assert ask("trace", "image", {"image": image}, select=[0, 1], budget=100).status == "failed"
    assert ask("trace", "image", {"image": image}, dtype="float64").status == "unsupported"
