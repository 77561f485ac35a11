"""Which parameters of two sides are near each other, from a sketch of each: some elements, compared all at once.

Thousands of parameters may have one shape; looking at whole arrays for every pair of them would take hours. A sketch
proposes, the exact difference of whoever asks decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.parameter import Parameter
from tensoraudit.equivalence.steps import Steps, apply

Side = Sequence[Parameter]
Layout = Callable[[Parameter, Parameter], Steps | None]

CHANNELS, ELEMENTS = 16, 64
"""Output channels in a sketch, and elements of each."""

PROPOSED = 0.75
"""Sketches that are further apart are of weights that are not near: a sketch is off by a few hundredths."""

MOST = 8
"""Partners proposed for one parameter, so that thousands that are all alike (gammas near 1) cost no more."""

FOLDED = 1e-3
"""How far apart channels may point of which one is the other times a number."""


def nearest_first(left: Side, right: Side, layout: Layout) -> Iterator[tuple[Parameter, Parameter]]:
    """Yield pairs of a size that may be near each other, the nearest first.

    `layout` gives the steps from one to the other, the same for all of one shape, kind and axes; None for no pair.
    """
    found: list[tuple[list[Parameter], list[Parameter], Array]] = []
    for mine, theirs in product(_groups(left), _groups(right)):
        if mine[0].array.size != theirs[0].array.size or not mine[0].array.size:
            continue
        steps = layout(mine[0], theirs[0])
        if steps is not None:
            axis = max(0, theirs[0].axes.find("o"))
            ours = [_sketch(apply(steps, each.array), axis) for each in mine]
            found.append((mine, theirs, _gaps(ours, [_sketch(each.array, axis) for each in theirs])))
    yield from _in_order(found)


def _in_order(
    found: Sequence[tuple[Sequence[Parameter], Sequence[Parameter], Array]],
) -> Iterator[tuple[Parameter, Parameter]]:
    """All proposed pairs by their gaps."""
    places = [np.argwhere(gaps <= PROPOSED) for _, _, gaps in found]
    if not places:
        return
    gaps = np.concatenate([each[tuple(at.T)] for (_, _, each), at in zip(found, places, strict=True)])
    group = np.repeat(np.arange(len(places)), [len(at) for at in places])
    pairs = np.concatenate(places)
    for row in np.argsort(gaps, kind="stable"):
        mine, theirs, _ = found[group[row]]
        yield mine[pairs[row, 0]], theirs[pairs[row, 1]]


def _groups(side: Side) -> list[list[Parameter]]:
    """Parameters of one layout and kind: one look tells how all of them fit."""
    found: dict[object, list[Parameter]] = {}
    for each in side:
        found.setdefault((each.array.shape, each.axes, each.gates, each.part, each.kind), []).append(each)
    return list(found.values())


def _sketch(array: Array, axis: int) -> Array:
    """An even sample as (channels, elements)."""
    rows = array.reshape(-1, 1) if array.ndim < 2 else np.moveaxis(array, axis, 0)
    count = CHANNELS if array.ndim > 1 else CHANNELS * ELEMENTS
    chosen = np.unique(np.linspace(0, rows.shape[0] - 1, count, dtype=int))
    size = int(np.prod(rows.shape[1:], dtype=int))
    places = np.unravel_index(np.unique(np.linspace(0, size - 1, ELEMENTS, dtype=int)), rows.shape[1:])
    return np.stack([rows[each][places] for each in chosen]).astype(np.float64)


def _gaps(ours: Sequence[Array], theirs: Sequence[Array]) -> Array:
    """|a - b| / |a| of all pairs of sketches; 0 where each channel is the other one's times a factor of its own,
    infinite for all but the nearest."""
    x, y = np.stack(ours), np.stack(theirs)
    gaps = _apart(x, y)
    if x.shape[-1] > 1:
        gaps[_apart(_directions(x), _directions(y)) <= FOLDED] = 0.0
    kept = np.argpartition(gaps, MOST - 1, axis=1)[:, :MOST] if gaps.shape[1] > MOST else slice(None)
    proposed = np.full_like(gaps, np.inf)
    rows = np.arange(len(gaps))[:, None]
    proposed[rows, kept] = gaps[rows, kept]
    return proposed


def _apart(x: Array, y: Array) -> Array:
    x, y = x.reshape(len(x), -1), y.reshape(len(y), -1)
    sizes = (x * x).sum(axis=1)[:, None]
    squares = sizes + (y * y).sum(axis=1) - 2.0 * x @ y.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) / sizes))


def _directions(x: Array) -> Array:
    """Each channel of length 1, its largest element positive."""
    largest = np.take_along_axis(x, np.abs(x).argmax(axis=-1)[..., None], axis=-1)
    lengths = np.linalg.norm(x, axis=-1, keepdims=True) * np.sign(largest)
    return np.asarray(np.divide(x, lengths, out=np.zeros_like(x), where=lengths != 0))
