"""Why a port differs: hypotheses about one layer, tested on its numbers.

The candidate's own tensors go into the test, so that each layer is judged alone and several faults are all found:

    x = what the reference does before the layer, done to the candidate's tensor before it
    the layer agrees            if the reference's layer, applied to x, gives what the candidate's gives
    a hypothesis is confirmed   if the layer in that wrong form, or with that other step before it, does

1. The emulation must first reproduce the reference's own tensors; how far it is from them sets the limit.
2. A hypothesis must come within the limit, and much nearer than the layer as it is.
3. A layer that differs and that no hypothesis explains is said to be unexplained; one that is not understood is said to
   be unknown. Neither is a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import numpy as np

from tensoraudit.equivalence.between import AS_IT_IS, NONE, Way, ways
from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.emulation import GELUS, Pads
from tensoraudit.equivalence.forms import Form, forms, with_weights_of
from tensoraudit.equivalence.layer import Layer, channels_last

State = Literal["agrees", "explained", "unexplained", "unknown"]
Sources = Sequence[tuple[Array, Array]]

UNDERSTOOD = 1e-4
"""An emulation that is further than this from the reference's own tensors, in shares of the largest value, is no
emulation."""

ROUNDINGS = 8.0
NEARER = 8.0
"""A hypothesis must be this much nearer than the layer as it is."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of one layer. `gap` is how far the candidate is from the reference's layer applied to its own
    tensors, in shares of the largest value; `left` the same with the hypothesis. `output` is the candidate's tensor
    behind the layer, in the reference's layout, for the next one."""

    state: State
    reason: str = ""
    cause: str = ""
    does: str = ""
    fix: str = ""
    gap: float = 0.0
    left: float = 0.0
    output: Array | None = None


def explain(reference: Layer, candidate: Layer, sources: Sources, later: Sequence[Array] = ()) -> Explanation:
    """Test a layer of the candidate. `sources` are pairs of tensors that may lie before it, in the reference's layout,
    the nearest first; `later` are tensors behind it, used where its own output was not seen."""
    if not reference.inputs or not reference.outputs:
        return Explanation("unknown", "no tensors of it were seen in the reference")
    for output in outputs_of(reference):
        seen = views(candidate.outputs, output.shape) or views(later, output.shape)
        if seen:
            return _tested(reference, candidate, sources, output, seen)
    return Explanation("unknown", "no output of the candidate's layer has the reference's shape in any layout")


def outputs_of(layer: Layer) -> list[Array]:
    """The layer's outputs; a state without the axis that counts layers of a stack."""
    return [each[0] if each.ndim == 3 and each.shape[0] == 1 and n else each for n, each in enumerate(layer.outputs)]


def views(arrays: Sequence[Array], shape: Sequence[int]) -> list[Array]:
    """Tensors of the candidate that have the reference's shape: as they are, channels last, one state of a sequence."""
    found = []
    for array in arrays:
        shapes = [array, channels_last(array)]
        if array.ndim == len(shape) + 1:
            shapes += [array[0], array[:, -1]] if array.ndim == 3 else [array[0]]
        found += [each for each in shapes if each.shape == tuple(shape)][:1]
    return found


@dataclass(frozen=True, slots=True)
class _Before:
    """What the reference does before the layer: to which tensor, and what the candidate's own tensor is there."""

    way: Way
    source: Array
    pads: Pads | None
    shape: tuple[int, ...]

    def input(self) -> Array:
        made = self.way.of(self.source, self.shape)
        assert made is not None
        return made


def _tested(reference: Layer, candidate: Layer, sources: Sources, output: Array, seen: Sequence[Array]) -> Explanation:
    before = _before(reference, sources)
    listed = list(forms(reference, candidate, before.pads if before else None)) if reference.kind else [Form(_as_it_is)]
    own = reference.inputs[0] if before is None or before.pads is None else _unpadded(reference, before)
    fit = _residual(listed[0].compute, own, output) if listed else np.inf
    if fit > UNDERSTOOD:
        return Explanation("unknown", "the layer is of a kind that is not emulated", output=seen[0])
    limit = ROUNDINGS * max(fit, float(np.finfo(np.float32).eps))
    x = before.input() if before else _alike(candidate.inputs, reference.inputs[0].shape)
    if x is None:
        return Explanation("unknown", "nothing that was seen of the candidate goes into it", output=seen[0])
    gaps = [_residual(listed[0].compute, x, each) for each in seen]
    gap, view = min(zip(gaps, seen, strict=True), key=lambda pair: pair[0])
    if gap <= limit:
        return Explanation("agrees", gap=gap, output=view)
    return _best(_hypotheses(reference, candidate, listed, before, x), seen, gap, limit)


def _as_it_is(x: Array) -> Array:
    return x


def _before(reference: Layer, sources: Sources) -> _Before | None:
    """The nearest tensor and the way from it to the layer's input, as the reference's own tensors show."""
    aim = reference.inputs[0]
    for ours, theirs in sources:
        for way, made in ways(ours, aim.shape):
            if _gap(made, aim) <= ROUNDINGS * np.finfo(np.float32).eps:
                pads = _pads(way) if reference.kind == "convolution" else None
                plain = way if pads is None else replace(way, structure=AS_IT_IS)
                return _Before(plain, theirs, pads, theirs.shape if pads is not None else aim.shape)
    return None


def _pads(way: Way) -> Pads | None:
    if not way.structure.startswith("padded"):
        return None
    numbers = [int(each) for each in re.findall(r"\d+", way.structure)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _unpadded(reference: Layer, before: _Before) -> Array:
    assert before.pads is not None
    cuts = [slice(low, -high or None) for low, high in before.pads]
    return reference.inputs[0][(slice(None), *cuts, slice(None))]


def _alike(arrays: Sequence[Array], shape: Sequence[int]) -> Array | None:
    return next(iter(views(arrays, shape)), None)


def _hypotheses(
    reference: Layer, candidate: Layer, listed: Sequence[Form], before: _Before | None, x: Array
) -> Iterator[tuple[Form, Array]]:
    """Forms, each with the input that it is applied to; what is more special comes first."""
    yield from ((form, x) for form in listed[1:])
    if before is not None:
        yield from _other_ways(listed[0], before)
    if (dropped := _dropout(candidate, x)) is not None:
        yield Form(listed[0].compute, *_DROPOUT), dropped
    other = with_weights_of(reference, candidate)
    if other is not None:
        for form in islice(forms(other, candidate, before.pads if before else None), 1):
            fix = "copy the weights again; the report names the parameters that differ"
            yield replace(form, cause="weight-difference", does="computes with other weights", fix=fix), x


def _other_ways(plain: Form, before: _Before) -> Iterator[tuple[Form, Array]]:
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
_DROPOUT = (
    "dropout-active",
    "drops some of its inputs and scales the others",
    "call eval() on the model, or pass training=False (deterministic=True in Flax)",
)


def _dropout(candidate: Layer, x: Array) -> Array | None:
    """The candidate's own input of the layer, if it is x with some elements dropped and the others scaled by one
    factor; None otherwise."""
    own = _alike(candidate.inputs, x.shape)
    if own is None or not x.any():
        return None
    kept = (own != 0) & (np.abs(x) > 1e-2 * np.abs(x).max())  # where one rounding does not move the scale
    dropped = (own == 0) & (x != 0)
    if not kept.any() or not 0.01 < dropped.mean() < 0.99:
        return None
    scale = own[kept] / x[kept]
    middle = float(np.median(scale))
    return own if middle > 1.001 and float(np.abs(scale - middle).max()) < 1e-3 * middle else None


def _best(tried: Iterator[tuple[Form, Array]], seen: Sequence[Array], gap: float, limit: float) -> Explanation:
    """The first hypothesis that reproduces the candidate's numbers; of those that stand before the layer the nearest,
    since two activations may be close."""
    nearest: Explanation | None = None
    for form, x in tried:
        left, view = min(((_residual(form.compute, x, each), each) for each in seen), key=lambda pair: pair[0])
        if left > limit or left > gap / NEARER:
            continue
        found = Explanation("explained", "", form.cause, form.does, form.fix, gap, left, view)
        if nearest is not None and found.cause == "weight-difference":
            break
        if nearest is None or left < nearest.left / 2:
            nearest = found
    return nearest or Explanation(
        "unexplained", f"it is off by {gap:.2g} of its largest value", gap=gap, output=seen[0]
    )


def _residual(compute: object, x: Array, output: Array) -> float:
    """How far a form of the layer is from an output, in shares of the largest value; infinite where shapes differ."""
    try:
        made = compute(x)  # type: ignore[operator]
    except (ValueError, IndexError, KeyError):  # sizes that do not go together: not this form
        return float(np.inf)
    if made.ndim == output.ndim + 1 == 3:  # all states of a recurrent layer, of which the output is the last
        made = made[:, -1]
    return _gap(made, output)


def _gap(made: Array, aim: Array) -> float:
    if made.shape != aim.shape or not aim.size:
        return float(np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(made - aim.astype(np.float64)).max()
        size = np.abs(aim).max()
    if not np.isfinite(difference):
        return float(np.inf)
    return float(difference / size) if size else float(difference)
