from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tensoraudit.probes.onnxruntime import intermediates as module
from tensoraudit.probes.onnxruntime.intermediates import intermediates
from tensoraudit.probes.onnxruntime.model_file import load_structure
from tensoraudit.probes.protocol import JobFailed

FLOAT = TensorProto.FLOAT


def chain(bench, length: int, **more) -> str:
    """v0 = x + 1, v1 = v0 + 1, ... over a dynamic number of floats."""
    nodes = [bench.node("Add", [f"v{i - 1}" if i else "x", "one"], [f"v{i}"]) for i in range(length)]
    weights = [bench.weight("one", np.ones(1, np.float32))]
    return bench.model(
        nodes, [bench.value("x", FLOAT, ["n"])], [bench.value(f"v{length - 1}", FLOAT, ["n"])], weights, **more
    )


def test_values_are_exact_and_in_the_order_asked_for(bench, mlp, mlp_weights):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = intermediates({"path": mlp, "inputs": bench.sample(x=x), "values": ["a", "h", "n"]}, bench.session)
    got = bench.read(result["values"])
    assert list(got) == ["a", "h", "n"]
    np.testing.assert_allclose(got["h"], x @ mlp_weights["w"], rtol=1e-6)
    np.testing.assert_allclose(got["a"], x @ mlp_weights["w"] + mlp_weights["b"], rtol=1e-6)
    assert result["level"] == result["settings"]["level"] == "disable"


def test_one_session_for_all_and_chunks_under_the_budget(bench, monkeypatch):
    path = chain(bench, 10)
    made, fetched = [], []
    real_open, real_run = module.open_bytes, module.outputs_of
    monkeypatch.setattr(module, "open_bytes", lambda *a: made.append(1) or real_open(*a))
    monkeypatch.setattr(module, "outputs_of", lambda o, names, f: fetched.append(names) or real_run(o, names, f))
    params = {
        "path": path,
        "inputs": bench.sample(x=np.zeros(100, np.float32)),
        "values": [f"v{i}" for i in range(10)],
        "budget": 1250,  # three values of 400 bytes
    }
    result = intermediates(params, bench.session)
    assert made == [1]
    assert [len(chunk) for chunk in fetched] == [3, 3, 3, 1]
    assert result["chunks"] == 4
    assert [float(array[0]) for array in bench.read(result["values"]).values()] == list(range(1, 11))
    intermediates(params, bench.session)
    assert made == [1], "the same values of the same file need no new session"


def test_value_larger_than_the_budget_stands_alone(bench):
    params = {"path": chain(bench, 3), "inputs": bench.sample(x=np.zeros(9, np.float32)), "values": ["v0", "v1", "v2"]}
    assert intermediates({**params, "budget": 1}, bench.session)["chunks"] == 3


def test_external_data_beside_the_model_is_found_and_nothing_is_written_there(bench):
    generator = np.random.default_rng(3)
    w = generator.standard_normal((40, 40), dtype=np.float32)
    path = bench.model(
        [bench.node("MatMul", ["x", "w"], ["h"]), bench.node("Relu", ["h"], ["y"])],
        [bench.value("x", FLOAT, ["b", 40])],
        [bench.value("y", FLOAT, ["b", 40])],
        [bench.weight("w", w)],
    )
    folder = bench.folder / "big"
    folder.mkdir()
    onnx.save(onnx.load(path), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    x = np.ones((2, 40), np.float32)
    result = intermediates(
        {"path": str(folder / "m.onnx"), "inputs": bench.sample(x=x), "values": ["h"]}, bench.session
    )
    np.testing.assert_allclose(bench.read(result["values"])["h"], x @ w, rtol=1e-5)
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before


def test_cached_structure_is_unchanged(bench, mlp):
    before = load_structure(mlp, bench.session).SerializeToString()
    params = {"path": mlp, "inputs": bench.sample(x=np.ones((1, 3), np.float32)), "values": ["h"]}
    intermediates(params, bench.session)
    assert load_structure(mlp, bench.session).SerializeToString() == before
    assert before == Path(mlp).read_bytes()


def test_value_that_is_no_tensor_is_named(bench):
    nodes = [bench.node("SequenceConstruct", ["x"], ["seq"]), bench.node("SequenceAt", ["seq", "i"], ["y"])]
    path = bench.model(
        nodes, [bench.value("x", FLOAT, [2])], [bench.value("y", FLOAT, [2])], [bench.weight("i", np.array(0))]
    )
    sample = bench.sample(x=np.ones(2, np.float32))
    result = intermediates({"path": path, "inputs": sample, "values": ["seq", "y"]}, bench.session)
    assert list(result["values"]) == ["y"]
    assert "seq(tensor(float))" in result["unsupported"]["seq"]


@pytest.mark.parametrize("names", [["nope"], ["x"], ["w"], []])
def test_names_that_no_node_makes(bench, mlp, names):
    params = {"path": mlp, "inputs": bench.sample(x=np.ones((1, 3), np.float32)), "values": names}
    with pytest.raises(JobFailed, match="No node of the main graph makes"):
        intermediates(params, bench.session)


def test_inputs_that_do_not_fit(bench, mlp):
    with pytest.raises(JobFailed, match="sample 's' does not fit the model: input 'x' is int64"):
        intermediates(
            {"path": mlp, "inputs": bench.sample(x=np.ones((1, 3), np.int64)), "values": ["h"]}, bench.session
        )
    with pytest.raises(JobFailed, match="invalid dimensions"):
        intermediates(
            {"path": mlp, "inputs": bench.sample(x=np.ones((1, 4), np.float32)), "values": ["h"]}, bench.session
        )


def test_value_of_unknown_shape_counts_as_the_largest_known_one_if_most_are_known():
    sizes = {"a": 100, "b": 300}
    assert list(module._chunks(["a", "b", "unknown"], sizes, 1_000_000)) == [["a", "b", "unknown"]]
    assert list(module._chunks(["a", "b", "unknown"], sizes, 690)) == [["a", "b", "unknown"]], "a 16th of 690 is 43"
    assert list(module._chunks(["a", "b", "unknown"], sizes, 400)) == [["a", "b"], ["unknown"]]


def test_values_of_unknown_shape_count_as_a_share_of_the_budget(bench):
    nodes = [bench.node("NonZero", ["x"], [f"v{i}"]) for i in range(20)]
    path = bench.model(nodes, [bench.value("x", FLOAT, [3])], [bench.value("v0", TensorProto.INT64, None)])
    params = {"path": path, "inputs": bench.sample(x=np.ones(3, np.float32)), "values": [f"v{i}" for i in range(20)]}
    assert intermediates({**params, "budget": 1 << 20}, bench.session)["chunks"] == 2


def test_fingerprints_come_with_the_values_and_without_them_above_the_limit(bench):
    path = chain(bench, 10)
    x = np.linspace(-3, 2, 100, dtype=np.float32)
    names = [f"v{i}" for i in range(10)]
    params = {"path": path, "inputs": bench.sample(x=x), "values": names, "fingerprints": True, "budget": 1250}
    below = intermediates({**params, "limit": 4000}, bench.session)
    above = intermediates({**params, "limit": 3999}, bench.session)
    assert list(below["values"]) == names and above["values"] == {}
    assert above["chunks"] == below["chunks"] == 4
    assert above["fingerprints"] == below["fingerprints"]
    wide = (x + np.float32(1)).astype(np.float64)
    made = above["fingerprints"]["v0"]
    assert made["shape"] == [100] and made["min"] == wide.min()
    assert made["squares"] == pytest.approx((wide**2).sum(), rel=1e-12)
    assert "fingerprints" not in intermediates({**params, "fingerprints": False}, bench.session)
