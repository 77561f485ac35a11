from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tensoraudit.probes.onnxruntime.subgraph import subgraph
from tensoraudit.probes.protocol import JobFailed

FLOAT = TensorProto.FLOAT


def test_a_piece_runs_alone_from_the_given_feeds(bench, mlp, mlp_weights):
    h = np.arange(10, dtype=np.float32).reshape(2, 5) - 5
    params = {"path": mlp, "feeds": {"h": bench.session.put(h)}, "outputs": ["logits"]}
    result = subgraph(params, bench.session)
    np.testing.assert_allclose(bench.read(result["outputs"])["logits"], np.maximum(h + mlp_weights["b"], 0), rtol=1e-6)
    assert result["nodes"] == ["/fc/Add", "/act/Relu"]
    assert result["reproducer"] is None
    assert result["settings"]["level"] == "disable"


def test_reproducer_is_complete_and_passes_the_checker(bench, mlp, mlp_weights):
    h, expected = np.ones((2, 5), np.float32), np.full((2, 5), 9, np.float32)
    folder = bench.folder / "repro" / "deep"
    params = {
        "path": mlp, "feeds": {"h": bench.session.put(h)}, "outputs": ["logits"], "save": str(folder),
        "expected": {"logits": bench.session.put(expected)},
    }  # fmt: skip
    assert subgraph(params, bench.session)["reproducer"] == str(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["README.txt", "expected.npz", "inputs.npz", "model.onnx"]
    onnx.checker.check_model(onnx.load(folder / "model.onnx"), full_check=True)
    with np.load(folder / "inputs.npz") as stored:
        inputs = dict(stored)
    (out,) = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"]).run(None, inputs)
    np.testing.assert_allclose(out, np.maximum(h + mlp_weights["b"], 0))
    with np.load(folder / "expected.npz") as stored:
        np.testing.assert_array_equal(stored["logits"], expected)
    text = (folder / "README.txt").read_text()
    assert len(text.splitlines()) == 3
    assert "2 node(s), h to logits" in text
    assert {t.name for t in onnx.load(folder / "model.onnx").graph.initializer} == {"b"}


def test_saving_twice_replaces_and_leaves_nothing_else(bench, mlp):
    params = {"path": mlp, "feeds": {"h": bench.session.put(np.ones((2, 5), np.float32))}, "outputs": ["a"]}
    for _ in range(2):
        subgraph({**params, "save": str(bench.folder / "r")}, bench.session)
    assert sorted(p.name for p in (bench.folder / "r").iterdir()) == ["README.txt", "inputs.npz", "model.onnx"]


def test_names_with_slashes_are_kept_in_the_archive(bench):
    path = bench.model(
        [bench.node("Neg", ["/a/b"], ["y"])], [bench.value("/a/b", FLOAT, [1])], [bench.value("y", FLOAT, [1])]
    )
    save = bench.folder / "r"
    feeds = {"/a/b": bench.session.put(np.ones(1, np.float32))}
    subgraph({"path": path, "feeds": feeds, "outputs": ["y"], "save": str(save)}, bench.session)
    with np.load(save / "inputs.npz") as stored:
        assert stored.files == ["/a/b"]
        assert stored["/a/b"].tolist() == [1]
    assert not (save.parent / "a").exists()


def test_external_weights_are_embedded_in_the_reproducer(bench):
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    path = bench.model(
        [bench.node("Relu", ["x"], ["h"]), bench.node("MatMul", ["h", "w"], ["y"])],
        [bench.value("x", FLOAT, [2, 3])],
        [bench.value("y", FLOAT, [2, 4])],
        [bench.weight("w", w)],
    )
    folder = bench.folder / "big"
    folder.mkdir()
    onnx.save(onnx.load(path), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    feeds = {"h": bench.session.put(np.ones((2, 3), np.float32))}
    params = {"path": str(folder / "m.onnx"), "feeds": feeds, "outputs": ["y"], "save": str(bench.folder / "r")}
    result = subgraph(params, bench.session)
    np.testing.assert_array_equal(bench.read(result["outputs"])["y"], np.ones((2, 3), np.float32) @ w)
    (folder / "m.data").unlink()
    (tensor,) = onnx.load(bench.folder / "r" / "model.onnx").graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), w)


def test_control_flow_keeps_what_its_bodies_read_from_outside(bench):
    def branch(name, op):
        return helper.make_graph(
            [helper.make_node(op, ["x", "w"], [f"{name}_y"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", FLOAT, [2])],
        )

    nodes = [
        bench.node("Greater", ["x", "w"], ["g"]),
        bench.node("ReduceMax", ["gi"], ["m"], keepdims=0),
        bench.node("Cast", ["g"], ["gi"], to=TensorProto.INT32),
        bench.node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        bench.node("If", ["c"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Sub")),
    ]
    path = bench.model(
        nodes, [bench.value("x", FLOAT, [2])], [bench.value("y", FLOAT, [2])],
        [bench.weight("w", np.array([1, 2], np.float32))],
    )  # fmt: skip
    feeds = {"c": bench.session.put(np.array(False)), "x": bench.session.put(np.array([5, 5], np.float32))}
    result = subgraph({"path": path, "feeds": feeds, "outputs": ["y"]}, bench.session)
    assert bench.read(result["outputs"])["y"].tolist() == [4, 3]
    with pytest.raises(JobFailed, match="also reads 'x': feed it too"):
        subgraph({"path": path, "feeds": {"c": feeds["c"]}, "outputs": ["y"]}, bench.session)


def test_feeds_that_nothing_reads_are_left_out(bench, mlp):
    feeds = {name: bench.session.put(np.ones((2, 5), np.float32)) for name in ("h", "a")}
    result = subgraph({"path": mlp, "feeds": feeds, "outputs": ["logits"]}, bench.session)
    assert result["nodes"] == ["/act/Relu"]


@pytest.mark.parametrize("outputs", [["nope"], ["x"], []])
def test_outputs_that_no_node_makes(bench, mlp, outputs):
    with pytest.raises(JobFailed, match="No node of the main graph makes"):
        subgraph({"path": mlp, "feeds": {}, "outputs": outputs}, bench.session)


def test_piece_that_fails_says_why(bench, mlp):
    feeds = {"h": bench.session.put(np.ones((2, 4), np.float32))}
    with pytest.raises(JobFailed, match=r"^Add cannot work at node '/fc/Add': Incompatible dimensions"):
        subgraph({"path": mlp, "feeds": feeds, "outputs": ["a"]}, bench.session)


def test_unwritable_folder(bench, mlp):
    (bench.folder / "file").write_text("in the way")
    feeds = {"h": bench.session.put(np.ones((2, 5), np.float32))}
    with pytest.raises(JobFailed, match=r"reproducer cannot be written to .*file"):
        subgraph({"path": mlp, "feeds": feeds, "outputs": ["a"], "save": str(bench.folder / "file")}, bench.session)
