"""Layouts of parameters as lists of steps that turn the reference's array into the candidate's.

A step is a dict of one key, so that a map file can hold it:

    {"take": 1}                                          row 1 of the first axis
    {"gates": {"axis": 1, "of": 3, "order": [1, 0, 2]}}  of 3 equal blocks along an axis, these, in this order
    {"reverse": [0, 1]}                                  flip these axes
    {"transpose": [3, 2, 0, 1]}                          as numpy.transpose
    {"reshape": [5, 3, 1]}                               as numpy.reshape, in C order
    {"place": {"axis": 0, "of": 3, "at": 2}}             block 2 of 3 along an axis, zeros elsewhere
    {"zero": true}                                       zeros of the same shape

Several reference parameters may make one of the candidate: what their steps give is then added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array, blocks, largest_magnitude
from tensoraudit.equivalence.gaps import gaps, magnitudes
from tensoraudit.equivalence.layout import find_permutation

Step = Mapping[str, Any]
Steps = tuple[Step, ...]

SAME = 1e-6
"""Two weights are the same up to this share of the largest: sums of two biases are rounded."""

GATES = (3, 4)


def apply(steps: Sequence[Step], array: Array) -> Array:
    """Turn an array by the steps. Raises ValueError naming the step that does not fit."""
    for step in steps:
        ((name, value),) = step.items()
        if name not in _APPLY:
            raise ValueError(f"{name!r} is no step; there are {', '.join(_APPLY)}")
        try:
            array = _APPLY[name](array, value)
        except (ValueError, IndexError, TypeError, KeyError, ArithmeticError) as problem:
            raise ValueError(f"{name} {value} does not fit an array of shape {list(array.shape)}: {problem}") from None
    return array


def _gates(array: Array, value: Mapping[str, Any]) -> Array:
    parts = np.split(array, int(value["of"]), axis=int(value["axis"]))
    return np.concatenate([parts[int(index)] for index in value["order"]], axis=int(value["axis"]))


def _place(array: Array, value: Mapping[str, Any]) -> Array:
    axis, of, at = int(value["axis"]), int(value["of"]), int(value["at"])
    if not 0 <= at < of <= _MOST_BLOCKS:
        raise ValueError(f"there is no block {at} of {of}")
    parts = [array if index == at else np.zeros_like(array) for index in range(of)]
    return np.concatenate(parts, axis=axis)


_MOST_BLOCKS = 64
"""No cell has more gates, and no map makes an array of any size."""

_APPLY: Mapping[str, Callable[[Array, Any], Array]] = {
    "take": lambda array, value: array[int(value)],
    "gates": _gates,
    "reverse": lambda array, value: np.flip(array, axis=tuple(value)),
    "transpose": lambda array, value: array.transpose(tuple(value)),
    "reshape": lambda array, value: array.reshape(tuple(value)),
    "place": _place,
    "zero": lambda array, value: np.zeros_like(array),
}
STEPS = tuple(_APPLY)


def describe(steps: Sequence[Step]) -> str:
    """Say the steps in words; "as it is" for none."""
    words = []
    for step in steps:
        ((name, value),) = step.items()
        told = _WORDS.get(name, f"{name} {{}}")
        words.append(told.format(**value) if isinstance(value, Mapping) else told.format(value))
    return ", then ".join(words) or "as it is"


_WORDS = {
    "gates": "blocks {order} of {of} along axis {axis}",
    "place": "block {at} of {of} along axis {axis}, zeros elsewhere",
    "zero": "zeros",
}


def same(a: Array, b: Array) -> bool:
    """Tell whether two weights are one and the same, element by element, up to `SAME` of the largest."""
    if a.shape != b.shape:
        return False
    limit = _limit(a)
    return all(bool((gaps(x, y) <= limit).all()) for _, (x, y) in blocks(a, b))


def _limit(a: Array) -> float:
    """How far apart elements may be; integers are exact."""
    return SAME * largest_magnitude(a) if a.dtype.kind in "fc" else 0.0


def difference(a: Array, b: Array) -> float:
    """Return how far `b` is from `a`: the norm of the difference over the norm of `a`; infinite for other shapes."""
    if a.shape != b.shape:
        return math.inf
    size, gap = 0.0, 0.0
    for _, (x, y) in blocks(a, b):
        length, apart = magnitudes(x), gaps(x, y)
        with np.errstate(all="ignore"):
            size, gap = size + float(length @ length), gap + float(apart @ apart)
    return math.sqrt(gap / size) if size else (0.0 if gap == 0.0 else math.inf)


def find_steps(reference: Array, candidate: Array, flips: Sequence[int] | None = None) -> Steps | None:
    """Return the steps after which the values of the reference are exactly the candidate's; None when there are none.

    `flips` are the spatial axes of the reference, tried flipped; None tries any two axes of a kernel.
    """
    if reference.size != candidate.size:
        return None
    if same(reference, candidate):
        return ()
    ones = _squeezed(reference), _squeezed(candidate)
    for found in _search(*ones, flips if ones[0].shape == reference.shape else None):
        before: Steps = ({"reshape": list(ones[0].shape)},) if ones[0].shape != reference.shape else ()
        after: Steps = ({"reshape": list(candidate.shape)},) if ones[1].shape != candidate.shape else ()
        if before and after and not found:
            before = ()
        return (*before, *found, *after)
    if same(reference.reshape(-1), candidate.reshape(-1)):
        return ({"reshape": list(candidate.shape)},)
    return None


def _squeezed(array: Array) -> Array:
    return array.reshape([size for size in array.shape if size != 1])


def _search(reference: Array, candidate: Array, flips: Sequence[int] | None) -> Iterator[Steps]:
    if same(reference, candidate):
        yield ()
    yield from _transposed(reference, candidate)
    yield from _flipped(reference, candidate, flips)
    yield from _gated(reference, candidate)
    yield from _rows(reference, candidate)


def _transposed(reference: Array, candidate: Array) -> Iterator[Steps]:
    order = find_permutation(candidate, reference, _limit(reference))
    if order is not None:
        yield ({"transpose": list(order)},)


def _flipped(reference: Array, candidate: Array, flips: Sequence[int] | None) -> Iterator[Steps]:
    if not 3 <= reference.ndim <= 5:
        return
    some = [tuple(flips)] if flips else list(combinations(range(reference.ndim), reference.ndim - 2))
    for axes in some:
        turned = np.flip(reference, axis=axes)
        if same(turned, candidate):
            yield ({"reverse": list(axes)},)
        for found in _transposed(turned, candidate):
            yield ({"reverse": list(axes)}, *found)


def _gated(reference: Array, candidate: Array) -> Iterator[Steps]:
    """Blocks of gates in another order, along any axis of a vector or matrix."""
    if reference.ndim not in (1, 2) or candidate.ndim != reference.ndim:
        return
    turns = [()] if reference.ndim == 1 else [(), ({"transpose": [1, 0]},)]
    for turn in turns:
        aim = apply(turn, candidate)  # a transposition of two axes is its own inverse
        for axis in range(reference.ndim if aim.shape == reference.shape else 0):
            for of in GATES:
                if reference.shape[axis] % of == 0 and (order := _block_order(reference, aim, axis, of)) is not None:
                    yield ({"gates": {"axis": axis, "of": of, "order": order}}, *turn)


def _block_order(reference: Array, candidate: Array, axis: int, of: int) -> list[int] | None:
    mine, theirs = np.split(reference, of, axis), np.split(candidate, of, axis)
    order = [next((i for i, block in enumerate(mine) if same(block, aim)), -1) for aim in theirs]
    return order if sorted(order) == list(range(of)) else None


def _rows(reference: Array, candidate: Array) -> Iterator[Steps]:
    """The rows of a dense kernel in the order of another flattening: (a, b) positions as (b, a)."""
    if reference.ndim != 2 or candidate.ndim != 2:
        return
    for turn in ((), ({"transpose": [1, 0]},)):
        aim = apply(turn, candidate)
        if aim.shape != reference.shape:
            continue
        for axis in (0, 1):
            for first in flattenings(reference.shape[axis]):
                steps = swap_rows(reference.shape, axis, first)
                if same(apply(steps, reference), aim):
                    yield (*steps, *turn)


def flattenings(size: int) -> list[int]:
    """The sizes a of a first factor of two, so that (a, size / a) is no trivial flattening."""
    return [a for a in range(2, size // 2 + 1) if size % a == 0]


def swap_rows(shape: Sequence[int], axis: int, first: int) -> Steps:
    """The steps that bring rows (or columns) from a flattening of (first, rest) to one of (rest, first)."""
    rest = shape[axis] // first
    if axis == 0:
        return (
            *({"reshape": [first, rest, shape[1]]}, {"transpose": [1, 0, 2]}),
            {"reshape": list(shape)},
        )
    return (
        *({"reshape": [shape[0], first, rest]}, {"transpose": [0, 2, 1]}),
        {"reshape": list(shape)},
    )


def only_permutation(reference: Sequence[int], candidate: Sequence[int]) -> Steps | None:
    """The transposition that the shapes alone allow; None where none or several do, as for a square kernel."""
    if len(reference) != len(candidate) or len(reference) > 5:
        return None
    fitting = [
        order
        for order in permutations(range(len(reference)))
        if tuple(reference[axis] for axis in order) == tuple(candidate)
    ]
    if len(fitting) != 1:
        return None
    return () if fitting[0] == tuple(range(len(reference))) else ({"transpose": list(fitting[0])},)
