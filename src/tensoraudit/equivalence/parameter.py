"""One parameter of a side, and one pair of two sides. Holds data, and what the values of a pair say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.steps import Steps, apply, difference, same

How = Literal["map", "name", "value", "order"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a side; see the `parameters` jobs for `kind`, `axes`, `gates`, `part` and `cell`."""

    name: str
    array: Array
    module: str = ""
    layer: str = ""
    kind: str = "other"
    axes: str = ""
    gates: str = ""
    part: str = ""
    cell: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is a counter or a state, not a weight."""
        return self.array.dtype.kind != "f"


@dataclass(frozen=True, slots=True)
class Term:
    """A reference parameter and the steps that turn it into a candidate's, or into a summand of it."""

    reference: str
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """One parameter of the candidate and what it is made of.

    `equal` tells whether the values agree, up to rounding; `difference` is |candidate - expected| / |expected| in the
    2-norm. `expected` are the steps of the frameworks' conventions where they are known and the values show others.
    """

    candidate: str
    terms: tuple[Term, ...]
    how: How
    equal: bool = False
    difference: float = math.inf
    expected: Steps | None = None

    @property
    def steps(self) -> Steps:
        """The steps of a pair of two."""
        return self.terms[0].steps


@dataclass(frozen=True, slots=True)
class ParameterPairs:
    """All pairs in the order of the candidate's parameters, and the names of those without a partner."""

    pairs: tuple[Pair, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    def of(self, candidate: str) -> Pair | None:
        """The pair of a candidate's parameter."""
        return next((pair for pair in self.pairs if pair.candidate == candidate), None)


def made_of(pair: Pair, arrays: Mapping[str, Array]) -> Array:
    """Return what the reference's arrays (by name) make of the candidate's parameter. Raises ValueError."""
    parts = [apply(term.steps, arrays[term.reference]) for term in pair.terms]
    return parts[0] if len(parts) == 1 else np.sum(np.stack(parts), axis=0, dtype=parts[0].dtype)


def judged(pair: Pair, reference: Sequence[Parameter], candidate: Parameter) -> Pair:
    """The pair with what its values say. Raises ValueError when the steps do not fit."""
    expected = made_of(pair, {each.name: each.array for each in reference})
    if expected.shape != candidate.array.shape:
        raise ValueError(
            f"{' + '.join(term.reference for term in pair.terms)} gives {list(expected.shape)} for {pair.candidate}, "
            f"which is {list(candidate.array.shape)}"
        )
    return replace(pair, equal=same(expected, candidate.array), difference=difference(expected, candidate.array))
