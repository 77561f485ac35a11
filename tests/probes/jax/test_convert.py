"""jax.convert: PyTorch's programs by torchax and Keras files; results against PyTorch and TensorFlow."""

import os
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # torch's own, while it exports

DRAWS = np.random.default_rng(0)
IMAGE = DRAWS.standard_normal((2, 3, 11, 7), dtype=np.float32)
IDS = DRAWS.integers(0, 13, (2, 5))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, image):
        return torch.relu(self.norm(self.conv(image))).mean((2, 3))


class Tokens(nn.Module):
    """Integers in, two outputs whose names are not sorted, one of them 64 bits wide."""

    def __init__(self):
        super().__init__()
        self.table, self.lstm = nn.Embedding(13, 6), nn.LSTM(6, 4, batch_first=True)
        self.block = nn.TransformerEncoderLayer(4, 2, 7, batch_first=True)

    def forward(self, ids):
        hidden, _ = self.lstm(self.table(ids))
        hidden = self.block(hidden)
        return {"tokens": hidden, "best": hidden.argmax(-1)}


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.tensor([10.0, 20.0]))

    def forward(self, x):
        return x + self.shift


class Constants(nn.Module):
    """A constant that forward makes: in the lowered graph it comes before the buffer of a submodule, and torchax's own
    function takes each for the other, for [[12, 23], [22, 63]]."""

    def __init__(self):
        super().__init__()
        self.inner = Shift()

    def forward(self, x):
        return self.inner(x * torch.tensor([2.0, 3.0]))


class Unknown(nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x) + 1


@pytest.fixture
def program(tmp_path):
    """A `.pt2` file of a module, and the results of PyTorch itself."""

    def make(module, *arrays, dynamic=None):
        torch.manual_seed(0)
        module, tensors = module().eval(), tuple(map(torch.from_numpy, arrays))
        path = tmp_path / "model.pt2"
        torch.export.save(torch.export.export(module, tensors, dynamic_shapes=dynamic), path)
        with torch.no_grad():
            return {"format": "exported_program", "path": str(path), "trust": False, "seed": 0}, module(*tensors)

    return make


@pytest.fixture
def convert(pool, sample, tmp_path):
    def call(tool, spec, **arrays):
        if tool == "torchax" and "torchax" not in pool.hello("jax").result["packages"]:
            pytest.skip("torchax is not installed beside JAX")
        more = {"tool": tool, "inputs": sample(**arrays), "dynamic": {}, "opset": None, "folder": str(tmp_path)}
        return pool.run("jax", "jax.convert", {"model": spec, **more})

    return call


@pytest.fixture
def ran(pool, sample, arrays):
    """The outputs of a converted model in the order of its result, and the row of its run."""

    def call(result, inputs, **params):
        outcome = pool.run("jax", "jax.run", {**result["params"], "inputs": [sample(**inputs)], **params})
        (row,) = outcome.result["runs"]
        assert row["error"] is None, row["error"]
        found = arrays(row["outputs"])
        return [found[name] for name in result["output_names"]], row

    return call


def test_a_cnn_with_a_dynamic_batch(program, convert, ran, pool, arrays):
    spec, expected = program(Cnn, IMAGE, dynamic={"image": {0: torch.export.Dim("batch")}})
    outcome = convert("torchax", spec, image=IMAGE)
    assert outcome.status == "ok", outcome.reason
    result = outcome.result
    assert result["params"]["model"] == {**spec, "format": "torchax"}
    assert (result["input_names"], result["output_names"]) == (["image"], ["output"])
    (found,), row = ran(result, {"image": IMAGE})
    assert np.abs(found - expected.numpy()).max() < 1e-6
    oracle = arrays(row["oracle"])["output"]
    assert oracle.dtype == np.float64 and 0 < np.abs(oracle - found).max() < 1e-6
    assert len(row["perturbed"]) == 3
    (more,), _ = ran(result, {"image": np.concatenate([IMAGE, IMAGE[:1]])}, oracle=False, perturbations=0, repeat=1)
    assert more.shape == (3, 4)
    described = pool.run("jax", "jax.describe", result["params"]).result
    assert [each["name"] for each in described["parameters"]] == [
        *("params/conv.weight", "params/conv.bias", "params/norm.weight", "params/norm.bias")
    ]
    assert [each["name"] for each in described["buffers"]] == ["buffers/norm.running_mean", "buffers/norm.running_var"]


def test_sizes_that_the_program_fixes_are_refused(program, convert, pool, sample):
    spec, _ = program(Cnn, IMAGE)
    result = convert("torchax", spec, image=IMAGE).result
    accepted = pool.run("jax", "jax.accepts", {**result["params"], "inputs": [sample(image=IMAGE[:1])]}).result
    assert "image has the shape [1, 3, 11, 7], but the program was exported for" in accepted["accepted"]["s"]


def test_names_keep_their_order_and_narrowed_integers_are_told(program, convert, ran):
    spec, expected = program(Tokens, IDS)
    result = convert("torchax", spec, ids=IDS).result
    assert result["output_names"] == ["output.tokens", "output.best"]
    assert result["dtype_changes"] == {"ids": ["int64", "int32"], "output.best": ["int64", "int32"]}
    (tokens, best), row = ran(result, {"ids": IDS})
    assert np.abs(tokens - expected["tokens"].numpy()).max() < 1e-6
    assert np.array_equal(best, expected["best"].numpy())
    assert row["perturbed_by"] == "weights"


def test_constants_do_not_take_the_places_of_buffers(program, convert, ran):
    x = np.array([[1, 1], [2, 3]], np.float32)
    spec, _ = program(Constants, x)
    (found,), _ = ran(convert("torchax", spec, x=x).result, {"x": x})
    assert found.tolist() == [[12, 23], [14, 29]]


def test_an_operator_that_torchax_does_not_know(program, convert):
    x = np.ones((2, 3), np.float32)
    refused = convert("torchax", program(Unknown, x)[0], x=x)
    assert refused.reason == "torchax has no JAX translation for the operator aten.special_airy_ai.default"
    details = refused.error["details"]
    assert (details["stage"], details["operator"]) == ("translate", "aten.special_airy_ai.default")
    assert details["source"]["text"] == "return torch.special.airy_ai(x) + 1"
    assert details["remedy"]


def test_an_unknown_tool_is_named_with_those_that_exist(convert):
    refused = convert("magic", {}, x=IMAGE)
    assert refused.status == "unsupported" and "torchax, keras_jax" in refused.reason


KERAS = """
import sys
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)
folder = sys.argv[1]
image, ids = keras.Input((11, 7, 3), name="image"), keras.Input((5,), name="ids", dtype="int32")
h = layers.BatchNormalization(beta_initializer="ones")(layers.Conv2D(4, 3, strides=2, padding="same")(image))
h = layers.Concatenate()([layers.Flatten()(h), layers.LSTM(3)(layers.Embedding(13, 6)(ids))])
z = layers.Dense(2, name="z")(h)
model = keras.Model([image, ids], {"z": z, "a": keras.ops.tanh(z)})
model.save(folder + "/net.keras")
x = keras.Input((4,), name="x")
keras.Model(x, layers.Lambda(lambda t: t * 2)(x)).save(folder + "/code.keras")
given = np.load(folder + "/inputs.npz")
out = model([given["image"], given["ids"]], training=False)
np.savez(folder + "/outputs.npz", **{name: np.asarray(each) for name, each in out.items()})
"""


@pytest.fixture(scope="module")
def keras_files(jax_python, tmp_path_factory):
    """Keras models saved by the TensorFlow backend, with its own results."""
    folder = tmp_path_factory.mktemp("keras")
    np.savez(folder / "inputs.npz", image=IMAGE.transpose(0, 2, 3, 1), ids=IDS.astype(np.int32))
    environment = {"KERAS_BACKEND": "tensorflow", "PATH": os.environ.get("PATH", ""), "HOME": str(folder)}
    made = subprocess.run([jax_python, "-c", KERAS, str(folder)], env=environment, capture_output=True, timeout=300)
    if b"No module named" in made.stderr:
        pytest.skip("TensorFlow with Keras is not installed beside JAX")
    assert made.returncode == 0, made.stderr
    return folder


def test_a_keras_file_runs_on_jax(convert, ran, pool, arrays, keras_files):
    wanted = np.load(keras_files / "outputs.npz")
    inputs = dict(np.load(keras_files / "inputs.npz"))
    spec = {"format": "keras", "path": str(keras_files / "net.keras"), "trust": False}
    outcome = convert("keras_jax", spec, **inputs)
    assert outcome.status == "ok", outcome.reason
    assert outcome.result["output_names"] == ["output.z", "output.a"]
    (z, a), row = ran(outcome.result, inputs)
    assert np.abs(z - wanted["z"]).max() < 1e-5 and np.abs(a - wanted["a"]).max() < 1e-5
    assert arrays(row["oracle"])["output.z"].dtype == np.float64
    described = pool.run("jax", "jax.describe", {"model": spec}).result
    shapes = {each["name"]: each["shape"] for each in [*described["parameters"], *described["buffers"]]}
    assert shapes["params/embedding/embeddings"] == [13, 6]
    assert shapes["state/batch_normalization/moving_variance"] == [4]


def test_stored_code_needs_trust(convert, ran, keras_files):
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    spec = {"format": "keras", "path": str(keras_files / "code.keras")}
    refused = convert("keras_jax", {**spec, "trust": False}, x=x)
    assert "stores Python code" in refused.reason and "--trust" in refused.error["details"]["remedy"]
    (found,), _ = ran(convert("keras_jax", {**spec, "trust": True}, x=x).result, {"x": x})
    assert np.array_equal(found, 2 * x)
