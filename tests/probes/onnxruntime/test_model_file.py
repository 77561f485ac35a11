from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tensoraudit.probes.onnxruntime.forward import run
from tensoraudit.probes.onnxruntime.model_file import all_tensors, load_structure
from tensoraudit.probes.protocol import JobFailed

FLOAT = TensorProto.FLOAT


def external(name, location, size=3):
    tensor = TensorProto(name=name, data_type=FLOAT, dims=[size], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": str(4 * size)}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def adder(bench, location, name="inner/model.onnx"):
    (bench.folder / "inner").mkdir(exist_ok=True)
    return bench.model(
        [bench.node("Add", ["x", "w"], ["y"])],
        [bench.value("x", FLOAT, [3])],
        [bench.value("y", FLOAT, [3])],
        [external("w", location)],
        name=name,
    )


def write_weights(path):
    path.write_bytes(np.array([1, 2, 3], np.float32).tobytes())


def test_external_data_beside_the_model_is_used(bench):
    path = adder(bench, "weights.bin")
    write_weights(bench.folder / "inner" / "weights.bin")
    answer = run({"path": path, "inputs": [bench.sample(x=np.zeros(3, np.float32))]}, bench.session)["runs"][0]
    assert bench.read(answer["outputs"])["y"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["parent", "absolute", "link", "roundabout"])
def test_external_data_outside_the_folder_is_refused_before_loading(bench, kind, monkeypatch):
    outside = bench.folder / "secret.bin"
    write_weights(outside)
    location = {
        "parent": "../secret.bin",
        "absolute": str(outside),
        "link": "link.bin",
        "roundabout": "../inner/weights.bin",
    }[kind]
    path = adder(bench, location)
    write_weights(bench.folder / "inner" / "weights.bin")
    (bench.folder / "inner" / "link.bin").symlink_to(outside)
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *a, **k: pytest.fail("the runtime saw the file"))
    with pytest.raises(JobFailed, match="tensor 'w' points outside the model's folder") as refusal:
        run({"path": path, "inputs": []}, bench.session)
    assert refusal.value.details["location"] == location


def test_missing_external_data_names_the_file(bench):
    with pytest.raises(JobFailed, match=r"tensor 'w' is missing: there is no file .*inner/gone\.bin"):
        load_structure(adder(bench, "gone.bin"), bench.session)


def test_location_that_no_file_system_takes(bench):
    with pytest.raises(JobFailed, match="unusable location"):
        load_structure(adder(bench, "a\0b"), bench.session)


def test_model_and_data_linked_into_a_store_are_accepted(bench):
    """Model hubs keep both files in one blob folder and link to them."""
    store = bench.folder / "blobs"
    store.mkdir()
    real = adder(bench, "weights.bin")
    Path(real).rename(store / "aaa")
    write_weights(store / "bbb")
    (bench.folder / "inner" / "model.onnx").symlink_to(store / "aaa")
    (bench.folder / "inner" / "weights.bin").symlink_to(store / "bbb")
    load_structure(real, bench.session)


def test_hostile_data_is_found_wherever_it_hides(bench):
    """In attributes, subgraphs, functions and sparse tensors, not only in the main graph's initializers."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["deep"], ["out"])], "b", [], [bench.value("out", FLOAT, [3])]
    )
    body.initializer.append(external("deep", "/etc/passwd"))
    nodes = [
        bench.node("If", ["c"], ["y"], then_branch=body, else_branch=body),
        bench.node("Constant", [], ["k"], value=external("attribute", "/etc/passwd")),
    ]
    function = helper.make_function(
        "mine", "F", [], ["o"], [bench.node("Constant", [], ["o"], value=external("local", "/etc/passwd"))],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    path = bench.model(
        nodes, [bench.value("c", TensorProto.BOOL, [])], [bench.value("y", FLOAT, [3])], functions=[function]
    )
    model = onnx.load(path, load_external_data=False)
    sparse = model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(external("sparse", "/etc/passwd"))
    names = {tensor.name for tensor in all_tensors(model) if tensor.external_data}
    assert names == {"deep", "attribute", "local", "sparse"}
    with pytest.raises(JobFailed, match="points outside"):
        load_structure(path, bench.session)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no ONNX graph"),
        (b"PK\x03\x04 no protobuf", "is not a readable ONNX model"),
        (b"\x00" * 100, "is not a readable ONNX model"),
        (None, "cannot be read: No such file"),
    ],
)
def test_files_that_are_no_model(bench, content, message):
    path = bench.folder / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JobFailed, match=message):
        run({"path": str(path), "inputs": []}, bench.session)


def test_truncated_model(bench, mlp):
    path = bench.folder / "cut.onnx"
    path.write_bytes((bench.folder / "model.onnx").read_bytes()[:150])
    with pytest.raises(JobFailed, match="is not a readable ONNX model"):
        run({"path": str(path), "inputs": []}, bench.session)
