"""Whole audits of JAX models: each starts workers and takes seconds. The models are those of the worker's own tests."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tensoraudit
from tensoraudit.errors import InputError
from tensoraudit.probes.pool import Pool

MODELS = Path(__file__).parents[1] / "probes" / "jax" / "jax_models.py"
PROGRAM = Path(__file__).parents[2] / "fixtures" / "jax" / "program.bin"
VARIABLE = "TENSORAUDIT_JAX_PYTHON"
PASSES = {"identical", "equivalent", "noise"}

pytestmark = [
    pytest.mark.usefixtures("warm_workers"),
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get(VARIABLE),
        reason=f"set {VARIABLE} to a Python with JAX and Flax (requirements/frameworks.txt)",
    ),
]


@pytest.fixture(scope="module")
def python():
    return {"jax": os.environ[VARIABLE]}


@pytest.fixture(scope="module")
def audit(python):
    """The report of a model, by its name."""
    known = {}

    def call(name, **options):
        key = (name, *options.items())
        if key not in known:
            known[key] = tensoraudit.scan(f"{MODELS}:{name}", python=python, **options)
        return known[key]

    return call


def rows(report, candidate):
    return [row for row in report["equivalence"] if row["candidate"].startswith(candidate)]


def rules(report, state="confirmed"):
    return {finding["rule"] for finding in report["findings"] if finding["state"] == state}


def passes(report):
    return all(row["verdict"] in PASSES for row in report["equivalence"])


@pytest.mark.parametrize("name", ["make_mlp", "make_cnn", "make_nnx", "make_function"])
def test_a_right_conversion_passes_with_a_dynamic_batch(audit, name):
    report = audit(name)
    assert (report["grade"]["onnx"], report["exit_code"]) == ("A", 0)
    own = rows(report, "jax2onnx@onnxruntime/cpu")
    assert {row["inputs"] for row in own} >= {"sample-0", "random-0", "batch=1", "batch=5"}
    assert passes(report) and all(row["reference"] == "jax/cpu" for row in own)
    assert any("against double precision" in row["reason"] for row in own)


def test_the_reference_is_also_run_without_jit(audit):
    own = rows(audit("make_mlp"), "eager@jax/cpu")
    assert own and all(row["verdict"] in PASSES for row in own)
    different = audit("make_other_under_jit")
    assert {row["verdict"] for row in rows(different, "eager@jax/cpu")} & {"drift", "break"}
    assert any(note.startswith("the reference gives other results without jit") for note in different["notes"])


def test_a_cuda_run_is_missing_with_the_reason_where_there_is_no_device(audit):
    (probe,) = [
        each for each in audit("make_mlp")["probes"] if (each["name"], each["device"]) == ("run.reference", "cuda")
    ]
    assert probe["status"] == "ok" or (probe["status"] == "missing" and "JAX" in probe["reason"])


@pytest.fixture(scope="module")
def exported(python, tmp_path_factory):
    """The file that jax2onnx makes of make_mlp."""
    path = tmp_path_factory.mktemp("exported") / "mlp.onnx"
    model = {"format": "python_object", "path": str(MODELS), "module": None, "attribute": "make_mlp", "code": []}
    with Pool(interpreters=python) as pool:
        inputs = {"name": "s", "arrays": {"x": pool.put(np.ones((3, 8), np.float32))}}
        dynamic = {"x": {"0": "batch"}}
        params = {
            "model": model,
            "inputs": inputs,
            "route": "jax2onnx",
            "dynamic": dynamic,
            "opset": 20,
            "path": str(path),
        }
        assert pool.run("jax", "jax.export", params).status == "ok"
    return path


def test_a_wrong_constant_in_the_file_is_found(python, exported, tmp_path):
    model = onnx.load(exported)
    (bias,) = [each for each in model.graph.initializer if int(np.prod(each.dims)) == 4]
    values = numpy_helper.to_array(bias).copy()
    values.reshape(-1)[2] += np.float32(1e-3)
    bias.CopyFrom(numpy_helper.from_array(values, bias.name))
    wrong = tmp_path / "wrong.onnx"
    onnx.save(model, wrong)
    right = tensoraudit.compare(f"{MODELS}:make_mlp", exported, python=python)
    assert right["exit_code"] == 0 and passes(right)
    report = tensoraudit.compare(f"{MODELS}:make_mlp", wrong, python=python)
    assert report["exit_code"] == 1
    sample = next(row for row in rows(report, "candidate@onnxruntime") if row["inputs"] == "sample-0")
    assert sample["verdict"] in {"drift", "break"} and sample["error_ratio"] > 100


@pytest.mark.parametrize("name", ["make_counter", "make_numpy_random"])
def test_a_number_that_a_trace_freezes_is_found(audit, name):
    report = audit(name)
    assert report["exit_code"] == 1 and "EQV-006" in rules(report)


def test_random_numbers_of_a_fixed_key_are_lost(audit):
    """JAX gives the same numbers at every call; the file draws its own."""
    report = audit("make_random", opset=20)
    assert report["exit_code"] == 1
    shipped = rows(report, "jax2onnx@onnxruntime/cpu")
    assert shipped and not any(row["verdict"] in PASSES for row in shipped)


def test_int64_without_64_bit_types_is_said_and_both_sides_get_int32(audit):
    report = audit("make_ids")
    assert report["exit_code"] == 0 and passes(report)
    assert any(note.startswith("ids is int64, which JAX takes as int32") for note in report["notes"])


def test_int64_that_does_not_fit_is_refused(python, tmp_path):
    np.savez(tmp_path / "large.npz", ids=np.full((3, 4), 2**40))
    with pytest.raises(InputError, match=r"input ids holds 1099511627776, which int32 cannot hold"):
        tensoraudit.scan(f"{MODELS}:make_ids", python=python, inputs=(str(tmp_path / "large.npz"),))


def test_int64_that_the_file_takes_as_int32_is_found(python):
    """With 64-bit types on the model keeps int64, jax2onnx does not."""
    report = tensoraudit.scan(f"{MODELS.with_name('jax_wide_models.py')}:make_sum", python=python)
    (finding,) = [each for each in report["findings"] if each["rule"] == "EQV-010"]
    assert "is int64 in the sample, but the model takes int32" in finding["message"]


def test_double_precision_is_kept(python):
    report = tensoraudit.scan(f"{MODELS.with_name('jax_wide_models.py')}:make_wide", python=python)
    assert report["exit_code"] == 0 and passes(report)
    assert max(row["linf"] for row in rows(report, "jax2onnx") if not row["inputs"].startswith("edge")) < 1e-13


def test_bfloat16_that_the_runtime_cannot_run_is_no_pass(audit):
    report = audit("make_bfloat16")
    assert (report["grade"]["onnx"], report["exit_code"]) == ("F", 1) and "CNV-003" in rules(report)


def test_a_model_that_takes_one_batch_size_is_audited_at_that_one(audit):
    report = audit("make_strict")
    assert report["exit_code"] == 0 and passes(report)
    assert not any(row["inputs"].startswith("batch=") for row in report["equivalence"])


def test_a_function_that_cannot_be_traced_cannot_be_converted(audit):
    report = audit("make_branching")
    assert "CNV-001" in rules(report)
    (conversion,) = report["conversions"]
    assert conversion["cause"] == "the Python code branches on a value that is known only when the model runs"
    assert conversion["details"]["source"]["text"] == "if x.sum() > 0:"


def test_what_is_no_model_ends_with_what_to_do(python):
    with pytest.raises(InputError, match="CNN is a linen module without variables"):
        tensoraudit.scan(f"{MODELS}:make_unbound_cnn", python=python)


def test_a_serialized_program_runs_and_no_route_takes_it(python):
    report = tensoraudit.scan(str(PROGRAM), python=python)
    (conversion,) = report["conversions"]
    assert conversion["cause"].startswith("a serialized jax.export program is one block of StableHLO")
    assert "CNV-001" in rules(report) and report["exit_code"] == 1
    assert {row["status"] for row in report["probes"] if row["name"] == "reference.run"} == {"ok"}


def test_a_serialized_program_against_an_onnx_file(python, tmp_path):
    weight = (np.arange(32, dtype=np.float32).reshape(8, 4) - 15) / 16
    files = {}
    for name, scale in (("right", 1), ("wrong", 1.001)):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
        x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", d]) for n, d in (("x", 8), ("y", 4)))
        graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.float32(weight * scale), "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        files[name] = tmp_path / f"{name}.onnx"
        onnx.save(model, files[name])
    assert tensoraudit.compare(str(PROGRAM), str(files["right"]), python=python)["exit_code"] == 0
    assert tensoraudit.compare(str(PROGRAM), str(files["wrong"]), python=python)["exit_code"] == 1
