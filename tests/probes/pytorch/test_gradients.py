"""pytorch.gradients against gradients worked out by hand in double precision."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parents[3] / "fixtures" / "gradients"
MODELS = FOLDER / "torch_models.py"
SPEC = importlib.util.spec_from_file_location("by_hand", FOLDER / "by_hand.py")
by_hand = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(by_hand)

X = by_hand.beside("gradient_weights").inputs("mlp")
W = by_hand.projection((4, 3))
NAMES = {
    "parameter:first.weight": "w1",
    "parameter:first.bias": "b1",
    "parameter:second.weight": "w2",
    "parameter:second.bias": "b2",
    "parameter:last.weight": "w3",
    "parameter:last.bias": "b3",
    "input:x": "x",
}


@pytest.fixture
def gradients(job, spec, sample, session, arrays):
    """The result of the job on one sample, with arrays for references."""

    def call(name, projection, attribute_of=MODELS, model=None, **options):
        values = {key: options.pop(key) for key in list(options) if key in {"x", "ids", "scale"}}
        wired = {**sample(**values), "projection": {key: session.put(each) for key, each in projection.items()}}
        result = job("gradients", model=model or spec(name, attribute_of), inputs=[wired], **options)
        (row,) = result["runs"]
        for key in ("outputs", "repeat", "oracle"):
            row[key] = None if row[key] is None else arrays(row[key])
        row["perturbed"] = [arrays(draw) for draw in row["perturbed"]]
        return result, row

    return call


def test_the_gradients_of_an_mlp_are_those_worked_out_by_hand(gradients):
    result, row = gradients("make_mlp", {"output": W}, x=X, gradcheck=True)
    expected, scalar = by_hand.mlp_gradients(X, W)
    assert row["error"] is None and set(row["outputs"]) == set(NAMES)
    assert row["scalar"] == pytest.approx(scalar, rel=1e-6)
    for key, name in NAMES.items():
        np.testing.assert_allclose(row["outputs"][key], expected[name], rtol=1e-5, atol=1e-6)
        assert row["oracle"][key].dtype == np.float64
        np.testing.assert_allclose(row["oracle"][key], expected[name], rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(row["outputs"][key], row["repeat"][key])
    moved = [np.abs(draw["input:x"] - row["outputs"]["input:x"]).max() for draw in row["perturbed"]]
    assert len(moved) == 3 and all(0 < each < 1e-5 for each in moved)
    assert (row["missing"], row["by_nature"], row["dense"], row["perturbed_by"]) == ({}, [], [], "inputs")
    assert {each["status"] for each in result["gradcheck"]["checks"]} == {"ok"}
    assert len(result["gradcheck"]["checks"]) == 7


def test_gradcheck_finds_a_wrong_backward_and_the_oracle_keeps_it(gradients):
    result, row = gradients("make_mlp_wrong", {"output": W}, x=X, gradcheck=True)
    status = {each["tensor"]: each["status"] for each in result["gradcheck"]["checks"]}
    wrong = {"input:x", "parameter:first.weight", "parameter:first.bias"}
    assert {name for name, each in status.items() if each == "differs"} == wrong
    assert {each for name, each in status.items() if name not in wrong} == {"ok"}
    for key, each in row["outputs"].items():  # the oracle is of the gradient as written, or the floor would hide it
        np.testing.assert_allclose(row["oracle"][key], each, rtol=1e-4, atol=1e-5)


def test_gradcheck_tells_a_gradient_cut_on_purpose_from_a_wrong_one(gradients):
    result, row = gradients("make_mlp_scaled", {"output": W}, x=X, gradcheck=True)
    checks = {each["tensor"]: each for each in result["gradcheck"]["checks"]}
    assert checks["parameter:first.weight"]["status"] == "cut"
    assert "detached (detach at " in checks["parameter:first.weight"]["reason"]
    assert checks["parameter:second.weight"]["status"] == "ok"
    expected, _ = by_hand.mlp_gradients(X, W)
    np.testing.assert_allclose(row["outputs"]["parameter:first.bias"], 1.01 * expected["b1"], rtol=1e-4)


def test_a_detached_branch_leaves_gradients_missing_with_the_line(gradients):
    _, row = gradients("make_mlp_cut", {"output": W}, x=X)
    assert set(row["missing"]) == {"input:x", "parameter:first.weight", "parameter:first.bias"}
    line = next(n for n, text in enumerate(MODELS.read_text().splitlines(), 1) if text.strip() == "h = h.detach()")
    assert {each.partition(" at ")[0] for each in row["missing"].values()} == {"detached (detach"}
    assert all(each.endswith(f"torch_models.py:{line})") for each in row["missing"].values())


def test_every_reason_for_a_missing_gradient_is_named(gradients):
    result, row = gradients("Reasons", {"output": np.ones((2, 3), np.float32)}, x=np.ones((2, 3), np.float32) / 3)
    begins = {
        "detached": "detached (detach at",
        "by_data": "detached (data at",
        "no_grad": "computed without gradients, under no_grad or inference_mode (mul at",
        "counted": "only its integers or truth values go on (argmax at",
        "python": "it leaves torch as a Python value (",
        "dead": "no output depends on it",
        "untouched": "forward does not use it",
        "swallowed": "it is connected, but a backward function returns None for it",
    }
    assert set(row["missing"]) == {f"parameter:{name}" for name in begins}
    for name, text in begins.items():
        assert row["missing"][f"parameter:{name}"].startswith(text), name
    assert set(row["outputs"]) == {"input:x", "parameter:used"}
    frozen = next(each for each in result["parameters"] if each["names"] == ["frozen"])
    assert frozen["trainable"] is False


def test_a_parameter_with_two_names_and_a_state_that_forward_changes(gradients):
    """The gradient of a tied matrix is the sum of both uses, and every run starts from the same counter."""
    ids = np.array([[1, 4, 4]])
    table = by_hand.beside("gradient_weights").attention()["table"].astype(np.float64)
    weight = by_hand.projection((1, 3, 11))
    result, row = gradients("Tied", {"output": weight}, ids=ids, gradcheck=True)
    assert [each["names"] for each in result["parameters"]] == [["embedding.weight", "head.weight"]]
    assert result["state_changed"] == ["steps"]
    g = 2 * weight.astype(np.float64)
    expected = np.einsum("blo,bld->od", g, table[ids])
    np.add.at(expected, ids, g @ table)
    np.testing.assert_allclose(row["outputs"]["parameter:embedding.weight"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        row["outputs"]["parameter:embedding.weight"], row["repeat"]["parameter:embedding.weight"]
    )
    assert row["by_nature"] == ["input:ids"] and row["perturbed_by"] == "weights"
    assert [each["status"] for each in result["gradcheck"]["checks"]] == ["ok"]


def test_a_sparse_gradient_is_made_dense_and_says_so(gradients):
    ids, weight = np.array([[1, 4, 4]]), by_hand.projection((1, 3, 8))
    result, row = gradients("Sparse", {"0": weight}, ids=ids, scale=np.float32(2.0).reshape(()), gradcheck=True)
    expected = np.zeros((11, 8))
    np.add.at(expected, ids, 2.0 * weight.astype(np.float64))
    np.testing.assert_allclose(row["outputs"]["parameter:embedding.weight"], expected, rtol=1e-6)
    assert row["dense"] == ["parameter:embedding.weight"]
    assert {each["status"] for each in result["gradcheck"]["checks"]} == {"ok"}


def test_half_and_bfloat16_gradients_keep_their_dtype_and_have_an_oracle(gradients, job, spec, sample, session):
    _, row = gradients("make_narrow", {"output": W}, x=X)
    assert row["error"] is None and row["oracle"] is not None, row["oracle_reason"]
    wired = {**sample(x=X), "projection": {"output": session.put(W)}}
    (raw,) = job("gradients", model=spec("make_narrow", MODELS), inputs=[wired])["runs"]
    assert raw["outputs"]["parameter:brain.weight"]["logical"] == "bfloat16"
    assert raw["outputs"]["parameter:narrow.weight"]["dtype"] == "float16"
    gap = np.abs(row["oracle"]["parameter:narrow.weight"] - row["outputs"]["parameter:narrow.weight"]).max()
    assert 0 < gap < 0.1


def test_complex_gradients_come_as_two_real_ones(gradients):
    x, weight = X[:, :4], by_hand.projection((4, 4))
    result, row = gradients("Complex", {"output": weight}, x=x, gradcheck=True)
    numeric = {}
    filter_ = np.arange(1.0, 4.0) + 1j * np.array([0.5, -1.0, 2.0])
    for part, unit in (("real", 1), ("imag", 1j)):
        numeric[part] = [(weight * np.fft.irfft(np.fft.rfft(x) * (unit * np.eye(3)[k]), n=4)).sum() for k in range(3)]
    for part, expected in numeric.items():  # the function is linear in the filter
        np.testing.assert_allclose(row["outputs"][f"parameter:filter.{part}"], expected, rtol=1e-4, atol=1e-5)
    assert filter_.shape == (3,)
    assert {each["status"] for each in result["gradcheck"]["checks"]} == {"ok"}


def test_a_projection_that_does_not_fit_is_an_error_of_the_row(gradients):
    _, row = gradients("make_mlp", {"output": W[:2]}, x=X)
    assert "output output has the shape [4, 3], its weights in the projection [2, 3]" in row["error"]["message"]
    _, row = gradients("make_mlp", {"other": W}, x=X)
    assert "has no weights in the projection (other)" in row["error"]["message"]


class Affine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)
        self.spare = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.linear(x)


@pytest.mark.parametrize("kind", ["torchscript", "exported_program"])
def test_a_script_and_an_exported_program_have_gradients_too(gradients, script, file_spec, tmp_path, kind):
    module = Affine().eval()
    path = script(module) if kind == "torchscript" else tmp_path / "model.pt2"
    if kind == "exported_program":
        torch.export.save(torch.export.export(module, (torch.from_numpy(X),)), path)
    _, row = gradients("", {"0": W}, model=file_spec(kind, path), x=X)
    assert row["error"] is None
    np.testing.assert_allclose(row["outputs"]["parameter:linear.weight"], W.T @ X, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(row["oracle"]["parameter:linear.bias"], W.astype(np.float64).sum(0), rtol=1e-13)
    assert set(row["missing"]) <= {"parameter:spare"}
    assert all(reason for reason in row["missing"].values())
