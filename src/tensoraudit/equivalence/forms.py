"""What one layer would give with another setting: its own form first, then one form for each known mistake.

A form is what a layer computes; the first one must reproduce the reference's own tensors. Each other form names a cause
and says in a sentence what the candidate does and what to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.emulation import (
    ACTIVATIONS,
    NAMED,
    Pads,
    convolution,
    dense,
    gru,
    layer_normalise,
    lstm,
    normalise,
    same_pads,
)
from tensoraudit.equivalence.layer import Layer

EPSILONS = (1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0)
"""What frameworks and papers use."""


@dataclass(frozen=True, slots=True)
class Form:
    """`compute` takes the layer's input; `cause` is "" for the layer as it is. `does` says what the candidate does
    instead, `fix` what to change."""

    compute: Callable[[Array], Array]
    cause: str = ""
    does: str = ""
    fix: str = ""


def forms(layer: Layer, candidate: Layer, pads: Pads | None = None) -> Iterator[Form]:
    """Yield the forms of the reference's layer: as it is, then wrong in one way each. `pads` are what was put around
    the input of a convolution before it. Nothing for a kind that is not understood."""
    make = _MAKERS.get(layer.kind)
    if make is not None:
        yield from (replace(form, compute=_activated(layer, form.compute)) for form in make(layer, candidate, pads))


def with_activation_of(layer: Layer, candidate: Layer) -> Layer:
    """The reference's layer with the activation that only the candidate's has inside, which stands behind it there."""
    own, other = (NAMED.get(str(each.config.get("activation")), NONE) for each in (layer, candidate))
    if own != NONE or other == NONE or layer.kind not in {"dense", "convolution"}:
        return layer
    outputs = tuple(ACTIVATIONS[other](each.astype(np.float64)) for each in layer.outputs)
    return replace(layer, config={**layer.config, "activation": candidate.config["activation"]}, outputs=outputs)


NONE = "no activation"


def _activated(layer: Layer, compute: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A Keras layer may end in an activation of its own."""
    name = NAMED.get(str(layer.config.get("activation")), "")
    if layer.kind in {"GRU", "LSTM"} or name in {"", NONE}:
        return compute
    return lambda x: ACTIVATIONS[name](compute(x))


def _dense(layer: Layer, candidate: Layer, pads: Pads | None) -> Iterator[Form]:
    kernel, bias = layer.weights.get("kernel"), layer.weights.get("bias")
    if kernel is None or kernel.ndim != 2:
        return
    yield Form(lambda x: dense(x, kernel, bias))
    if kernel.shape[0] == kernel.shape[1]:
        yield Form(
            lambda x: dense(x, kernel.T, bias),
            "kernel-not-transposed",
            "multiplies with the transpose of the reference's kernel; it is square, so that every shape fits",
            "transpose the kernel when the weights are copied: (inputs, outputs) in Keras and Flax, "
            "(outputs, inputs) in PyTorch",
        )
    yield from _without_bias(layer, lambda x: dense(x, kernel, None))


def _without_bias(layer: Layer, compute: Callable[[Array], Array]) -> Iterator[Form]:
    bias = layer.weights.get("bias")
    if bias is not None and bias.any():
        yield Form(compute, "missing-bias", "computes without the bias", "copy the bias, and create the layer with one")


def _convolution(layer: Layer, candidate: Layer, pads: Pads | None) -> Iterator[Form]:
    kernel, bias = layer.weights.get("kernel"), layer.weights.get("bias")
    if kernel is None or _numbers(layer, "dilation", "dilation_rate", "kernel_dilation", default=1) != {1}:
        return
    rank = kernel.ndim - 2
    strides = _sizes(layer.config.get("strides"), rank)
    groups = int(layer.config.get("groups") or layer.config.get("feature_group_count") or 1)
    size = kernel.shape[:rank]
    padded = list(pads or [(0, 0)] * rank)

    def at(how: Callable[[Sequence[int]], Pads], weights: Array = kernel) -> Callable[[Array], Array]:
        return lambda x: convolution(x, weights, strides, how(x.shape[1:-1]), groups) + (0.0 if bias is None else bias)

    def own(space: Sequence[int]) -> Pads:
        mine = _pads(layer, space, size, strides)
        return [(a + c, b + d) for (a, b), (c, d) in zip(padded, mine, strict=True)]

    yield Form(at(own))
    totals = [sum(each) for each in padded]
    space = [size - total for size, total in zip(layer.inputs[0].shape[1:-1], totals, strict=True)]
    for name, how in _paddings(size, strides).items():
        yield Form(
            at(how),
            "padding-shift",
            f"pads {name}; the reference pads {own(space)} (beginning, end of each axis)",
            "pad by hand as the reference does before a convolution without padding: TensorFlow's SAME puts the odd "
            "row at the end, a symmetric padding shifts the image at stride 2",
        )
    yield Form(
        at(own, np.flip(kernel, axis=tuple(range(rank)))),
        "kernel-flipped",
        "applies the kernel flipped in space",
        "flip the kernel when the weights are copied",
    )
    if rank == 2 and size[0] == size[1]:
        yield Form(
            at(own, np.swapaxes(kernel, 0, 1)),
            "kernel-axes",
            "applies the kernel with height and width exchanged",
            "keep height before width when the kernel is transposed: (3, 2, 0, 1) from HWIO to OIHW",
        )
    yield from _without_bias(layer, lambda x: convolution(x, kernel, strides, own(x.shape[1:-1]), groups))


def _paddings(size: Sequence[int], strides: Sequence[int]) -> dict[str, Callable[[Sequence[int]], Pads]]:
    """Other ways to pad that give the same shape at some size."""
    half = [(width // 2, width // 2) for width in size]
    return {
        f"symmetrically {half}": lambda _: half,
        "like TensorFlow's SAME": lambda space: same_pads(space, size, strides),
        "like SAME with the odd row at the beginning": lambda space: [
            (high, low) for low, high in same_pads(space, size, strides)
        ],
    }


def _pads(layer: Layer, space: Sequence[int], size: Sequence[int], strides: Sequence[int]) -> Pads:
    padding = layer.config.get("padding")
    if isinstance(padding, str):
        return same_pads(space, size, strides) if padding.lower() == "same" else [(0, 0)] * len(size)
    if isinstance(padding, list) and padding and isinstance(padding[0], list):
        return [(int(low), int(high)) for low, high in padding]
    return [(each, each) for each in _sizes(padding or 0, len(size))]


def _sizes(value: Any, rank: int) -> list[int]:
    """One number for each axis; nothing given counts as 1."""
    values = value if isinstance(value, (list, tuple)) else [1 if value is None else value]
    return [int(each) for each in (values if len(values) == rank else list(values) * rank)][:rank]


def _numbers(layer: Layer, *names: str, default: int) -> set[int]:
    found = next((layer.config[name] for name in names if layer.config.get(name) is not None), default)
    return set(found) if isinstance(found, list) else {found}


def _batch_normalisation(layer: Layer, candidate: Layer, pads: Pads | None) -> Iterator[Form]:
    if not {"mean", "variance"} <= layer.weights.keys():
        return
    own = float(layer.config.get("epsilon") or 0.0)
    yield Form(lambda x: normalise(x, layer.weights, own))
    for other in _other_epsilons(own, candidate):
        yield Form(
            lambda x, other=other: normalise(x, layer.weights, other),  # type: ignore[misc]
            "batchnorm-epsilon",
            f"divides by sqrt(variance + {other:g}), the reference by sqrt(variance + {own:g})",
            f"set its epsilon to {own:g}",
        )
    yield Form(
        lambda x: normalise(x, layer.weights, own, own_statistics=True),
        "batch-statistics",
        "normalises by the statistics of the batch, the reference by its running ones",
        "call eval() on the model, or pass training=False (use_running_average=True in Flax)",
    )


def _other_epsilons(own: float, candidate: Layer) -> list[float]:
    told = candidate.config.get("epsilon")
    values = ([] if told is None else [float(told)]) + list(EPSILONS)
    return [each for each in dict.fromkeys(values) if each != own]


def _layer_normalisation(layer: Layer, candidate: Layer, pads: Pads | None) -> Iterator[Form]:
    own = float(layer.config.get("epsilon") or 0.0)
    yield Form(lambda x: layer_normalise(x, layer.weights, own))
    for other in _other_epsilons(own, candidate):
        yield Form(
            lambda x, other=other: layer_normalise(x, layer.weights, other),  # type: ignore[misc]
            "layernorm-epsilon",
            f"divides by sqrt(variance + {other:g}), the reference by sqrt(variance + {own:g})",
            f"set its epsilon to {own:g}",
        )


def _gru(layer: Layer, candidate: Layer, pads: Pads | None) -> Iterator[Form]:
    gates = layer.gates
    if not gates or _stacked(layer):
        return
    own = bool(layer.config.get("reset_after", True))
    yield Form(lambda x: gru(_start(layer, x), gates, reset_after=own))
    words = ("after the recurrent product", "before it")
    yield Form(
        lambda x: gru(_start(layer, x), gates, reset_after=not own),
        "reset-after",
        f"applies the reset gate {words[own]}, the reference {words[not own]} (reset_after={own})",
        "PyTorch's and Flax's GRU are reset_after=True; for False write the cell by hand, or train with True",
    )
    for order in permutations("zrn"):
        if "".join(order) != "zrn":
            swapped = _reordered(gates, dict(zip("zrn", order, strict=True)))
            yield Form(
                lambda x, swapped=swapped: gru(_start(layer, x), swapped, reset_after=own),  # type: ignore[misc]
                "gate-order",
                f"takes the reference's gates {', '.join(order)} for z, r, n",
                "reorder the blocks of kernels and biases when the weights are copied: Keras has z, r, h, PyTorch "
                "r, z, n, ONNX z, r, h",
            )


def _lstm(layer: Layer, candidate: Layer, pads: Pads | None) -> Iterator[Form]:
    gates = layer.gates
    if not gates or _stacked(layer):
        return
    yield Form(lambda x: lstm(_start(layer, x), gates))
    for order in permutations("ifgo"):
        if "".join(order) != "ifgo":
            swapped = _reordered(gates, dict(zip("ifgo", order, strict=True)))
            yield Form(
                lambda x, swapped=swapped: lstm(_start(layer, x), swapped),  # type: ignore[misc]
                "gate-order",
                f"takes the reference's gates {', '.join(order)} for i, f, g, o",
                "reorder the blocks of kernels and biases when the weights are copied: Keras and PyTorch have "
                "i, f, g, o, ONNX i, o, f, c",
            )


def _stacked(layer: Layer) -> bool:
    return bool(layer.config.get("bidirectional")) or int(layer.config.get("num_layers") or 1) > 1


def _start(layer: Layer, x: Array) -> Array:
    return x[:, ::-1] if layer.config.get("go_backwards") else x


def _reordered(gates: Mapping[tuple[str, str, str], Array], order: Mapping[str, str]) -> dict[Any, Array]:
    """`order` is from a gate to the one whose weights it gets."""
    return {
        (kind, part, gate): gates[kind, part, own]
        for gate, own in order.items()
        for kind, part, _ in gates
        if (kind, part, own) in gates
    }


_MAKERS: Mapping[str, Callable[[Layer, Layer, Pads | None], Iterator[Form]]] = {
    "dense": _dense,
    "convolution": _convolution,
    "batch normalisation": _batch_normalisation,
    "layer normalisation": _layer_normalisation,
    "GRU": _gru,
    "LSTM": _lstm,
}


def with_weights_of(layer: Layer, candidate: Layer) -> Layer | None:
    """The reference's layer with the candidate's weights; None where these are not all known."""
    weights = {kind: candidate.weights[kind] for kind in layer.weights if kind in candidate.weights}
    if weights.keys() != layer.weights.keys() or any(weights[k].shape != layer.weights[k].shape for k in weights):
        return None
    if not layer.gates:
        return replace(layer, weights=weights)
    return replace(layer, weights=weights, gates=candidate.gates) if candidate.gates else None
