"""A layer of one side in the form in which both sides can be compared: weights, settings and tensors, channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.parameter import Parameter
from tensoraudit.equivalence.recurrent import gate_arrays

KINDS: Mapping[str, tuple[str, ...]] = {
    "convolution": ("Conv1D", "Conv2D", "Conv3D", "Conv1d", "Conv2d", "Conv3d", "Conv"),
    "dense": ("Dense", "Linear"),
    "batch normalisation": ("BatchNormalization", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNorm"),
    "layer normalisation": ("LayerNormalization", "LayerNorm"),
    "GRU": ("GRU", "GRUCell"),
    "LSTM": ("LSTM", "LSTMCell", "OptimizedLSTMCell"),
}
"""Kinds of layers that are understood, and the classes of all frameworks that are one."""

SINGLE = float(np.finfo(np.float32).eps)
ROUNDING: Mapping[str, float] = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""By dtype; any other one is computed in single precision at least."""


@dataclass(frozen=True, slots=True)
class Layer:
    """`weights` are by kind, kernels as (*space, i, o); `gates` those of a recurrent cell. `inputs` and `outputs` are
    the tensors of one run, possibly none. `names` are the parameters' own names by kind,
    `dtypes` what they are held in. `calls` tells how often one run calls it; of several calls the first inputs and the
    last outputs are known, which do not belong together."""

    path: str
    cls: str
    kind: str
    config: Mapping[str, Any]
    weights: Mapping[str, Array] = field(default_factory=dict)
    gates: Mapping[tuple[str, str, str], Array] = field(default_factory=dict)
    inputs: tuple[Array, ...] = ()
    outputs: tuple[Array, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    dtypes: frozenset[str] = frozenset()
    calls: int = 1

    @property
    def rounding(self) -> float:
        """The distance of two neighbours near 1 in the coarsest dtype that its weights are held in."""
        return max((ROUNDING.get(each, SINGLE) for each in self.dtypes), default=SINGLE)

    @property
    def title(self) -> str:
        """How a sentence calls it: `norm (BatchNorm2d)`."""
        return f"{self.path or 'the model'} ({self.cls})"


def make_layer(
    row: Mapping[str, Any], parameters: Sequence[Parameter], inputs: Sequence[Array], outputs: Sequence[Array]
) -> Layer:
    """A layer from the row of a `parameters` job, its own parameters, and its tensors in the framework's layout."""
    cls, config = str(row["class"]), row.get("config") or {}
    kind = next((kind for kind, classes in KINDS.items() if cls in classes), "")
    first = config.get("data_format") == "channels_first"
    turn = channels_last if first else (lambda array: array)
    if kind in {"GRU", "LSTM"} and config.get("batch_first") is False:
        turn = _batch_first
    known = [each for each in parameters if each.array.dtype.kind == "f"]
    recurrent = kind in {"GRU", "LSTM"} and all(each.axes for each in known)
    source = row.get("source") or {}
    return Layer(
        str(row["path"]),
        cls,
        kind,
        config,
        {each.kind: canonical(each.array, each.axes) for each in known if each.axes and not each.gates},
        gate_arrays(known) if recurrent else {},
        tuple(turn(array) for array in inputs),
        tuple(turn(array) for array in outputs),
        {each.kind: each.name for each in known},
        f"{source['path']}:{source['line']}" if source else "",
        frozenset(each.dtype for each in known if each.dtype),
        int(row.get("calls") or 1),
    )


def channels_last(array: Array) -> Array:
    """A tensor of (batch, channels, *space) as (batch, *space, channels)."""
    return np.moveaxis(array, 1, -1) if array.ndim >= 3 else array


def _batch_first(array: Array) -> Array:
    return np.swapaxes(array, 0, 1) if array.ndim == 3 else array


def canonical(array: Array, axes: str) -> Array:
    """A kernel with its axes in the order d, h, w, i, o; anything else as it is. An upper-case axis is flipped back."""
    flipped = tuple(place for place, axis in enumerate(axes) if axis.isupper())
    array = np.flip(array, axis=flipped) if flipped else array
    order = [axes.lower().index(axis) for axis in "dhwimo" if axis in axes.lower()]
    return array.transpose(order) if "i" in axes and len(order) == array.ndim else array
