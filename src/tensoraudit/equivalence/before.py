"""What the reference does before a layer, and what else a port may do there: another activation, another change of
shape, dropout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensoraudit.equivalence.between import AS_IT_IS, NONE, Way, find_way, ways
from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.emulation import GELUS, Pads
from tensoraudit.equivalence.forms import Form
from tensoraudit.equivalence.layer import Layer, channels_last

Sources = Sequence[tuple[Array, Array]]
"""Pairs of tensors of both sides that may lie before a layer, in the reference's layout, the nearest first."""

ROUNDINGS = 8.0


def views(arrays: Sequence[Array], shape: Sequence[int]) -> list[Array]:
    """Tensors of the candidate that have the reference's shape: as they are, channels last, one state of a sequence."""
    found = []
    for array in arrays:
        shapes = [array, channels_last(array)]
        if array.ndim == len(shape) + 1:
            shapes += [array[0], array[:, -1]] if array.ndim == 3 else [array[0]]
        fitting = [each for each in shapes if each.shape == tuple(shape)]
        found += fitting[:1] if len(fitting) < 2 or fitting[1] is array else fitting
    return found


@dataclass(frozen=True, slots=True)
class Before:
    """What the reference does before the layer: to which tensor, and what the candidate's own tensor is there."""

    way: Way
    source: Array
    pads: Pads | None
    shape: tuple[int, ...]

    def input(self) -> Array:
        """The layer's input, made of the candidate's own tensor."""
        made = self.way.of(self.source, self.shape)
        assert made is not None
        return made


def what_is_before(reference: Layer, sources: Sources) -> Before | None:
    """The nearest tensor and the way from it to the layer's input, as the reference's own tensors show."""
    aim = reference.inputs[0]
    for ours, theirs in sources:
        way = find_way(ours, aim, ROUNDINGS * float(np.finfo(np.float32).eps))
        if way is not None:
            pads = _pads(way) if reference.kind == "convolution" else None
            plain = way if pads is None else replace(way, structure=AS_IT_IS)
            return Before(plain, theirs, pads, theirs.shape if pads is not None else aim.shape)
    return None


def _pads(way: Way) -> Pads | None:
    if not way.structure.startswith("padded"):
        return None
    numbers = [int(each) for each in re.findall(r"\d+", way.structure)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def unpadded(reference: Layer, before: Before) -> Array:
    """The input of a convolution without what was padded before it."""
    assert before.pads is not None
    cuts = [slice(low, -high or None) for low, high in before.pads]
    return reference.inputs[0][(slice(None), *cuts, slice(None))]


def alike(arrays: Sequence[Array], shape: Sequence[int]) -> Array | None:
    """The first tensor that has the shape in some layout."""
    return next(iter(views(arrays, shape)), None)


def other_ways(plain: Form, before: Before) -> Iterator[tuple[Form, Array]]:
    """The same layer behind another activation or another change of shape."""
    for way, made in ways(before.source, before.shape):
        same = (way.activation == before.way.activation, way.structure == before.way.structure)
        if sum(same) == 1:
            yield Form(plain.compute, *_named(before.way, way)), made


def _named(ours: Way, theirs: Way) -> tuple[str, str, str]:
    """Cause, sentence and fix of another way."""
    if ours.activation == theirs.activation:
        cause = next((cause for word, cause in _STRUCTURES.items() if ours.structure.startswith(word)), "other-shape")
        does = f"takes its input {theirs.structure}, the reference {ours.structure}"
        return cause, does, _FIXES[cause]
    before = f"has {theirs.activation} before it, the reference {ours.activation}"
    if ours.activation in GELUS and theirs.activation in GELUS:
        return "gelu-variant", before, _FIXES["gelu-variant"]
    if ours.activation.startswith("softmax") and theirs.activation.startswith("softmax"):
        return "softmax-axis", before, "give the axis of the softmax by name"
    if theirs.activation == NONE:
        return "missing-activation", before, f"apply {ours.activation}"
    if ours.activation == NONE:
        return "extra-activation", before, f"take {theirs.activation} out"
    return "other-activation", before, f"apply {ours.activation} instead"


_STRUCTURES: Mapping[str, str] = {
    "flattened": "flatten-order",
    "padded": "padding-shift",
    "pooled": "other-pooling",
    "resized": "resize-mode",
}
_FIXES: Mapping[str, str] = {
    "flatten-order": "flatten in the reference's order (permute to channels last, or first, before it), or permute the "
    "rows of the kernel behind it",
    "padding-shift": "pad by hand as the reference does",
    "other-pooling": "use the reference's kind of pooling",
    "resize-mode": "give the resize the reference's coordinates: align_corners and half-pixel centres must match",
    "other-shape": "change the shape as the reference does",
    "gelu-variant": "give the variant by name: approximate=False or True in Keras and Flax (Flax's default is True), "
    "approximate='none' or 'tanh' in PyTorch",
}
DROPOUT = (
    "dropout-active",
    "drops some of its inputs and scales the others",
    "call eval() on the model, or pass training=False (deterministic=True in Flax)",
)


def dropped_input(candidate: Layer, x: Array) -> Array | None:
    """The candidate's own input of the layer, if it is x with some elements dropped and the others scaled by one
    factor; None otherwise."""
    own = alike(candidate.inputs, x.shape)
    if own is None or not x.any():
        return None
    kept = (own != 0) & (np.abs(x) > 1e-2 * np.abs(x).max())  # where one rounding does not move the scale
    dropped = (own == 0) & (x != 0)
    if not kept.any() or not 0.01 < dropped.mean() < 0.99:
        return None
    scale = own[kept] / x[kept]
    middle = float(np.median(scale))
    return own if middle > 1.001 and float(np.abs(scale - middle).max()) < 1e-3 * middle else None
