"""jax.export by jax2onnx: what is written, and why what fails does."""

import numpy as np
import onnx
import onnx.reference
import pytest

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
WEIGHT = (np.arange(32, dtype=np.float32).reshape(8, 4) - 15) / 16
BIAS = np.array([0.1, -0.2, 0.3, -0.4], np.float32)


@pytest.fixture
def convert(pool, attempt, tmp_path):
    if "jax2onnx" not in pool.hello("jax").result["packages"]:
        pytest.skip("jax2onnx is not installed beside JAX")

    def make(name, sample, *more, **params):
        given = {"route": "jax2onnx", "dynamic": {}, "opset": None, "path": str(tmp_path / "model.onnx"), **params}
        return attempt("export", name, *more, inputs=sample, **given)

    return make


def test_the_file_has_the_names_the_opset_and_the_dynamic_batch(convert, sample):
    outcome = convert("make_mlp", sample(x=X), dynamic={"x": {"0": "batch"}}, opset=20)
    result = outcome.result
    assert (result["opset_requested"], result["opset_written"]) == (20, 20)
    assert (result["input_names"], result["file_output_names"]) == (["x"], ["output"])
    assert result["dynamic_written"] == {"x": {"0": "batch"}} and result["dynamic_lost"] == {}
    assert result["exporter"].startswith("jax2onnx ")
    session = onnx.reference.ReferenceEvaluator(result["path"])
    (output,) = session.run(None, {"x": np.concatenate([X, X])})
    assert np.abs(output[3:] - np.tanh(X @ WEIGHT + BIAS)).max() < 1e-6


def test_results_in_a_dict_keep_their_names(convert, sample):
    result = convert("make_function", sample(x=X)).result
    assert result["file_output_names"] == ["output.logits", "output.sum"]
    output = dict(
        zip(
            result["file_output_names"],
            onnx.reference.ReferenceEvaluator(result["path"]).run(None, {"x": X}),
            strict=True,
        )
    )
    assert np.abs(output["output.sum"] - (X @ WEIGHT).sum(-1)).max() < 1e-5


def test_containers_and_numbers(convert, sample):
    result = convert("make_nested", sample(pair__0=X, pair__1=2 * X, table__b=3 * X, table__a=X)).result
    assert result["input_names"] == ["pair.0", "pair.1", "table.b", "table.a"]
    result = convert("make_scaled", sample(x=X, scale=2.0, power=2)).result
    (output,) = onnx.reference.ReferenceEvaluator(result["path"]).run(None, {"x": X})
    assert np.allclose(output, (2 * X) ** 2)


def test_a_module_is_exported_in_the_mode_that_it_was_handed_over_in(convert, sample):
    ready, training = (convert(name, sample(x=X)) for name in ("make_nnx", "make_training_nnx"))
    assert ready.status == "ok" and ready.result["training"] is False
    assert training.result is None or training.result["training"] is True


def test_double_precision_stays_double(convert, sample):
    result = convert("make_wide", sample(x=X.astype(np.float64)), "jax_wide_models.py").result
    model = onnx.load(result["path"])
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert result["options"]["enable_double_precision"] is True


@pytest.mark.parametrize(
    ("name", "dynamic", "stage", "cause", "line"),
    [
        (
            "make_callback",
            {},
            "translate",
            "jax2onnx has no translation for the operation pure_callback",
            "jax.pure_callback",
        ),
        ("make_eigenvalues", {}, "translate", "jax2onnx translates eig only for 1x1", "jnp.linalg.eigvals"),
        ("make_numpy", {}, "trace", "the model leaves JAX for NumPy", "np.tanh(np.asarray(x))"),
        ("make_branching", {}, "trace", "the Python code branches on a value", "if x.sum() > 0:"),
        (
            "make_compares_size",
            {"x": {"0": "batch"}},
            "trace",
            "the code compares it ('batch' > '3'), so",
            "x.shape[0] > 3",
        ),
    ],
)
def test_a_refusal_has_stage_cause_line_and_remedy(convert, sample, name, dynamic, stage, cause, line):
    outcome = convert(name, sample(x=X), dynamic=dynamic)
    details = outcome.error["details"]
    assert outcome.status == "failed" and details["known"]
    assert cause in outcome.reason and details["stage"] == stage
    assert line in details["source"]["text"]
    assert details["remedy"]


def test_a_size_that_cannot_vary_is_named(convert, sample):
    details = convert("make_compares_size", sample(x=X), dynamic={"x": {"0": "batch"}}).error["details"]
    assert details["fixed"] == {"x": {"0": 3}}
    assert convert("make_compares_size", sample(x=X)).status == "ok"


def test_the_stand_ins_of_jax2onnx_take_keywords_only(convert, sample):
    outcome = convert("make_positional_pool", sample(x=np.ones((2, 12, 12, 3), np.float32)))
    assert outcome.status == "failed"
    assert outcome.reason.startswith("jax2onnx replaces a function of Flax by its own")
    assert "linen.avg_pool" in outcome.error["details"]["source"]["text"]


def test_the_reference_is_the_same_before_and_after_an_export(convert, job, sample, arrays):
    """jax2onnx puts its own functions in the place of JAX's and Flax's while it traces."""
    given = sample(x=np.ones((2, 12, 12, 3), np.float32))
    before = arrays(job("run", "make_cnn", inputs=[given])["runs"][0]["outputs"])["output"]
    assert convert("make_cnn", given).status == "ok"
    convert("make_positional_pool", given)
    after = arrays(job("run", "make_cnn", inputs=[given])["runs"][0]["outputs"])["output"]
    assert np.array_equal(before, after)


def test_a_serialized_program_is_opaque(pool, convert, sample, exported_file, tmp_path):
    model = {"format": "jax_export", "path": str(exported_file), "module": None, "attribute": None, "code": []}
    path = str(tmp_path / "program.onnx")
    params = {
        "model": model,
        "inputs": sample(args_0=X),
        "route": "jax2onnx",
        "dynamic": {},
        "opset": None,
        "path": path,
    }
    outcome = pool.run("jax", "jax.export", params)
    assert (
        outcome.reason == "a serialized jax.export program is one block of StableHLO, which jax2onnx does not translate"
    )
    assert "XlaCallModule" in outcome.error["details"]["remedy"]


def test_what_the_model_itself_refuses(convert, sample):
    outcome = convert("make_strict", sample(x=X[:2]))
    assert outcome.reason == "the model itself fails on these inputs: ValueError: the batch must be 3, not 2"
    assert outcome.error["details"]["stage"] == "run"


def test_an_unknown_route(convert, sample):
    outcome = convert("make_mlp", sample(x=X), route="jax2tf")
    assert (outcome.status, outcome.reason) == ("unsupported", "no route from JAX called 'jax2tf': there are jax2onnx")
