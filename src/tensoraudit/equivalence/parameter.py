"""One parameter of a side, and one pair of two sides. Holds data, and what the values of a pair say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array, largest_magnitude
from tensoraudit.equivalence.steps import Steps, apply, difference, same

How = Literal["map", "name", "value", "order"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a side; see the `parameters` jobs for `kind`, `axes`, `gates`, `part` and `cell`. `dtype` is
    what the model itself holds: a bfloat16 comes as float32."""

    name: str
    array: Array
    module: str = ""
    layer: str = ""
    kind: str = "other"
    axes: str = ""
    gates: str = ""
    part: str = ""
    cell: str = ""
    dtype: str = ""

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

    `folded` tells that each output channel is scaled by a factor of its own: a normalisation was merged into it.
    `equal` tells whether the values agree, up to rounding; `difference` is |candidate - expected| / |expected| in the
    2-norm. `expected` are the steps of the frameworks' conventions where they are known and the values show others.
    """

    candidate: str
    terms: tuple[Term, ...]
    how: How
    equal: bool = False
    difference: float = math.inf
    expected: Steps | None = None
    folded: bool = False

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
    equal = same(expected, candidate.array)
    folded = not equal and is_folded(expected, candidate.array, max(0, candidate.axes.find("o")))
    return replace(pair, equal=equal, difference=difference(expected, candidate.array), folded=folded)


def is_folded(expected: Array, found: Array, axis: int) -> bool:
    """Tell whether `found` is `expected` with each slice along an axis times a factor of its own, not all alike.

    Slices of one element tell nothing: any number is any other times a factor. A normalisation has real factors, so
    that complex numbers are none.
    """
    if expected.ndim < 2 or expected.dtype.kind != "f" or found.dtype.kind == "c" or expected.shape[axis] < 2:
        return False
    rows, own = np.moveaxis(expected, axis, 0), np.moveaxis(found, axis, 0)
    if rows[0].size < 2:
        return False
    within = 1e-5 * largest_magnitude(found)
    factors = []
    for one, other in zip(rows, own, strict=True):  # slice by slice, so that memory does not grow with the tensor
        with np.errstate(invalid="ignore", over="ignore"):
            x, y = one.reshape(-1).astype(np.float64), other.reshape(-1).astype(np.float64)
            size = float(x @ x)
            factor = float(x @ y) / size if size else 0.0
            if not size or not np.abs(y - factor * x).max() <= within:
                return False
        factors.append(factor)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.std(factors) > 1e-3 * np.abs(factors).max())
