"""tensorflow.gradients against gradients worked out by hand in double precision."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[3] / "fixtures" / "gradients"
MODELS = FOLDER / "keras_models.py"
SPEC = importlib.util.spec_from_file_location("by_hand", FOLDER / "by_hand.py")
by_hand = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(by_hand)

X = by_hand.beside("gradient_weights").inputs("mlp")
W = by_hand.projection((4, 3))
NAMES = {
    **{f"parameter:{layer}/kernel": f"w{n}" for n, layer in enumerate(("first", "second", "last"), 1)},
    **{f"parameter:{layer}/bias": f"b{n}" for n, layer in enumerate(("first", "second", "last"), 1)},
    "input:x": "x",
}


@pytest.fixture
def gradients(pool):
    """The result of the job on one sample, with arrays for references."""

    def call(name, weight, values, **options):
        arrays = {key: pool.put(value) for key, value in values.items()}
        wired = {"name": "s", "arrays": arrays, "projection": {"0": pool.put(weight)}}
        model = {"format": "python_object", "path": str(MODELS), "module": None, "attribute": name, "code": []}
        outcome = pool.run("tensorflow", "tensorflow.gradients", {"model": model, "inputs": [wired], **options})
        assert outcome.status == "ok", (outcome.reason, outcome.error)
        (row,) = outcome.result["runs"]
        row["references"] = row["outputs"]
        for key in ("outputs", "repeat", "oracle"):
            row[key] = None if row[key] is None else {k: np.array(pool.get(each)) for k, each in row[key].items()}
        row["perturbed"] = [{k: np.array(pool.get(each)) for k, each in draw.items()} for draw in row["perturbed"]]
        return outcome.result, row

    return call


def statuses(result):
    return {each["tensor"]: each["status"] for each in result["gradcheck"]["checks"]}


def test_the_gradients_of_an_mlp_are_those_worked_out_by_hand(gradients):
    result, row = gradients("make_mlp", W, {"x": X}, gradcheck=True)
    expected, scalar = by_hand.mlp_gradients(X, W)
    assert row["error"] is None and set(row["outputs"]) == set(NAMES)
    assert row["scalar"] == pytest.approx(scalar, rel=1e-6)
    assert row["oracle"] is not None, row["oracle_reason"]
    for key, name in NAMES.items():
        aim = expected[name].T if key.endswith("kernel") else expected[name]
        np.testing.assert_allclose(row["outputs"][key], aim, rtol=1e-5, atol=1e-6)
        assert row["oracle"][key].dtype == np.float64
        np.testing.assert_allclose(row["oracle"][key], aim, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(row["outputs"][key], row["repeat"][key])
    moved = [np.abs(draw["input:x"] - row["outputs"]["input:x"]).max() for draw in row["perturbed"]]
    assert len(moved) == 3 and all(0 < each < 1e-5 for each in moved)
    assert (row["missing"], row["by_nature"], row["perturbed_by"]) == ({}, [], "inputs")
    assert len(statuses(result)) == 7 and set(statuses(result).values()) == {"ok"}
    assert {each["names"][0] for each in result["parameters"]} == {k[10:] for k in NAMES if k != "input:x"}


def test_gradcheck_finds_a_wrong_custom_gradient_and_the_oracle_keeps_it(gradients):
    result, row = gradients("make_mlp_wrong", W, {"x": X}, gradcheck=True)
    wrong = {"input:x", "parameter:first/kernel", "parameter:first/bias"}
    assert {name for name, each in statuses(result).items() if each == "differs"} == wrong
    assert {each for name, each in statuses(result).items() if name not in wrong} == {"ok"}
    for key, each in row["outputs"].items():
        np.testing.assert_allclose(row["oracle"][key], each, rtol=1e-4, atol=1e-5)


def test_a_custom_gradient_in_a_graph_has_no_oracle_and_is_checked_all_the_same(gradients):
    weight = by_hand.projection((4, 8))
    result, row = gradients("make_scaled", weight, {"x": X}, gradcheck=True)
    assert "custom gradient" in row["oracle_reason"] and row["oracle"] is None
    assert set(statuses(result).values()) == {"differs"}
    (check,) = [each for each in result["gradcheck"]["checks"] if each["tensor"] == "parameter:w:0"]
    assert check["analytic"] / check["numeric"] == pytest.approx(1.01, rel=1e-3)
    result, row = gradients("make_plain", weight, {"x": X}, gradcheck=True)
    w = by_hand.beside("gradient_weights").mlp()["w1"].T.astype(np.float64)
    x = X.astype(np.float64)
    expected = x.T @ (weight * (1 - np.tanh(x @ w) ** 2))
    np.testing.assert_allclose(row["oracle"]["parameter:w:0"], expected, rtol=1e-12)
    assert set(statuses(result).values()) == {"ok"}


def test_a_scaled_gradient_is_cut_on_purpose_somewhere(gradients):
    result, row = gradients("make_mlp_scaled", W, {"x": X}, gradcheck=True)
    assert statuses(result)["parameter:first/kernel"] == "cut"
    assert statuses(result)["parameter:second/kernel"] == "ok"
    expected, _ = by_hand.mlp_gradients(X, W)
    np.testing.assert_allclose(row["outputs"]["parameter:first/bias"], 1.01 * expected["b1"], rtol=1e-4)


def test_stop_gradient_leaves_gradients_missing_with_the_operator(gradients):
    _, row = gradients("make_mlp_cut", W, {"x": X})
    assert set(row["missing"]) == {"input:x", "parameter:first/kernel", "parameter:first/bias"}
    assert all(each.startswith("held back by tf.stop_gradient (") for each in row["missing"].values())


def test_an_unused_bias_is_missing(gradients):
    _, row = gradients("make_mlp_unused", W, {"x": X})
    assert row["missing"] == {"parameter:last/bias": "the model does not use it"}


def test_every_reason_for_a_missing_gradient_is_named_and_the_state_is_put_back(gradients):
    x = np.full((2, 3), 0.25, np.float32)
    result, row = gradients("Reasons", np.ones((2, 3), np.float32), {"x": x})
    begins = {
        "stopped": "held back by tf.stop_gradient (",
        "counted": "ArgMax has no derivative (",
        "rounded": "Round has no derivative (",
        "dead": "no output depends on it",
        "untouched": "the model does not use it",
        "python": "it leaves TensorFlow (",
    }
    assert {
        key: row["missing"][f"parameter:{key}:0"].startswith(text) for key, text in begins.items()
    } == dict.fromkeys(begins, True), row["missing"]
    assert set(row["missing"]) == {f"parameter:{name}:0" for name in begins}
    np.testing.assert_allclose(row["outputs"]["parameter:used:0"], x.sum(0))  # the first call, not the third
    np.testing.assert_array_equal(row["repeat"]["parameter:used:0"], row["outputs"]["parameter:used:0"])
    assert result["state_changed"] == ["calls:0"]


def test_the_sparse_gradient_of_an_embedding_is_made_dense_and_says_so(gradients):
    ids = by_hand.beside("gradient_weights").inputs("attention")
    result, row = gradients("make_attention", by_hand.projection((3, 6, 4)), {"ids": ids}, gradcheck=True)
    assert row["by_nature"] == ["input:ids"] and row["perturbed_by"] == "weights"
    assert row["dense"] == ["parameter:embedding/embeddings"]
    assert row["outputs"]["parameter:embedding/embeddings"].shape == (11, 8)
    assert row["oracle"] is not None, row["oracle_reason"]
    assert set(statuses(result).values()) == {"ok"}


@pytest.mark.parametrize(("name", "shape"), [("cnn", (3, 3)), ("gru", (3, 6, 2))])
def test_loops_and_convolutions_have_an_oracle(gradients, name, shape):
    x = by_hand.beside("gradient_weights").inputs(name)
    result, row = gradients(f"make_{name}", by_hand.projection(shape), {"x": x}, gradcheck=True)
    assert row["oracle"] is not None, row["oracle_reason"]
    for key, each in row["outputs"].items():
        np.testing.assert_allclose(each, row["oracle"][key], rtol=1e-4, atol=1e-5)
    assert set(statuses(result).values()) == {"ok"}


def test_complex_gradients_come_as_two_real_ones(gradients):
    x, weight = X[:, :4], by_hand.projection((4, 4))
    _, row = gradients("Complex", weight, {"x": x})
    for part, unit in (("real", 1), ("imag", 1j)):  # the function is linear in the filter
        expected = [(weight * np.fft.irfft(np.fft.rfft(x) * (unit * np.eye(3)[k]), n=4)).sum() for k in range(3)]
        np.testing.assert_allclose(row["outputs"][f"parameter:filter:0.{part}"], expected, rtol=1e-4, atol=1e-5)


def test_half_and_bfloat16_gradients_keep_their_dtype_and_have_an_oracle(gradients):
    _, row = gradients("Narrow", W, {"x": X})
    assert row["references"]["parameter:brain:0"]["logical"] == "bfloat16"
    assert row["references"]["parameter:half:0"]["dtype"] == "float16"
    assert row["oracle"] is not None, row["oracle_reason"]
    assert np.abs(row["oracle"]["parameter:half:0"] - row["outputs"]["parameter:half:0"]).max() < 0.1


def test_a_ragged_output_is_an_error_of_the_row(gradients):
    _, row = gradients("Ragged", W, {"x": X})
    assert "ragged" in row["error"]["message"]
