"""tensorflow.trace: every operator of the frozen graph with its layer, its line and its values."""

import re

import numpy as np
import pytest

pytestmark = pytest.mark.slow

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.array([0.5, -0.25, 0.125], np.float32)
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
IMAGE = np.random.default_rng(2).normal(size=(2, 17, 19, 3)).astype(np.float32)
TOKENS = np.random.default_rng(3).normal(size=(2, 5, 6)).astype(np.float32)


@pytest.fixture
def trace(ask):
    def run(name, inputs, **options):
        outcome = ask("trace", name, sample=inputs, **{"select": "all", **options})
        assert outcome.status == "ok", (outcome.reason, outcome.error)
        return outcome.result

    return run


def data(result):
    return [event for event in result["events"] if event["inputs"]]


def test_a_saved_model_is_one_graph_whose_values_are_those_of_arithmetic(trace, pool):
    result = trace("affine", {"x": X})
    events = {event["op"]: event for event in data(result)}
    np.testing.assert_allclose(pool.get(events["MatMul"]["outputs"][0]), X @ W, rtol=1e-5, atol=1e-6)
    assert events["MatMul"]["inputs"] == ["input:x"]
    assert set(result["outputs"]) == {"y", "total"}
    values = {f"{event['key']}@0": event["outputs"][0] for event in data(result)}
    np.testing.assert_allclose(pool.get(values[result["outputs"]["y"]]), X @ W + B, rtol=1e-5, atol=1e-6)


def test_operators_know_their_keras_layer_and_the_line_that_made_it(trace):
    events = data(trace("cnn", {"image": IMAGE}, select=None))
    conv = next(event for event in events if event["op"] == "Conv2D")
    assert conv["class"] == "Conv2D" and re.search(r"conv2d(_\d+)?$", conv["module"])
    assert conv["source"]["path"].endswith("models.py") and "Conv2D(7" in conv["source"]["text"]
    classes = list(dict.fromkeys(event["class"] for event in events if event["class"]))
    assert classes == ["Conv2D", "BatchNormalization", "MaxPooling2D", "Flatten", "Dense"]


def test_code_of_the_users_own_has_its_own_lines(trace):
    x = np.ones((3, 5), np.float32)
    events = data(trace("two", {"x": x, "y": np.ones((3, 6), np.float32)}))
    total = next(event for event in events if event["op"] == "Sum")
    assert "tf.reduce_sum(y, -1)" in total["source"]["text"]


def test_double_precision_goes_through_loops_and_keeps_the_keys(trace, pool):
    plain, double = (trace("recurrent", {"tokens": TOKENS}, dtype=dtype) for dtype in ("as_is", "float64"))
    wide = {event["key"]: event for event in double["events"]}
    stacked = [event for event in data(plain) if event["op"] in {"TensorListStack", "MatMul", "BiasAdd"}]
    assert len(stacked) >= 4
    for event in stacked:
        a, r = pool.get(event["outputs"][0]), pool.get(wide[event["key"]]["outputs"][0])
        assert (a.dtype, r.dtype) == (np.float32, np.float64)
        assert np.abs(a - r).max() < 1e-5


def test_fingerprints_need_no_tensor_and_small_runs_give_the_same(trace):
    whole = trace("cnn", {"image": IMAGE}, select=None, fingerprints=True)
    pieces = trace("cnn", {"image": IMAGE}, select=None, fingerprints=True, budget=1)
    assert whole["bytes"] == 0
    for event, other in zip(whole["events"], pieces["events"], strict=True):
        for a, b in zip(event["outputs"], other["outputs"], strict=True):
            assert a is None or ("print" in a) == bool(event["inputs"])
            if a and event["inputs"]:
                assert b["print"] == pytest.approx(a["print"], rel=1e-4, abs=1e-4)


def test_what_is_selected_is_saved_and_nothing_else(trace, ask):
    events = trace("affine", {"x": X})["events"]
    key = data({"events": events})[0]["key"]
    saved = trace("affine", {"x": X}, select=[key])["events"]
    assert [event["key"] for event in saved if "file" in (event["outputs"][0] or {})] == [key]
    outcome = ask("trace", "affine", sample={"x": X}, select=[key], budget=3)
    assert outcome.status == "failed" and "more than 3 bytes" in outcome.reason


def test_moved_inputs_move_the_values_a_little(trace, pool):
    plain, moved = (data(trace("affine", {"x": X}, perturb=seed)) for seed in (None, 1))
    a, b = (pool.get(events[0]["outputs"][0]) for events in (plain, moved))
    assert 0 < np.abs(a - b).max() < 1e-5


def test_a_graph_that_writes_to_its_variables_is_not_traced(ask):
    outcome = ask("trace", "Counter", sample={"x": np.ones((2, 4), np.float32)}, select="all")
    assert outcome.status == "unsupported" and "one graph without variables" in outcome.reason
