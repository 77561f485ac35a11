"""ONNX weights against the onnx package: in the file, in Constant nodes, in branches and in external data."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from tensoraudit.checkpoints import onnx_weights
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.errors import InputError

MODELS = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("model.onnx"))


def content(stored: StoredCheckpoint, entry) -> bytes:
    [part] = entry.parts
    if part.codec:
        return onnx_weights.inflate(stored.root, part)
    return (stored.root / part.file).read_bytes()[part.offset : part.offset + part.bytes]


def model(*tensors, nodes=(), outputs=()):
    graph = helper.make_graph(list(nodes), "g", [], list(outputs), list(tensors))
    return helper.make_model(graph, producer_name="tests", producer_version="1")


def saved(folder: Path, proto) -> StoredCheckpoint:
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert onnx_weights.recognises(path)
    return onnx_weights.read(path)


def kinds(stored: StoredCheckpoint) -> list[tuple[str, str]]:
    return [(each.kind, each.subject) for each in stored.observations]


def expected_tensors(proto):
    found = {each.name: each for each in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Constant":
            found |= {output: each.t for each in node.attribute if each.name == "value" for output in node.output}
    return found


def compare(path: Path) -> int:
    stored = onnx_weights.read(path)
    expected = expected_tensors(onnx.load(path))
    entries = {entry.name: entry for entry in stored.entries if not entry.path}
    assert set(entries) == set(expected)
    for name, entry in entries.items():
        array = numpy_helper.to_array(expected[name])
        assert entry.shape == array.shape
        if entry.dtype != "string" and array.size:
            assert entry.dtype == array.dtype.name
            assert content(stored, entry) == array.tobytes()
    return len(entries)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "kind",
    [kind for name, kind in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")],
)
def test_every_type_is_read_with_its_bytes(tmp_path, kind, raw):
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    array = np.array([[0, 1, 1], [0, 1, 0]]).astype(dtype)
    proto = numpy_helper.from_array(array, "a")
    if not raw:
        proto = helper.make_tensor("a", kind, array.shape, array.reshape(-1).tolist())
    stored = saved(tmp_path, model(proto))
    [entry] = stored.entries
    assert (entry.dtype, entry.shape) == (dtype.name, (2, 3))
    packed = raw or "float6" not in dtype.name  # of these each number stands alone outside raw data
    wanted = numpy_helper.from_array(array, "a").raw_data if packed else array.tobytes()
    assert content(stored, entry) == wanted
    assert stored.observations == ()


def test_negative_numbers_in_varints(tmp_path):
    proto = helper.make_tensor("a", TensorProto.INT32, [3], [-1, -(2**31), 2**31 - 1])
    stored = saved(tmp_path, model(proto, helper.make_tensor("b", TensorProto.INT64, [1], [-5])))
    assert content(stored, stored.entries[0]) == np.array([-1, -(2**31), 2**31 - 1], np.int32).tobytes()
    assert content(stored, stored.entries[1]) == np.array([-5], np.int64).tobytes()


def test_all_models_of_the_onnx_package():
    assert sum(map(compare, MODELS)) > 100


def test_branches_and_constants(tmp_path):
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(3, np.float16), "inner"))
    branch = helper.make_graph([constant], "then", [], [], [weight])
    node = helper.make_node("If", ["x"], ["y"], name="choose", then_branch=branch, else_branch=branch)
    stored = saved(tmp_path, model(nodes=[node]))
    names = {entry.full_name for entry in stored.entries}
    assert names == {f"choose.{side}_branch.{name}" for side in ("then", "else") for name in "wc"}
    half = next(entry for entry in stored.entries if entry.name == "c")
    assert half.dtype == "float16"
    assert content(stored, half) == np.ones(3, np.float16).tobytes()


def test_shapes_and_factors_in_constants_are_no_weights(tmp_path):
    values = {"axes": np.array([0, 2]), "factor": np.array(0.5, np.float32), "weight": np.ones(3, np.float32)}
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)) for name, value in values.items()
    ]
    stored = saved(tmp_path, model(numpy_helper.from_array(np.array([1, 2]), "ids"), nodes=nodes))
    groups = {entry.name: entry.group for entry in stored.entries}
    assert groups == {"ids": "model", "axes": "other", "factor": "other", "weight": "model"}


def test_axes_follow_from_the_layer(tmp_path):
    shapes = {"conv": (4, 3, 5, 5), "up": (4, 3, 5), "gemm": (3, 4), "turned": (4, 3), "right": (3, 4), "left": (3, 4)}
    tensors = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "conv"], ["1"]),
        helper.make_node("ConvTranspose", ["x", "up"], ["2"]),
        helper.make_node("Gemm", ["x", "gemm"], ["3"]),
        helper.make_node("Gemm", ["x", "turned"], ["4"], transB=1),
        helper.make_node("MatMul", ["left", "right"], ["5"]),
    ]
    axes = {entry.name: entry.axes for entry in saved(tmp_path, model(*tensors, nodes=nodes)).entries}
    assert axes == {"conv": "OIHW", "up": "IOW", "gemm": "IO", "turned": "OI", "right": "IO", "left": ""}


@pytest.fixture
def external(tmp_path):
    """A model whose three tensors lie in w.bin: two of them share their bytes."""
    data = np.arange(9, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(data.tobytes())
    tensors = []
    for name, offset in (("a", 0), ("b", 24), ("tied", 24)):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[6] if name == "a" else [3])
        tensor.raw_data = b"x"
        set_external_data(tensor, "w.bin", offset=offset, length=24 if name == "a" else 12)
        tensor.ClearField("raw_data")
        tensors.append(tensor)
    return model(*tensors)


def test_external_data(tmp_path, external):
    stored = saved(tmp_path, external)
    assert stored.files == ("m.onnx", "w.bin")
    by_name = {entry.name: entry for entry in stored.entries}
    assert content(stored, by_name["b"]) == np.arange(6, 9, dtype=np.float32).tobytes()
    assert {name: entry.same_as for name, entry in by_name.items()} == {"a": "", "b": "", "tied": "b"}
    assert stored.observations == ()


def test_external_data_that_is_not_there(tmp_path, external):
    (tmp_path / "w.bin").write_bytes(bytes(30))
    assert kinds(saved(tmp_path, external)) == [("file_truncated", "w.bin")]
    (tmp_path / "w.bin").unlink()
    assert kinds(saved(tmp_path, external)) == [("file_missing", "w.bin")]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "link.bin"])
def test_external_data_outside_has_no_parts(tmp_path, external, location):
    (tmp_path / "link.bin").symlink_to("/etc/passwd")
    for tensor in external.graph.initializer:
        tensor.external_data[0].value = location
    stored = saved(tmp_path, external)
    assert kinds(stored) == [("file_outside", location)]
    assert all(entry.parts == () for entry in stored.entries)


def test_data_of_another_size_than_the_shape(tmp_path):
    tensor = TensorProto(name="a", data_type=TensorProto.FLOAT, dims=[1 << 40, 1 << 20], raw_data=bytes(8))
    stored = saved(tmp_path, model(tensor))
    assert kinds(stored) == [("tensor_size", "a")]
    assert stored.observations[0].value == {"bytes": 8, "needed": 1 << 62}


def test_a_name_twice_is_said_and_the_last_counts(tmp_path):
    tensors = [numpy_helper.from_array(np.full(3, value, np.float32), "a") for value in (1, 2)]
    stored = saved(tmp_path, model(*tensors))
    assert kinds(stored) == [("tensor_twice", "a")]
    assert content(stored, stored.entries[0]) == np.full(3, 2, np.float32).tobytes()


def test_varints_that_end_early_are_refused(tmp_path):
    tensor = TensorProto(name="a", data_type=TensorProto.INT64, dims=[5], int64_data=[1, 2])
    stored = saved(tmp_path, model(tensor))
    with pytest.raises(ValueError, match="holds 2 of 5"):
        onnx_weights.inflate(stored.root, stored.entries[0].parts[0])


@pytest.mark.parametrize("data", [b"", b"\x08", b"\x08\x07\x3a\xff\xff\xff\xff\x7f", b"\x08\x07\x3a\x02\x0a\x05"])
def test_damaged_models_are_refused(tmp_path, data):
    (tmp_path / "m.onnx").write_bytes(data)
    assert onnx_weights.recognises(tmp_path / "m.onnx")
    with pytest.raises(InputError):
        onnx_weights.read(tmp_path / "m.onnx")


def seeds():
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")
    typed = helper.make_tensor("t", TensorProto.INT32, [3], [1, -2, 3])
    branch = helper.make_graph([], "then", [], [], [weight])
    node = helper.make_node("If", ["x"], ["y"], then_branch=branch)
    return [model(weight, typed, nodes=[node, helper.make_node("MatMul", ["x", "w"], ["z"])]).SerializeToString()]


SEEDS = seeds()


@settings(max_examples=300)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files_give_an_answer_or_a_refusal(tmp_path_factory, seed, data):
    mutated = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(seed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "mutated.onnx"
    path.write_bytes(mutated)
    onnx_weights.recognises(path)
    try:
        stored = onnx_weights.read(path)
    except InputError:
        return
    for entry in stored.entries:
        for part in entry.parts:
            if part.codec.startswith("varint:"):
                try:
                    onnx_weights.inflate(stored.root, part)
                except ValueError:
                    continue


@pytest.mark.real
@pytest.mark.parametrize(
    "package",
    ["basic_pitch", "silero_vad", "magika", "nudenet", "rapidocr_onnxruntime"],
)
def test_real_models_are_read_with_their_bytes(package):
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"needs {package}")
    paths = sorted(Path(found.submodule_search_locations[0]).rglob("*.onnx"))
    assert paths
    for path in paths:
        assert compare(path) + len(onnx_weights.read(path).entries) > 10
