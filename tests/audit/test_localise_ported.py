"""Hand-ported models of other frameworks: the wrong layer is named on both sides with its line (`fixtures/ported`)."""

import os
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.audit.localise_by_value import Search, look_at
from tensoraudit.audit.localise_sides import Side
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool

PORTED = Path(__file__).parents[2] / "fixtures" / "ported"
VARIABLES = {"tensorflow": "TENSORAUDIT_TF_PYTHON", "jax": "TENSORAUDIT_JAX_PYTHON"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(os.environ.get(name) for name in VARIABLES.values()),
        reason=f"set {' and '.join(VARIABLES.values())} to a Python with TensorFlow, JAX and Flax",
    ),
]

TORCH, FLAX = "torch_model.py", "flax_model.py"
CASES = [
    # file and factory of the port, layer of the original, module and line of the port
    (TORCH, "make_padding_symmetric", "conv", "conv", "self.conv(x)"),
    (TORCH, "make_flatten_order", "flat", "", "x.flatten(1)"),
    (TORCH, "make_batchnorm_epsilon", "norm", "norm", "self.norm("),
    (TORCH, "make_gate_order", "gru", "gru", "self.gru(x)"),
    (TORCH, "make_reset_after", "gru", "gru", "x[:, step]"),
    (TORCH, "make_gelu_tanh", "gelu", "", "functional.gelu"),
    (TORCH, "make_dense_not_transposed", "head", "head", "self.head("),
    (TORCH, "make_weight_changed", "conv", "conv", "self.conv(x)"),
    (FLAX, "make_padding_symmetric", "conv", "Ported.conv", "nn.Conv"),
    (FLAX, "make_flatten_order", "dense", "Ported", "x.reshape(x.shape[0], -1)"),
    (FLAX, "make_batchnorm_epsilon", "norm", "Ported.norm", "nn.BatchNorm"),
    (FLAX, "make_gate_order", "gru", "Ported.RNN_0", "nn.RNN"),
    (FLAX, "make_reset_after", "gru", "Ported.gru", "x[:, step]"),
    (FLAX, "make_gelu_tanh", "gelu", "Ported", "nn.gelu"),
    (FLAX, "make_dense_not_transposed", "head", "Ported.head", "nn.Dense(UNITS"),
]
RIGHT = [(TORCH, "make_right"), (TORCH, "make_right_rows"), (TORCH, "make_batchnorm_momentum")]
RIGHT += [(FLAX, "make_right"), (FLAX, "make_batchnorm_momentum")]


def side(file, factory, image):
    role = {TORCH: "pytorch", FLAX: "jax", "keras_model.py": "tensorflow"}[file]
    plain = {"format": "python_object", "module": None, "trust": False, "code": [], "seed": 0}
    arrays = {"image": np.ascontiguousarray(image.transpose(0, 3, 1, 2)) if file == TORCH else image}
    return Side(role, {"model": {**plain, "path": str(PORTED / file), "attribute": factory}}, arrays)


@pytest.fixture(scope="module")
def pool():
    python = {framework: os.environ[name] for framework, name in VARIABLES.items()}
    with Pool(Limits(timeout=300, memory=8 << 30), python, threads=1) as workers:
        yield workers


@pytest.fixture(scope="module")
def image(pool):
    """The sample of the original."""
    original = side("keras_model.py", "make_model", np.zeros((1, 1, 1, 3), np.float32))
    described = pool.run("tensorflow", "tensorflow.describe", dict(original.params))
    assert described.status == "ok", described.reason
    return np.array(pool.get(described.result["samples"][0]["arrays"]["image"]))


@pytest.fixture(scope="module")
def search(pool, image):
    def run(file, factory, original="keras_model.py", made="make_model"):
        surveys = look_at(pool, side(original, made, image), side(file, factory, image))
        assert [each.outcome.status for each in surveys] == ["ok", "ok"]
        return Search(pool, *surveys).run(["output"])

    return run


@pytest.mark.parametrize(("file", "factory", "layer", "module", "text"), CASES)
def test_the_wrong_layer_is_named_on_both_sides(search, file, factory, layer, module, text):
    found = search(file, factory)
    original = (PORTED / "keras_model.py").read_text().splitlines()[found.reference.line - 1]
    port = (PORTED / file).read_text().splitlines()[found.candidate.line - 1]
    assert found.reference.module == f"ported/{layer}" and f'name="{layer}"' in original
    assert found.candidate.module == module and text in port


@pytest.mark.parametrize(("file", "factory"), RIGHT)
def test_a_right_port_is_not_blamed(search, file, factory):
    assert search(file, factory) is None


def test_any_two_frameworks(search):
    """A port against another port: JAX as the reference, PyTorch as the candidate."""
    found = search(TORCH, "make_batchnorm_epsilon", FLAX, "make_right")
    assert (found.reference.module, found.candidate.module) == ("Ported.norm", "norm")
    assert search(TORCH, "make_right", FLAX, "make_right") is None


def test_the_error_is_that_of_the_layer(search):
    found = search(TORCH, "make_batchnorm_epsilon")
    assert found.pair[1].module == "norm"
    assert found.error == pytest.approx(0.053, abs=0.001)
