"""jax.gradients against gradients worked out by hand in double precision."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[3] / "fixtures" / "gradients"
MODELS = FOLDER / "flax_models.py"
SPEC = importlib.util.spec_from_file_location("by_hand", FOLDER / "by_hand.py")
by_hand = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(by_hand)

X = by_hand.beside("gradient_weights").inputs("mlp")
W = by_hand.projection((4, 3))
NAMES = {
    **{f"parameter:params/{layer}/kernel": f"w{n}" for n, layer in enumerate(("first", "second", "last"), 1)},
    **{f"parameter:params/{layer}/bias": f"b{n}" for n, layer in enumerate(("first", "second", "last"), 1)},
    "input:x": "x",
}


@pytest.fixture
def gradients(pool, sample):
    """The result of the job on one sample, with arrays for references."""

    def call(name, weight, values, **options):
        wired = {**sample(**values), "projection": {"output": pool.put(weight)}}
        model = {"format": "python_object", "path": str(MODELS), "module": None, "attribute": name, "code": []}
        outcome = pool.run("jax", "jax.gradients", {"model": model, "inputs": [wired], **options})
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


def test_gradcheck_finds_a_wrong_custom_vjp_and_the_oracle_keeps_it(gradients):
    result, row = gradients("make_mlp_wrong", W, {"x": X}, gradcheck=True)
    wrong = {"input:x", "parameter:params/first/kernel", "parameter:params/first/bias"}
    assert {name for name, each in statuses(result).items() if each == "differs"} == wrong
    assert {each for name, each in statuses(result).items() if name not in wrong} == {"ok"}
    for key, each in row["outputs"].items():
        np.testing.assert_allclose(row["oracle"][key], each, rtol=1e-4, atol=1e-5)


def test_a_scaled_gradient_is_cut_on_purpose_somewhere(gradients):
    result, row = gradients("make_mlp_scaled", W, {"x": X}, gradcheck=True)
    assert statuses(result)["parameter:params/first/kernel"] == "cut"
    assert statuses(result)["parameter:params/second/kernel"] == "ok"
    expected, _ = by_hand.mlp_gradients(X, W)
    np.testing.assert_allclose(row["outputs"]["parameter:params/first/bias"], 1.01 * expected["b1"], rtol=1e-4)


def test_stop_gradient_leaves_gradients_missing_with_the_line(gradients):
    _, row = gradients("make_mlp_cut", W, {"x": X})
    assert set(row["missing"]) == {"input:x", "parameter:params/first/kernel", "parameter:params/first/bias"}
    lines = MODELS.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.strip() == "h = jax.lax.stop_gradient(h)")
    assert set(row["missing"].values()) == {f"held back by stop_gradient at {MODELS}:{line}"}


def test_every_reason_for_a_missing_gradient_is_named_and_zeros_are_not_missing(gradients):
    _, row = gradients("make_reasons", np.ones((2, 3), np.float32), {"x": np.full((2, 3), 0.25, np.float32)})
    begins = {
        "stopped": "held back by stop_gradient at",
        "counted": "only its integers or truth values go on (argmax at",
        "rounded": "round has no derivative at",
        "dead": "no output depends on it",
        "untouched": "the function does not use it",
        "looped": "held back by stop_gradient at",
    }
    assert set(row["missing"]) == {f"parameter:params/{name}" for name in begins}
    for name, text in begins.items():
        assert row["missing"][f"parameter:params/{name}"].startswith(text), name
    np.testing.assert_array_equal(row["outputs"]["parameter:params/zero"], np.zeros(3))


def test_an_embedding_with_attention_has_an_oracle_and_no_gradient_for_its_ids(gradients):
    ids = by_hand.beside("gradient_weights").inputs("attention")
    result, row = gradients("make_attention", by_hand.projection((3, 6, 4)), {"ids": ids}, gradcheck=True)
    assert row["by_nature"] == ["input:ids"] and row["perturbed_by"] == "weights"
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


def test_complex_gradients_have_pytorchs_sign(gradients):
    x, weight = X[:, :4], by_hand.projection((4, 4))
    result, row = gradients("make_complex", weight, {"x": x}, gradcheck=True)
    for part, unit in (("real", 1), ("imag", 1j)):  # the function is linear in the filter
        expected = [(weight * np.fft.irfft(np.fft.rfft(x) * (unit * np.eye(3)[k]), n=4)).sum() for k in range(3)]
        np.testing.assert_allclose(row["outputs"][f"parameter:params/filter.{part}"], expected, rtol=1e-4, atol=1e-5)
    assert set(statuses(result).values()) == {"ok"}


def test_half_and_bfloat16_gradients_keep_their_dtype_and_have_an_oracle(gradients):
    _, row = gradients("make_narrow", W, {"x": X})
    assert row["references"]["parameter:params/brain"]["logical"] == "bfloat16"
    assert row["references"]["parameter:params/half"]["dtype"] == "float16"
    assert row["oracle"] is not None, row["oracle_reason"]
    assert np.abs(row["oracle"]["parameter:params/half"] - row["outputs"]["parameter:params/half"]).max() < 0.1


def test_a_while_loop_is_an_error_of_the_row(gradients):
    _, row = gradients("make_loop", np.ones((2, 3), np.float32), {"x": np.ones((2, 3), np.float32)}, gradcheck=True)
    assert "Reverse-mode differentiation does not work for lax.while_loop" in row["error"]["message"]


def test_what_cannot_be_traced_is_differentiated_operation_by_operation(gradients):
    x = np.full((2, 3), 0.5, np.float32)
    result, row = gradients(
        "make_untraceable", np.ones((2, 3), np.float32), {"x": x, "ids": np.ones(2, np.int32)}, gradcheck=True
    )
    np.testing.assert_allclose(row["outputs"]["parameter:params/w"], x.sum(0))
    assert row["oracle_reason"] == "the function cannot be traced" == result["gradcheck"]["reason"]
    assert row["jit_error"]["type"] == "ConcretizationTypeError"


def test_a_serialized_program_without_a_gradient_says_so(pool, sample):
    path = FOLDER.parent / "jax" / "program.bin"
    model = {"format": "jax_export", "path": str(path), "module": None, "attribute": None, "code": []}
    wired = {**sample(args_0=np.ones((3, 8), np.float32)), "projection": {"0": pool.put(np.ones((3, 4), np.float32))}}
    (row,) = pool.run("jax", "jax.gradients", {"model": model, "inputs": [wired]}).result["runs"]
    assert "exported without one (serialize(vjp_order=1))" in row["error"]["message"]
