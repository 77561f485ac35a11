"""The oracle of runs of ONNX Runtime and of the NumPy evaluator: against float64 done here, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime import evaluator as evaluators
from tensoraudit.probes.onnxruntime.forward import run
from tensoraudit.probes.onnxruntime.reference import reference

FLOAT = TensorProto.FLOAT
X = np.random.default_rng(3).standard_normal((4, 3), dtype=np.float32)


@pytest.fixture(params=[run, reference], ids=["onnxruntime", "numpy"])
def job(request):
    return request.param


def rows(job, path, bench, **more):
    samples = [bench.sample(name, x=x) for name, x in more.pop("inputs", {"s": X}).items()]
    return job({"path": path, "inputs": samples, "oracle": True, "perturbations": 3, **more}, bench.session)["runs"]


def test_oracle_and_floor_of_a_network(bench, mlp, mlp_weights, job):
    (row,) = rows(job, mlp, bench)
    oracle = bench.read(row["oracle"])
    wide = {name: array.astype(np.float64) for name, array in mlp_weights.items()}
    expected = np.maximum(X.astype(np.float64) @ wide["w"] + wide["b"], 0)
    assert oracle["logits"].dtype == np.float64 and oracle["n"].dtype == np.int64
    np.testing.assert_allclose(oracle["logits"], expected, rtol=1e-14)
    assert oracle["n"].tolist() == expected.argmax(-1).tolist()
    assert row["oracle_reason"] == "" and row["perturbed_by"] == "inputs" and len(row["perturbed"]) == 3
    result = bench.read(row["outputs"])["logits"]
    assert 0 < np.abs(result - oracle["logits"]).max() < 1e-6
    moved = [np.abs(bench.read(draw)["logits"] - result).max() for draw in row["perturbed"]]
    assert all(0 < each < 2e-6 for each in moved)


def test_nothing_is_added_that_was_not_asked_for(bench, mlp, job):
    (row,) = job({"path": mlp, "inputs": [bench.sample(x=X)]}, bench.session)["runs"]
    assert (row["oracle"], row["oracle_reason"], row["perturbed"], row["perturbed_by"]) == (None, "", [], "")


def test_the_weights_move_where_no_input_is_floating(bench, job):
    table = np.random.default_rng(4).standard_normal((7, 5), dtype=np.float32)
    path = bench.model(
        [bench.node("Gather", ["table", "x"], ["y"])],
        [bench.value("x", TensorProto.INT64, ["n"])],
        [bench.value("y", FLOAT, ["n", 5])],
        [bench.weight("table", table)],
    )
    ids = np.array([0, 6, 3])
    (row,) = rows(job, path, bench, inputs={"s": ids})
    assert row["perturbed_by"] == "weights"
    for draw in row["perturbed"]:
        moved = bench.read(draw)["y"]
        assert (np.abs(moved - table[ids]) <= np.spacing(np.abs(table[ids]))).all() and (moved != table[ids]).all()
    np.testing.assert_array_equal(bench.read(row["oracle"])["y"], table[ids].astype(np.float64))


def test_the_scales_of_a_resize_do_not_move(bench, job):
    path = bench.model(
        [bench.node("Resize", ["table", "", "k"], ["big"], mode="nearest"), bench.node("Gather", ["big", "x"], ["y"])],
        [bench.value("x", TensorProto.INT64, ["n"])],
        [bench.value("y", FLOAT, ["n", 6])],
        [
            bench.weight("table", np.arange(1, 7, dtype=np.float32).reshape(2, 3) / 7),
            bench.weight("k", np.array([2, 2], np.float32)),
        ],
    )
    (row,) = rows(job, path, bench, inputs={"s": np.array([0, 3])})
    assert [bench.read(draw)["y"].shape for draw in row["perturbed"]] == [(2, 6)] * 3


def test_a_quantised_file_has_no_oracle_and_says_why(bench, job):
    path = bench.model(
        [bench.node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quant"),
         bench.node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        [bench.value("x", FLOAT, ["n", 3])],
        [bench.value("y", FLOAT, ["n", 3])],
        [bench.weight("s", np.array(0.1, np.float32)), bench.weight("z", np.array(0, np.int8))],
    )  # fmt: skip
    (row,) = rows(job, path, bench)
    assert row["oracle"] is None and row["oracle_reason"].startswith("QuantizeLinear (quant) is quantised")
    assert len(row["perturbed"]) == 3 and row["outputs"]


def test_time_runs_out_for_some_input_sets_and_that_is_said(bench, mlp, job):
    large = np.zeros((400_000, 3), np.float32)
    small, other = rows(job, mlp, bench, budget=0.2, inputs={"small": X, "large": large})
    assert small["oracle"] is not None
    assert other["oracle"] is None and "takes more than the 0.2 s" in other["oracle_reason"]


def test_an_evaluator_that_computes_something_else_is_no_oracle(bench, mlp, monkeypatch):
    """A fault of the evaluator would make a floor under which everything passes."""
    from onnx.reference.op_run import OpRun

    class Relu(OpRun):
        op_domain = ""

        def _run(self, x):
            return (np.maximum(x, 0) * x.dtype.type(1.0001),)

    monkeypatch.setattr(evaluators, "corrected_operators", lambda model: [Relu])
    (row,) = rows(run, mlp, bench)
    assert row["oracle"] is None
    assert row["oracle_reason"].startswith(
        "not an oracle: ONNX Runtime and the NumPy evaluator differ on logits by more than rounding explains"
    )
    (own,) = rows(reference, mlp, bench)
    assert own["oracle"] is not None  # it is one of itself


def test_a_size_that_the_evaluator_cannot_run_has_a_reason(bench, mlp, monkeypatch):
    from onnx.reference.op_run import OpRun

    class Relu(OpRun):
        op_domain = ""

        def _run(self, x):
            raise IndexError("axis 7")

    monkeypatch.setattr(evaluators, "corrected_operators", lambda model: [Relu])
    (row,) = rows(run, mlp, bench)
    assert row["oracle_reason"] == "the NumPy evaluator cannot run the file in double precision: axis 7"


def test_a_runtime_error_of_a_sample_stays_what_it_was(bench, mlp, job):
    bad, good = rows(job, mlp, bench, inputs={"bad": X[:, :2], "good": X})
    assert bad["error"] and bad["oracle"] is None and bad["perturbed"] == []
    assert good["oracle"] is not None
