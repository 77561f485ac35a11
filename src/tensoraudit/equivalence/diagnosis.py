"""Walk over the paired layers of two implementations, in the reference's order, and explain each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.forms import with_activation_of
from tensoraudit.equivalence.hypotheses import Explanation, explain, outputs_of
from tensoraudit.equivalence.layer import Layer, channels_last

NEAR = 4
"""Layers back that a layer's input may come from; the model's own inputs are always looked at."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of one pair of layers."""

    reference: Layer
    candidate: Layer
    explanation: Explanation


def diagnose(
    pairs: Sequence[tuple[Layer, Layer]], inputs: Sequence[Array], outputs: Sequence[tuple[Array, Array]]
) -> Iterator[Diagnosis]:
    """Explain all pairs, and what stands behind the last one.

    `inputs` are the model's, in the reference's layout, `outputs` pairs of the model's results in the reference's
    layout.
    """
    given = [(each, each) for array in inputs for each in (array, channels_last(array))]
    behind: list[tuple[Array, Array]] = []
    for place, (own, theirs) in enumerate(pairs):
        ours = with_activation_of(own, theirs)
        later = pairs[place + 1][1].inputs if place + 1 < len(pairs) else [end for _, end in outputs]
        found = explain(ours, theirs, [*behind[:NEAR], *given], later)
        yield Diagnosis(own, theirs, found)
        if found.output is not None:
            behind[:0] = [(each, found.output) for each in outputs_of(ours) if each.shape == found.output.shape][:1]
    for ours_out, theirs_out in outputs:
        ends = [Layer("output", "model", "", {}, inputs=(side,), outputs=(side,)) for side in (ours_out, theirs_out)]
        yield Diagnosis(ends[0], ends[1], explain(ends[0], ends[1], behind[:NEAR]))
