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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import numpy as np

from tensoraudit.equivalence.before import (
    DROPOUT,
    ROUNDINGS,
    Before,
    Sources,
    alike,
    dropped_input,
    other_ways,
    unpadded,
    views,
    what_is_before,
)
from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.forms import Form, forms, with_weights_of
from tensoraudit.equivalence.layer import Layer

State = Literal["agrees", "explained", "unexplained", "unknown"]

UNDERSTOOD = 1e-4
"""An emulation that is further than this from the reference's own tensors, in shares of the largest value, is no
emulation."""

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


CELLS = frozenset(("GRU", "LSTM"))
"""Kinds whose one use counts as several calls: Flax traces the cell of a scan twice."""


def explain(reference: Layer, candidate: Layer, sources: Sources, later: Sequence[Array] = ()) -> Explanation:
    """Test a layer of the candidate. `sources` are pairs of tensors that may lie before it, in the reference's layout,
    the nearest first; `later` are tensors behind it: an activation inside the reference's layer may be outside here."""
    if not reference.inputs or not reference.outputs:
        return Explanation("unknown", "no tensors of it were seen in the reference")
    if calls := max(1 if each.kind in CELLS else each.calls for each in (reference, candidate)) - 1:
        return Explanation("unknown", f"it is called {calls + 1} times, and each call may have another input")
    for output in outputs_of(reference):
        seen = [*views(candidate.outputs, output.shape), *views(later, output.shape)]
        if seen:
            return _tested(reference, candidate, sources, output, seen)
    return Explanation("unknown", "no output of the candidate's layer has the reference's shape in any layout")


def outputs_of(layer: Layer) -> list[Array]:
    """The layer's outputs; a state without the axis that counts layers of a stack."""
    return [each[0] if each.ndim == 3 and each.shape[0] == 1 and n else each for n, each in enumerate(layer.outputs)]


def _tested(reference: Layer, candidate: Layer, sources: Sources, output: Array, seen: Sequence[Array]) -> Explanation:
    if work(reference, output) > MOST_WORK:
        return Explanation("unknown", "it is too large to be computed again here", output=seen[0])
    before = what_is_before(reference, sources)
    listed = list(forms(reference, candidate, before.pads if before else None)) if reference.kind else [Form(_as_it_is)]
    own = reference.inputs[0] if before is None or before.pads is None else unpadded(reference, before)
    fit = _residual(listed[0].compute, own, output) if listed else np.inf
    if fit > UNDERSTOOD:
        return Explanation("unknown", "the layer is of a kind that is not emulated", output=seen[0])
    limit = ROUNDINGS * max(fit, reference.rounding, candidate.rounding)
    x = before.input() if before else alike(candidate.inputs, reference.inputs[0].shape)
    if x is None:
        return Explanation("unknown", "nothing that was seen of the candidate goes into it", output=seen[0])
    gaps = [_residual(listed[0].compute, x, each) for each in seen]
    gap, view = min(zip(gaps, seen, strict=True), key=lambda pair: pair[0])
    if gap <= limit:
        return Explanation("agrees", gap=gap, output=view)
    found = _best(_hypotheses(reference, candidate, listed, before, x), seen, gap, limit)
    given = alike(candidate.inputs, x.shape)
    if found.state == "unexplained" and given is not None and _residual(listed[0].compute, given, view) <= limit:
        return replace(found, reason=f"{found.reason}{OTHER_INPUT}", output=view)
    return found


OTHER_INPUT = ", because another tensor goes into it; to that one it does what the reference's layer does"


MOST_WORK = 4e9
"""Multiplications of one emulation: a few seconds."""


def work(layer: Layer, output: Array) -> float:
    """How many multiplications one emulation of the layer takes, about."""
    kernel = layer.weights.get("kernel")
    if kernel is None:
        return float(output.size)
    return float(output.size) * float(np.prod(kernel.shape[:-1]))


def _as_it_is(x: Array) -> Array:
    return x


def _hypotheses(
    reference: Layer, candidate: Layer, listed: Sequence[Form], before: Before | None, x: Array
) -> Iterator[tuple[Form, Array]]:
    """Forms, each with the input that it is applied to; what is more special comes first."""
    yield from ((form, x) for form in listed[1:])
    if before is not None:
        yield from other_ways(listed[0], before)
    if (dropped := dropped_input(candidate, x)) is not None:
        yield Form(listed[0].compute, *DROPOUT), dropped
    other = with_weights_of(reference, candidate)
    if other is not None:
        for form in islice(forms(other, candidate, before.pads if before else None), 1):
            fix = "copy the weights again; the report names the parameters that differ"
            yield replace(form, cause="weight-difference", does="computes with other weights", fix=fix), x


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
    known = seen[0] if all(np.array_equal(seen[0], each) for each in seen) else None  # else: which one is its output?
    reason = f"it is off by {gap:.2g} of its largest value"
    return nearest or Explanation("unexplained", reason, gap=gap, output=known)


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
