"""Layers in plain numpy and double precision, channels last: what a layer would give with another setting.

Every emulation is first held against the reference's own tensors (`hypotheses`); one that does not reproduce them says
nothing of the candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array

Pads = Sequence[tuple[int, int]]
Gates = Mapping[tuple[str, str, str], Array]
"""Weights of a cell by (kernel or bias, input or state or both, gate); kernels are (inputs, units)."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _softmax(axis: int) -> Callable[[Array], Array]:
    def softmax(x: Array) -> Array:
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axis, keepdims=True))

    return softmax


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "no activation": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu (erf)": lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    "gelu (tanh)": _gelu_tanh,
    "gelu (sigmoid)": lambda x: x * _sigmoid(1.702 * x),
    "silu": lambda x: x * _sigmoid(x),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu6": lambda x: np.clip(x, 0.0, 6.0),
    "leaky relu 0.01": lambda x: np.where(x >= 0.0, x, 0.01 * x),
    "leaky relu 0.2": lambda x: np.where(x >= 0.0, x, 0.2 * x),
    "leaky relu 0.3": lambda x: np.where(x >= 0.0, x, 0.3 * x),
    "elu": lambda x: np.where(x >= 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "hard sigmoid (x/6 + 1/2)": lambda x: np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "hard sigmoid (0.2 x + 1/2)": lambda x: np.clip(0.2 * x + 0.5, 0.0, 1.0),
    "hard swish": lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "softmax over the last axis": _softmax(-1),
    "softmax over the second axis": lambda x: _softmax(1)(x) if x.ndim > 1 else x,
    "softmax over the first axis": _softmax(0),
}
"""What stands between layers, element by element but for the softmaxes; names are sentences' parts."""

GELUS = ("gelu (erf)", "gelu (tanh)", "gelu (sigmoid)")
NAMED: Mapping[str, str] = {
    **{"linear": "no activation", "None": "no activation", "gelu": "gelu (erf)", "swish": "silu", "silu": "silu"},
    **{"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softmax": "softmax over the last axis", "elu": "elu"},
    **{"relu6": "relu6", "softplus": "softplus", "hard_sigmoid": "hard sigmoid (x/6 + 1/2)"},
    "hard_swish": "hard swish",
}
"""The activations that layers have in their own configuration, as Keras names them."""


def dense(x: Array, kernel: Array, bias: Array | None) -> Array:
    """A product over the last axis; `kernel` is (inputs, outputs)."""
    y = x.astype(np.float64) @ kernel.astype(np.float64)
    return y if bias is None else y + bias


def convolution(x: Array, kernel: Array, strides: Sequence[int], pads: Pads, groups: int) -> Array:
    """A convolution (as frameworks call a correlation) without bias; `x` is (batch, *space, channels), `kernel`
    (*space, i, o)."""
    rank = x.ndim - 2
    padded = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    sizes = [(padded.shape[1 + n] - kernel.shape[n]) // strides[n] + 1 for n in range(rank)]
    weights = kernel.astype(np.float64)
    result: Array = np.zeros((x.shape[0], *sizes, kernel.shape[-1]))
    for place in np.ndindex(*kernel.shape[:rank]):
        ends = [place[n] + strides[n] * (sizes[n] - 1) + 1 for n in range(rank)]
        steps = tuple(slice(place[n], ends[n], strides[n]) for n in range(rank))
        window = np.split(padded[(slice(None), *steps)], groups, axis=-1)
        parts = np.split(weights[place], groups, axis=-1)
        result += np.concatenate([each @ part for each, part in zip(window, parts, strict=True)], axis=-1)
    return result


def same_pads(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The padding of TensorFlow's SAME: what is odd goes to the end."""
    pads = []
    for length, width, step in zip(size, kernel, strides, strict=True):
        total = max((-(-length // step) - 1) * step + width - length, 0)
        pads.append((total // 2, total - total // 2))
    return pads


def normalise(x: Array, weights: Mapping[str, Array], epsilon: float, *, own_statistics: bool = False) -> Array:
    """Batch normalisation over the last axis, by its running statistics or by those of the batch."""
    x = x.astype(np.float64)
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axis=axes) if own_statistics else weights["mean"].astype(np.float64)
    variance = x.var(axis=axes) if own_statistics else weights["variance"].astype(np.float64)
    return scaled((x - mean) / np.sqrt(variance + epsilon), weights)


def layer_normalise(x: Array, weights: Mapping[str, Array], epsilon: float) -> Array:
    """Normalisation of each row over the last axis."""
    x = x.astype(np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    return scaled(centred / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon), weights)


def scaled(x: Array, weights: Mapping[str, Array]) -> Array:
    """Times gamma, plus beta, where there are any."""
    gamma, beta = weights.get("gamma"), weights.get("beta")
    x = x if gamma is None else x * gamma
    return x if beta is None else x + beta


def gru(x: Array, weights: Gates, *, reset_after: bool) -> Array:
    """All states of a GRU that starts at zero; `x` is (batch, steps, inputs)."""
    gate = _gate_inputs(x, weights, "zrn")
    units = weights["kernel", "state", "z"].shape[1]
    state, states = np.zeros((x.shape[0], units)), []
    bias = {each: _bias(weights, "state", each) for each in "zrn"}
    kernel = {each: weights["kernel", "state", each].astype(np.float64) for each in "zrn"}
    for step in range(x.shape[1]):
        z = _sigmoid(gate["z"][:, step] + state @ kernel["z"] + bias["z"])
        r = _sigmoid(gate["r"][:, step] + state @ kernel["r"] + bias["r"])
        inner = r * (state @ kernel["n"] + bias["n"]) if reset_after else (r * state) @ kernel["n"] + bias["n"]
        state = (1.0 - z) * np.tanh(gate["n"][:, step] + inner) + z * state
        states.append(state)
    return np.stack(states, axis=1)


def lstm(x: Array, weights: Gates) -> Array:
    """All outputs of an LSTM that starts at zero; `x` is (batch, steps, inputs)."""
    gate = _gate_inputs(x, weights, "ifgo")
    units = weights["kernel", "state", "i"].shape[1]
    state, memory, states = np.zeros((x.shape[0], units)), np.zeros((x.shape[0], units)), []
    bias = {each: _bias(weights, "state", each) for each in "ifgo"}
    kernel = {each: weights["kernel", "state", each].astype(np.float64) for each in "ifgo"}
    for step in range(x.shape[1]):
        i, f, g, o = (gate[each][:, step] + state @ kernel[each] + bias[each] for each in "ifgo")
        memory = _sigmoid(f) * memory + _sigmoid(i) * np.tanh(g)
        state = _sigmoid(o) * np.tanh(memory)
        states.append(state)
    return np.stack(states, axis=1)


def _gate_inputs(x: Array, weights: Gates, gates: str) -> dict[str, Array]:
    x = x.astype(np.float64)
    return {
        gate: x @ weights["kernel", "input", gate] + _bias(weights, "input", gate) + _bias(weights, "both", gate)
        for gate in gates
    }


def _bias(weights: Gates, part: str, gate: str) -> Any:
    return weights.get(("bias", part, gate), 0.0)


def resized(x: Array, size: Sequence[int], way: str) -> Array:
    """A 2-D image at another size, (batch, height, width, channels). `way` is a key of `RESIZINGS`."""
    for axis, length in enumerate(size, start=1):
        x = np.moveaxis(np.tensordot(_weights(x.shape[axis], length, way), x, axes=(1, axis)), 0, axis)
    return x


RESIZINGS: Mapping[str, tuple[str, bool]] = {
    "bilinear, half-pixel centres": ("half", True),
    "bilinear, align_corners": ("corners", True),
    "bilinear, asymmetric": ("asymmetric", True),
    "nearest, asymmetric": ("asymmetric", False),
    "nearest, half-pixel centres": ("half", False),
    "nearest, half-pixel centres, ties to the smaller": ("half down", False),
}


def _weights(old: int, new: int, way: str) -> Array:
    """(new, old): how much of each old element is in each new one."""
    where, blend = RESIZINGS[way]
    index = np.arange(new, dtype=np.float64)
    at = {
        "half": (index + 0.5) * old / new - 0.5,
        "half down": (index + 0.5) * old / new - 0.5,
        "corners": index * (old - 1) / max(new - 1, 1),
        "asymmetric": index * old / new,
    }[where]
    matrix = np.zeros((new, old))
    if not blend:
        nearest = {"half": np.floor(at + 0.5), "half down": np.ceil(at - 0.5)}.get(where, np.floor(at))
        matrix[np.arange(new), np.clip(nearest, 0, old - 1).astype(int)] = 1.0
        return matrix
    at = np.clip(at, 0, old - 1)
    low = np.floor(at).astype(int)
    high, share = np.minimum(low + 1, old - 1), at - low
    np.add.at(matrix, (np.arange(new), low), 1.0 - share)
    np.add.at(matrix, (np.arange(new), high), share)
    return matrix
