"""Layers in numpy against PyTorch's own."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from tensoraudit.equivalence import emulation
from tensoraudit.equivalence.emulation import ACTIVATIONS, convolution, gru, lstm, normalise, resized, same_pads


def draw(*shape, seed=5):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def last(tensor):
    return np.moveaxis(tensor.numpy(), 1, -1)


X = draw(2, 5, 7, 11)  # batch, channels, height, width
T = torch.from_numpy(X)


@pytest.mark.parametrize(
    ("stride", "padding", "groups"), [((1, 1), (0, 0), 1), ((2, 3), (1, 2), 1), ((1, 2), (1, 1), 5)]
)
def test_convolution(stride, padding, groups):
    weight = draw(10, 5 // groups, 3, 5)
    expected = functional.conv2d(T, torch.from_numpy(weight), None, stride, padding, groups=groups)
    kernel = weight.transpose(2, 3, 1, 0)
    got = convolution(last(T), kernel, stride, [(each, each) for each in padding], groups)
    np.testing.assert_allclose(got, last(expected), atol=1e-12)


def test_convolution_in_one_dimension():
    x, weight = draw(2, 3, 13), draw(7, 3, 4)
    expected = functional.conv1d(torch.from_numpy(x), torch.from_numpy(weight), stride=2)
    got = convolution(np.moveaxis(x, 1, -1), weight.transpose(2, 1, 0), [2], [(0, 0)], 1)
    np.testing.assert_allclose(got, last(expected), atol=1e-12)


def test_same_puts_the_odd_row_at_the_end():
    assert same_pads([22, 21], [3, 3], [2, 2]) == [(0, 1), (1, 1)]
    assert same_pads([5, 6], [2, 4], [1, 1]) == [(0, 1), (1, 2)]


NAMED = {
    "relu": functional.relu,
    "gelu (erf)": functional.gelu,
    "gelu (tanh)": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu6": functional.relu6,
    "leaky relu 0.2": lambda x: functional.leaky_relu(x, 0.2),
    "elu": functional.elu,
    "softplus": functional.softplus,
    "hard sigmoid (x/6 + 1/2)": functional.hardsigmoid,
    "hard swish": functional.hardswish,
    "softmax over the last axis": lambda x: functional.softmax(x, -1),
    "softmax over the second axis": lambda x: functional.softmax(x, 1),
}


@pytest.mark.parametrize("name", NAMED)
def test_activations(name):
    x = 4.0 * X
    np.testing.assert_allclose(ACTIVATIONS[name](x), NAMED[name](torch.from_numpy(x)).numpy(), atol=1e-9)


def test_normalisations():
    module = torch.nn.BatchNorm2d(5, eps=1e-3, dtype=torch.float64)
    for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
        torch.nn.init.uniform_(tensor, 0.1, 1.0)
    weights = {
        "gamma": module.weight.detach().numpy(),
        "beta": module.bias.detach().numpy(),
        "mean": module.running_mean.numpy().copy(),
        "variance": module.running_var.numpy().copy(),
    }
    evaluated, trained = (module.train(mode)(T).detach() for mode in (False, True))
    np.testing.assert_allclose(normalise(last(T), weights, 1e-3), last(evaluated), atol=1e-12)
    before = {**weights, "mean": 0 * weights["mean"], "variance": 0 * weights["variance"]}
    np.testing.assert_allclose(normalise(last(T), before, 1e-3, own_statistics=True), last(trained), atol=1e-12)
    expected = functional.layer_norm(T, (11,), eps=1e-6).numpy()
    np.testing.assert_allclose(emulation.layer_normalise(X, {}, 1e-6), expected, atol=1e-12)


def gates(module, names):
    found = {}
    for part, short in (("input", "ih"), ("state", "hh")):
        kernels = getattr(module, f"weight_{short}_l0").detach().numpy().T
        biases = getattr(module, f"bias_{short}_l0").detach().numpy()
        blocks = zip(names, np.split(kernels, len(names), axis=1), np.split(biases, len(names)), strict=True)
        for gate, kernel, bias in blocks:
            found["kernel", part, gate], found["bias", part, gate] = kernel, bias
    return found


@pytest.mark.parametrize(("kind", "names", "compute"), [("GRU", "rzn", None), ("LSTM", "ifgo", lstm)])
def test_recurrent_layers(kind, names, compute):
    module = getattr(torch.nn, kind)(3, 5, batch_first=True, dtype=torch.float64)
    x = draw(2, 7, 3)
    expected = module(torch.from_numpy(x))[0].detach().numpy()
    weights = gates(module, names)
    got = compute(x, weights) if compute else gru(x, weights, reset_after=True)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_gru_with_the_reset_before_the_product():
    module = torch.nn.GRU(3, 5, batch_first=True, dtype=torch.float64)
    w, x = gates(module, "rzn"), draw(2, 1, 3)
    h = np.zeros((2, 5))

    def sigmoid(v):
        return 1.0 / (1.0 + np.exp(-v))

    for _ in range(1):
        both = {g: x[:, 0] @ w["kernel", "input", g] + w["bias", "input", g] for g in "rzn"}
        z = sigmoid(both["z"] + h @ w["kernel", "state", "z"] + w["bias", "state", "z"])
        n = np.tanh(both["n"] + w["bias", "state", "n"])
        h = (1 - z) * n + z * h
    np.testing.assert_allclose(gru(x, w, reset_after=False)[:, 0], h, atol=1e-12)
    assert np.abs(gru(x, w, reset_after=True)[:, 0] - h).max() > 1e-3


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("bilinear, half-pixel centres", {"mode": "bilinear", "align_corners": False}),
        ("bilinear, align_corners", {"mode": "bilinear", "align_corners": True}),
        ("nearest, asymmetric", {"mode": "nearest"}),
        ("nearest, half-pixel centres", {"mode": "nearest-exact"}),
    ],
)
def test_resizing(way, options):
    for size in ((13, 17), (3, 5)):
        expected = functional.interpolate(T, size=size, **options)
        np.testing.assert_allclose(resized(last(T), size, way), last(expected), atol=1e-12)


def test_a_tie_of_the_nearest_goes_up_or_down():
    x = np.arange(12.0).reshape(1, 12, 1, 1)
    torch_way = functional.interpolate(torch.from_numpy(x.reshape(1, 1, 12, 1)), size=(17, 1), mode="nearest-exact")
    up, down = (
        resized(x, (17, 1), f"nearest, half-pixel centres{more}")[0, :, 0, 0] for more in ("", ", ties to the smaller")
    )
    np.testing.assert_array_equal(up, torch_way.numpy()[0, 0, :, 0])
    assert (up[8], down[8]) == (6.0, 5.0)
