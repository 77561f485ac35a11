"""What the TensorFlow worker says of models, and what they compute: against arithmetic done here."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.array([0.5, -0.25, 0.125], np.float32)
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


def test_hello(pool):
    hello = pool.hello("tensorflow")
    assert hello.status == "ok", hello.reason
    assert hello.result["framework"] == "tensorflow"
    assert [device["kind"] for device in hello.result["devices"]] == ["cpu"]
    assert {"keras", "tf2onnx", "numpy"} <= set(hello.result["packages"])


def test_a_signature_is_described(ask):
    described = ask("describe", "affine").result
    assert described["arguments"] == [
        {"name": "x", "required": True, "annotation": "", "dtype": "float32", "shape": [None, 4]}
    ]
    assert {tuple(each["shape"]) for each in described["parameters"]} == {(4, 3), (3,)}


def test_a_keras_model_is_described(ask):
    described = ask("describe", "cnn").result
    assert [(a["name"], a["shape"]) for a in described["arguments"]] == [("image", [None, 17, 19, 3])]
    assert described["class"] == "Sequential" and "Conv2D" in described["classes"]
    assert sum(
        np.prod(each["shape"]) for each in described["parameters"] if "kernel" in each["name"]
    ) == 3 * 3 * 3 * 7 + (4 * 5 * 7 * 5)
    assert any(path.endswith("models.py") for path in described["source_files"])


def test_the_arguments_of_a_class_of_its_own_come_from_its_code(ask, pool):
    described = ask("describe", "two").result
    assert [each["name"] for each in described["arguments"]] == ["x", "y"]
    assert pool.get(described["samples"][0]["arrays"]["x"]).shape == (3, 5)


def test_a_saved_model_computes_what_arithmetic_says(ask, pool):
    run = ask("run", "affine", {"a": {"x": X}}).result["runs"][0]
    np.testing.assert_allclose(pool.get(run["outputs"]["y"]), X @ W + B, rtol=1e-6)
    np.testing.assert_allclose(pool.get(run["outputs"]["total"]), X.sum(-1), rtol=1e-6)
    oracle = pool.get(run["oracle"]["y"])
    assert oracle.dtype == np.float64
    np.testing.assert_allclose(oracle, X.astype(np.float64) @ W.astype(np.float64) + B, rtol=1e-14)
    assert run["perturbed_by"] == "inputs" and len(run["perturbed"]) == 3
    moved = [pool.get(draw["y"]) for draw in run["perturbed"]]
    assert all(0 < abs(each - pool.get(run["outputs"]["y"])).max() < 1e-5 for each in moved)


def test_captured_constants_and_fused_batch_norm_have_an_oracle(ask, pool):
    x = np.random.default_rng(2).normal(size=(3, 2, 2, 3)).astype(np.float32)
    run = ask("run", "Constant", {"a": {"x": x}}).result["runs"][0]
    mean, variance, scale = (
        np.array(v, np.float32).astype(np.float64) for v in ([0.1, 0.2, 0.3], [1, 4, 0.5], [0.5, 2, 3])
    )
    normal = (x - mean) / np.sqrt(variance + np.float64(np.float32(1e-3))) * scale + mean
    table = (np.arange(1200, dtype=np.float32).reshape(4, 300) / 1201).astype(np.float64)
    np.testing.assert_allclose(pool.get(run["oracle"]["y"]), normal.reshape(3, 12)[:, :4] @ table, rtol=1e-12)


@pytest.mark.parametrize("name", ["cnn", "recurrent", "dense.keras", "dense.h5", "two"])
def test_keras_models_have_an_oracle_near_their_result(ask, pool, name):
    shapes = {
        "cnn": {"image": (2, 17, 19, 3)},
        "recurrent": {"tokens": (2, 5, 6)},
        "two": {"x": (3, 5), "y": (3, 6)},
    }.get(name, {"features": (4, 3)})
    numbers = np.random.default_rng(3)
    inputs = {key: numbers.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    result = ask("run", name, {"a": inputs}).result
    run = result["runs"][0]
    assert run["oracle"] is not None, run["oracle_reason"]
    for output, reference in run["outputs"].items():
        oracle = pool.get(run["oracle"][output])
        assert oracle.dtype == np.float64
        assert 0 <= abs(oracle - pool.get(reference)).max() < 1e-5
        np.testing.assert_array_equal(pool.get(run["repeat"][output]), pool.get(reference))
    assert result["state_changed"] == []


def test_an_operator_without_a_double_kernel_leaves_no_oracle_and_a_reason(ask):
    image = np.random.default_rng(0).random((2, 8, 8, 3), dtype=np.float32)
    run = ask("run", "bicubic", {"a": {"image": image}}).result["runs"][0]
    assert run["oracle"] is None and "ResizeBicubic" in run["oracle_reason"] and run["outputs"]


def test_dropout_that_stays_on_shows_in_the_repeat(ask, pool):
    x = np.ones((3, 5), np.float32) / 3
    run = ask("run", "dropped", {"a": {"x": x}}, oracle=False, perturbations=0).result["runs"][0]
    assert (pool.get(run["outputs"]["output"]) != pool.get(run["repeat"]["output"])).any()


def test_state_is_named_and_put_back(ask, pool):
    result = ask("run", "Counter", {"a": {"x": X}, "b": {"x": X}}, oracle=False).result
    assert result["state_changed"] == ["count:0"]
    for run in result["runs"]:
        np.testing.assert_array_equal(pool.get(run["outputs"]["output"]), X)  # the count is 1 in each call


def test_a_function_with_integers_moves_no_ids(ask, pool):
    ids = np.array([1, 4, 2], np.int32)
    run = ask("run", "pick", {"a": {"table": X, "ids": ids}}).result["runs"][0]
    np.testing.assert_array_equal(pool.get(run["outputs"]["output"]), X[ids])


def test_inputs_that_do_not_fit_are_data(ask):
    run = ask("run", "affine", {"a": {"x": X[:, :3]}, "b": {"z": X}, "c": {"x": X}}).result["runs"]
    assert [bool(each["error"]) for each in run] == [True, True, False]
    assert "it has no argument z" in run[1]["error"]["message"]
    accepted = ask("accepts", "affine", {"a": {"x": X[:, :3]}, "c": {"x": X}}).result["accepted"]
    assert accepted["c"] is True and isinstance(accepted["a"], str)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("number", "returns a int, not a Keras model, a tf.Module or a tf.function"),
        ("needs", "needs arguments: width"),
        ("gone", "has no 'gone'; it has"),
        ("lambda.h5", "stores code, and loading it would run it: bytecode of a lambda"),
        ("lambda.keras", "cannot be loaded"),  # Keras's own guard, should the file ever get so far
        ("reads_files", "takes text"),
    ],
)
def test_what_is_no_model_is_said(ask, name, words):
    outcome = ask("describe", name)
    assert outcome.status == "failed" and words in outcome.reason, outcome.reason
    assert outcome.error["details"]["remedy"]


@pytest.mark.parametrize("name", ["lambda.keras", "lambda.h5"])
def test_a_lambda_runs_when_it_is_trusted(ask, name):
    x = np.ones((2, 3), np.float32)
    described = ask("describe", name, trust=True).result
    run = ask("run", name, {"a": {described["arguments"][0]["name"]: x}}, trust=True).result["runs"][0]
    assert run["outputs"] and run["error"] is None


def test_export_keeps_names_and_open_sizes(ask, pool):
    tokens = np.random.default_rng(0).random((2, 5, 6), dtype=np.float32)
    path = pool.folder / "recurrent.onnx"
    done = ask(
        "export",
        "recurrent",
        sample={"tokens": tokens},
        route="tf2onnx",
        dynamic={"tokens": {"0": "batch", "1": "time"}},
        opset=17,
        path=str(path),
    ).result
    assert (done["input_names"], sorted(done["file_output_names"])) == (["tokens"], ["logits", "score"])
    assert (
        done["opset_written"] == 17
        and done["dynamic_lost"] == {}
        and set(done["dynamic_written"]["tokens"]) == {"0", "1"}
    )


def test_an_opset_that_the_converter_does_not_write(ask, pool):
    path = str(pool.folder / "no.onnx")
    outcome = ask("export", "affine", sample={"x": X}, route="tf2onnx", dynamic={}, opset=23, path=path)
    assert outcome.status == "failed" and "tf2onnx does not write opset 23" in outcome.reason, outcome.reason


def export(ask, pool, name, dynamic=None):
    path = str(pool.folder / f"{name}.onnx")
    return ask("export", name, sample={"x": X}, route="tf2onnx", dynamic=dynamic or {}, opset=18, path=path)


def test_python_branches_become_part_of_the_graph(ask, pool):
    done = export(ask, pool, "Branch")
    assert done.status == "ok", done.reason


def test_a_detour_over_numpy_is_explained_with_the_line(ask, pool):
    failed = export(ask, pool, "Leaves")
    assert failed.status == "failed" and "leaves TensorFlow for NumPy" in failed.reason, failed.reason
    source = failed.error["details"]["source"]
    assert source["path"].endswith("models.py") and "x.numpy()" in source["text"]


def test_what_a_layer_refuses_is_said_in_one_line(ask):
    run = ask("run", "dense.keras", {"a": {"features": np.ones((2, 5), np.float32)}}).result["runs"][0]
    assert "Arguments received" not in run["error"]["message"] and "\n" not in run["error"]["message"]
    assert "features" in run["error"]["message"] or "shape" in run["error"]["message"]


def test_an_export_leaves_a_model_as_it_was(ask, pool):
    """It runs the model once to learn its outputs; a later job, and the file, hold the first state all the same."""
    assert export(ask, pool, "Counter").status == "failed"
    (run,) = ask("run", "Counter", {"a": {"x": X}}, oracle=False).result["runs"]
    np.testing.assert_array_equal(pool.get(run["outputs"]["output"]), X)
