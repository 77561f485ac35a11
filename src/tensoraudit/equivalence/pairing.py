"""Which candidate output belongs to which reference output (structural rule 4). Judges no values of a pair.

1. By the caller's own pairs, then by name.
2. What is left, by position: the i-th output of one side with the i-th of the other, where the shapes are equal.
3. By shape and value, where position contradicts the values: the values of the outputs in question agree under
   another assignment and do not agree by position. Such a pairing is reported, because a user who reads outputs by
   position gets the wrong one.
4. Where the values do not agree because something is wrong: with the nearest one of the same shape, if it is clearly
   nearer than any other.
5. By shape, in order; reported where position says otherwise.
6. What is still left is paired by position whatever its shape, so that it is judged as a changed shape; the surplus is
   missing or extra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array

How = Literal["map", "name", "position", "value", "shape"]

# Two outputs agree by value when they are closer than this share of the reference's spread. Right conversions stay
# under 1e-3 even in float16; unrelated outputs are about 1 apart.
_AGREES = 1e-2

# A wrong output is still paired by value if it is this near, and the next candidate at least twice as far.
_RELATED = 0.5
_SAMPLE = 1 << 14


@dataclass(frozen=True, slots=True)
class Pairing:
    """One reference output with its candidate output, and what brought them together."""

    reference: str
    candidate: str
    how: How

    def __str__(self) -> str:
        return f"{self.reference} is compared with {self.candidate}, paired by {self.how}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs, in the order of the reference's outputs; names that found no partner."""

    pairs: tuple[Pairing, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def pair_outputs(
    reference: Mapping[str, Array], candidate: Mapping[str, Array], given: Mapping[str, str] | None = None
) -> Pairs:
    """Pair the outputs of two sides by the `given` names (reference to candidate), name, position, then shape and
    value. Given names that a side lacks are passed over."""
    found = [Pairing(a, b, "map") for a, b in (given or {}).items() if a in reference and b in candidate]
    left, right = _free(reference, candidate, found)
    found += [Pairing(name, name, "name") for name in left if name in right]
    left, right = _free(reference, candidate, found)
    for step in (_by_position, _by_value, _by_nearest, _by_shape, _by_leftover):
        for pair in step(left, right, reference, candidate):
            found.append(pair)
            left.remove(pair.reference)
            right.remove(pair.candidate)
    order = {name: place for place, name in enumerate(reference)}
    return Pairs(tuple(sorted(found, key=lambda pair: order[pair.reference])), tuple(left), tuple(right))


def _free(
    reference: Mapping[str, Array], candidate: Mapping[str, Array], found: Sequence[Pairing]
) -> tuple[list[str], list[str]]:
    left, right = {pair.reference for pair in found}, {pair.candidate for pair in found}
    return [name for name in reference if name not in left], [name for name in candidate if name not in right]


def _by_position(
    left: Sequence[str], right: Sequence[str], reference: Mapping[str, Array], candidate: Mapping[str, Array]
) -> list[Pairing]:
    """Accept positions unless the values say otherwise: then leave those outputs to the next step."""
    if len(left) != len(right):
        return []
    kept = [Pairing(a, b, "position") for a, b in zip(left, right, strict=True)]
    if any(reference[pair.reference].shape != candidate[pair.candidate].shape for pair in kept):
        return []
    if all(distance(reference[pair.reference], candidate[pair.candidate]) <= _AGREES for pair in kept):
        return kept
    by_value = _by_value(left, right, reference, candidate) or _by_nearest(left, right, reference, candidate)
    elsewhere = any(left.index(pair.reference) != right.index(pair.candidate) for pair in by_value)
    return [] if elsewhere else kept


def _by_value(
    left: Sequence[str], right: Sequence[str], reference: Mapping[str, Array], candidate: Mapping[str, Array]
) -> list[Pairing]:
    """Pair outputs that are each other's nearest and agree; equal distances go to the earlier position."""
    near = [
        (gap, i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if reference[a].shape == candidate[b].shape and (gap := distance(reference[a], candidate[b])) <= _AGREES
    ]
    taken: dict[int, int] = {}
    for _, i, j in sorted(near, key=lambda entry: (entry[0], abs(entry[1] - entry[2]), entry[1])):
        if i not in taken and j not in taken.values():
            taken[i] = j
    return [Pairing(left[i], right[j], "value") for i, j in sorted(taken.items())]


def _by_nearest(
    left: Sequence[str], right: Sequence[str], reference: Mapping[str, Array], candidate: Mapping[str, Array]
) -> list[Pairing]:
    """Pair outputs that do not agree, but are clearly nearer to each other than to any other of that shape."""
    gaps = {
        (a, b): distance(reference[a], candidate[b])
        for a in left
        for b in right
        if reference[a].shape == candidate[b].shape
    }
    found = []
    for (a, b), gap in gaps.items():
        others = [other for (x, y), other in gaps.items() if (x == a) != (y == b)]
        if gap <= _RELATED and others and 2.0 * gap <= min(others):
            found.append(Pairing(a, b, "value"))
    return found


def _by_shape(
    left: Sequence[str], right: Sequence[str], reference: Mapping[str, Array], candidate: Mapping[str, Array]
) -> list[Pairing]:
    """The first free one of the same shape."""
    pairs, free = [], list(right)
    for a in left:
        fitting = [b for b in free if reference[a].shape == candidate[b].shape]
        if fitting:
            here = left.index(a) == right.index(fitting[0]) or len(left) != len(right)
            pairs.append(Pairing(a, fitting[0], "position" if here else "shape"))
            free.remove(fitting[0])
    return pairs


def _by_leftover(
    left: Sequence[str], right: Sequence[str], reference: Mapping[str, Array], candidate: Mapping[str, Array]
) -> list[Pairing]:
    """Pair what is left, whatever its shape, if both sides have as many."""
    return [Pairing(a, b, "position") for a, b in zip(left, right, strict=True)] if len(left) == len(right) else []


def distance(a: Array, b: Array) -> float:
    """Return mean|a - b| / mean|a - median(a)| over an even sample of elements at equal places; 0.0 for equal values.

    Infinite where the two cannot be compared: one numeric kind against another, or NaN at other places.
    """
    if (a.dtype.kind in "biu") != (b.dtype.kind in "biu"):
        return float("inf")
    x, y = _sample(a), _sample(b)
    finite = np.isfinite(x)
    if not np.array_equal(finite, np.isfinite(y)):
        return float("inf")
    x, y = x[finite], y[finite]
    with np.errstate(over="ignore", invalid="ignore"):
        gap = float(np.abs(x - y).mean()) if x.size else 0.0
        spread = float(np.abs(x - np.median(x)).mean()) if x.size else 0.0
    if gap == 0.0:
        return 0.0
    return gap / spread if spread > 0.0 else float("inf")


def _sample(values: Array) -> Array:
    """Return an even sample of at most `_SAMPLE` elements as doubles, without copying the rest."""
    if values.size <= _SAMPLE:
        return values.reshape(-1).astype(np.float64)
    places = np.linspace(0, values.size - 1, _SAMPLE).astype(np.int64)
    return values[np.unravel_index(places, values.shape)].astype(np.float64)
