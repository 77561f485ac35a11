"""ONNX and Keras files that run in PyTorch: results against ONNX Runtime and NumPy, names, dtypes and refusals."""

import os
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensoraudit.probes.pool import Pool

VARIABLE = "TENSORAUDIT_JAX_PYTHON"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get(VARIABLE),
        reason=f"set {VARIABLE} to a Python with all frameworks (requirements/frameworks.txt)",
    ),
]
DRAWS = np.random.default_rng(0)
IMAGE = DRAWS.standard_normal((2, 3, 11, 7), dtype=np.float32)
KERAS = """
import sys
import keras
from keras import layers

keras.utils.set_random_seed(0)
folder = sys.argv[1]
image = keras.Input((11, 7, 3), name="an-image")
ids = keras.Input((5,), name="ids", dtype="int32")
h = layers.Conv2D(4, 3, strides=2, padding="same")(image)
h = layers.BatchNormalization(beta_initializer="ones", moving_variance_initializer=keras.initializers.Constant(2))(h)
h = layers.Concatenate()([layers.Flatten()(h), layers.GRU(3)(layers.Embedding(13, 6)(ids))])
z = layers.Dense(2, name="z")(h)
model = keras.Model([image, ids], {"z": z, "best": keras.ops.argmax(z, -1)})
model.save(folder + "/net.keras")
x = keras.Input((4,), name="x")
double = keras.Model(x, layers.Lambda(lambda t: t * 2)(x))
double.save(folder + "/code.keras")
double.save(folder + "/code.h5")
import numpy as np
given = np.load(folder + "/inputs.npz")
out = model([given["image"], given["ids"]], training=False)
np.savez(folder + "/outputs.npz", **{name: np.asarray(each) for name, each in out.items()})
"""


@pytest.fixture(scope="module")
def pool():
    with Pool(interpreters={"pytorch": os.environ[VARIABLE]}, threads=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def keras_files(tmp_path_factory):
    """Keras models saved by the TensorFlow backend, with its own results."""
    folder = tmp_path_factory.mktemp("keras")
    ids = DRAWS.integers(0, 13, (2, 5)).astype(np.int32)
    np.savez(folder / "inputs.npz", image=IMAGE.transpose(0, 2, 3, 1), ids=ids)
    environment = {"KERAS_BACKEND": "tensorflow", "PATH": os.environ.get("PATH", ""), "HOME": str(folder)}
    subprocess.run(
        [os.environ[VARIABLE], "-c", KERAS, str(folder)], check=True, env=environment, capture_output=True, timeout=300
    )
    return folder


@pytest.fixture
def convert(pool, tmp_path):
    def call(tool, params, arrays):
        sample = {"name": "s", "arrays": {name: pool.put(array) for name, array in arrays.items()}}
        more = {"tool": tool, "inputs": sample, "dynamic": {}, "opset": None, "folder": str(tmp_path)}
        return pool.run("pytorch", "pytorch.convert", {**params, **more})

    return call


@pytest.fixture
def outputs(pool):
    """The outputs of a converted model in the order of its result, and the row of its run."""

    def call(result, arrays, **params):
        named = zip(result["input_names"], arrays.values(), strict=True)
        sample = {"name": "s", "arrays": {name: pool.put(array) for name, array in named}}
        ran = pool.run("pytorch", "pytorch.run", {**result["params"], "inputs": [sample], **params})
        assert ran.status == "ok", ran.reason
        (row,) = ran.result["runs"]
        assert row["error"] is None, row["error"]
        return [np.array(pool.get(row["outputs"][name])) for name in result["output_names"]], row

    return call


def saved(path, nodes, inputs, outputs, weights=(), opset=13):
    values = [numpy_helper.from_array(array, name) for name, array in weights]
    infos = [[helper.make_tensor_value_info(*each) for each in several] for several in (inputs, outputs)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", *infos, values), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    onnx.save(model, path)
    return str(path)


def weight_node(name, array):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))


@pytest.fixture
def cnn(tmp_path):
    """Convolution whose weights are Constant nodes, BatchNorm, and a Split of which the second part comes out first."""
    kernel = DRAWS.standard_normal((4, 3, 3, 3), dtype=np.float32)
    norm = [DRAWS.random(4, dtype=np.float32) + 0.5 for _ in range(4)]
    nodes = [
        weight_node("kernel", kernel),
        helper.make_node("Conv", ["in.image", "kernel"], ["h"], "conv.1", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["h", "s", "b", "m", "v"], ["n"], "norm"),
        weight_node("shape", np.array([0, -1], np.int64)),
        helper.make_node("Reshape", ["n", "shape"], ["f"], "flat"),
        weight_node("parts", np.array([40, 56], np.int64)),
        helper.make_node("Split", ["f", "parts"], ["first", "second"], "split", axis=1),
        helper.make_node("ArgMax", ["first"], ["best"], "best", axis=1, keepdims=0),
    ]
    floats = TensorProto.FLOAT
    results = [("second", floats, ["b", 56]), ("best", TensorProto.INT64, ["b"]), ("first", floats, ["b", 40])]
    image = [("in.image", floats, ["b", 3, 11, 7])]
    return saved(tmp_path / "cnn.onnx", nodes, image, results, list(zip("sbmv", norm, strict=True)))


def test_an_onnx_file_keeps_the_order_of_its_outputs(convert, outputs, cnn):
    arrays = {"in.image": IMAGE}
    result = convert("onnx2torch", {"path": cnn}, arrays).result
    assert result["params"]["model"] == {"format": "onnx2torch", "path": cnn, "seed": 0}
    assert result["input_names"] == ["in_image"]
    assert result["output_names"] == ["output.second", "output.best", "output.first"]
    assert (result["dtype_changes"], result["dropped_outputs"]) == ({}, [])
    found, row = outputs(result, arrays)
    expected = onnxruntime.InferenceSession(cnn).run(None, arrays)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == want.dtype and np.abs(got - want).max() < 1e-5
    oracle = row["oracle"]
    assert oracle is not None, row["oracle_reason"]


def test_its_operators_name_the_onnx_node(convert, pool, cnn):
    result = convert("onnx2torch", {"path": cnn}, {"in.image": IMAGE}).result
    sample = {"name": "s", "arrays": {"in_image": pool.put(IMAGE)}}
    events = pool.run("pytorch", "pytorch.trace", {**result["params"], "inputs": sample}).result["events"]
    conv = next(each for each in events if "conv" in each["op"])
    assert conv["module"] == "conv/1"  # PyTorch allows no dot in a module's name
    assert conv["source"] == {"path": cnn, "line": 2, "text": "Conv node 'conv.1'"}


def test_a_failure_names_the_onnx_node(convert, cnn):
    refused = convert("onnx2torch", {"path": cnn}, {"in.image": IMAGE[:, :, :9]})
    assert refused.status == "failed"
    details = refused.error["details"]
    assert (details["stage"], details["operator"]) == ("run", "Split node 'split'")
    assert details["source"]["path"] == cnn


def test_the_torch_module_goes_on_to_a_program(convert, outputs, cnn):
    arrays = {"in_image": IMAGE}
    first = convert("onnx2torch", {"path": cnn}, {"in.image": IMAGE}).result
    second = convert("torch_export", first["params"], arrays)
    assert second.status == "ok", second.reason
    assert second.result["output_names"] == first["output_names"]
    found, _ = outputs(second.result, arrays, perturbations=0, oracle=False)
    for got, want in zip(found, onnxruntime.InferenceSession(cnn).run(None, {"in.image": IMAGE}), strict=True):
        assert np.abs(got - want).max() < 1e-5


@pytest.mark.parametrize("steps", [[1, 2], [-1, 1]])
def test_slices_by_constants(convert, outputs, tmp_path, steps):
    bounds = {"starts": [-1, 1], "ends": [-(2**31), 2**62], "axes": [0, -1]}
    if steps[0] > 0:
        bounds |= {"starts": [1, 1], "ends": [2**62, -1]}
    weights = [(name, np.array(each, np.int64)) for name, each in (bounds | {"steps": steps}).items()]
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    path = saved(
        tmp_path / "slice.onnx",
        [helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])],
        [("x", TensorProto.FLOAT, [3, 5])],
        [("y", TensorProto.FLOAT, None)],
        weights,
    )
    (found,), _ = outputs(convert("onnx2torch", {"path": path}, {"x": x}).result, {"x": x})
    assert np.array_equal(found, x[1:, 1:-1:2] if steps[0] > 0 else x[::-1, 1:])


def test_an_operator_that_onnx2torch_does_not_know(convert, tmp_path):
    path = saved(
        tmp_path / "pool.onnx",
        [helper.make_node("GlobalMaxPool", ["x"], ["y"], "top")],
        [("x", TensorProto.FLOAT, [1, 2, 3, 3])],
        [("y", TensorProto.FLOAT, [1, 2, 1, 1])],
    )
    refused = convert("onnx2torch", {"path": path}, {"x": np.zeros((1, 2, 3, 3), np.float32)})
    assert refused.reason.startswith("pool.onnx: onnx2torch has no translation for the operator GlobalMaxPool")
    details = refused.error["details"]
    assert (details["stage"], details["operator"]) == ("translate", "GlobalMaxPool node 'top'")
    assert details["known"] and details["remedy"]


def test_boxes_need_torchvision(convert, pool, tmp_path):
    if "torchvision" in pool.hello("pytorch").result["packages"]:
        pytest.skip("torchvision is installed")
    floats = TensorProto.FLOAT
    path = saved(
        tmp_path / "nms.onnx",
        [helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["picked"])],
        [("boxes", floats, [1, 5, 4]), ("scores", floats, [1, 2, 5])],
        [("picked", TensorProto.INT64, [None, 3])],
    )
    arrays = {"boxes": np.zeros((1, 5, 4), np.float32), "scores": np.zeros((1, 2, 5), np.float32)}
    refused = convert("onnx2torch", {"path": path}, arrays)
    assert "onnx2torch computes NonMaxSuppression with torchvision" in refused.reason
    assert "Install the torchvision" in refused.error["details"]["remedy"]


def keras_spec(path, **more):
    return {"model": {"format": "keras_h5" if path.suffix == ".h5" else "keras", "path": str(path), **more}}


def test_a_keras_file_runs_on_torch(convert, outputs, keras_files):
    given, wanted = np.load(keras_files / "inputs.npz"), np.load(keras_files / "outputs.npz")
    arrays = {"ids": given["ids"], "an-image": given["image"]}  # not in the model's order: names count
    outcome = convert("keras_torch", keras_spec(keras_files / "net.keras", trust=False), arrays)
    assert outcome.status == "ok", outcome.reason
    result = outcome.result
    assert result["input_names"] == ["ids", "an_image"]
    assert result["output_names"] == ["output.z", "output.best"]  # as the file says, not sorted
    (z, best), row = outputs(result, arrays)
    assert np.abs(z - wanted["z"]).max() < 1e-5 and np.array_equal(best, wanted["best"])
    assert row["oracle"] is not None, row["oracle_reason"]
    assert row["perturbed_by"] == "inputs" and len(row["perturbed"]) == 3


def test_its_weights_have_keras_names(pool, keras_files):
    described = pool.run("pytorch", "pytorch.describe", keras_spec(keras_files / "net.keras"))
    shapes = {each["name"]: each["shape"] for each in described.result["parameters"]}
    assert shapes["weights.embedding/embeddings"] == [13, 6]
    assert [each["name"] for each in described.result["arguments"]] == ["an_image", "ids"]


@pytest.mark.parametrize("name", ["code.keras", "code.h5"])
def test_stored_code_needs_trust(convert, outputs, keras_files, name):
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    refused = convert("keras_torch", keras_spec(keras_files / name, trust=False), {"x": x})
    assert refused.status == "failed" and "code" in refused.reason
    assert "--trust" in refused.error["details"]["remedy"]
    allowed = convert("keras_torch", keras_spec(keras_files / name, trust=True), {"x": x})
    (found,), _ = outputs(allowed.result, {"x": x})
    assert np.array_equal(found, 2 * x)
