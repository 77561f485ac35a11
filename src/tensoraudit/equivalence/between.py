"""What may stand between two layers: an activation, then a change of shape. Tensors are channels last.

`ways` lists every combination that gives a shape; the first that reproduces the reference's own tensors is what the
reference does, and those that reproduce the candidate's tell what the candidate does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.emulation import ACTIVATIONS, RESIZINGS, resized

Shape = Sequence[int]
AS_IT_IS = "as it is"
NONE = "no activation"


@dataclass(frozen=True, slots=True)
class Way:
    """An activation and a change of shape, by their names."""

    activation: str
    structure: str

    def of(self, x: Array, shape: Shape) -> Array | None:
        """What the way makes of a tensor; None where it does not give the shape."""
        made = ACTIVATIONS[self.activation](x.astype(np.float64))
        return dict(structures(made, shape)).get(self.structure)


def ways(x: Array, shape: Shape) -> Iterator[tuple[Way, Array]]:
    """Yield all ways from a tensor to a shape, the plainest first."""
    names = [name for name, _ in structures(x.astype(np.float64), shape)]
    for activation, make in ACTIVATIONS.items():
        if not names:
            return
        made = make(x.astype(np.float64))
        for structure, array in structures(made, shape):
            yield Way(activation, structure), array


def find_way(x: Array, aim: Array, within: float) -> Way | None:
    """Return the plainest way that makes `aim` of `x`, up to `within` of its largest value; None where none does."""
    largest = float(np.abs(aim).max(initial=0.0)) or 1.0
    for activation, structure in _plausible(x, aim, within * largest):
        way = Way(activation, structure)
        made = way.of(x, aim.shape)
        if made is not None and float(np.abs(made - aim).max(initial=0.0)) <= within * largest:
            return way
    return None


def _plausible(x: Array, aim: Array, limit: float) -> Iterator[tuple[str, str]]:
    """Yield what a look at some elements does not refute: an activation of a whole tensor costs time."""
    places = np.unique(np.linspace(0, max(aim.size - 1, 0), _LOOKED_AT).astype(np.int64))
    seen = aim.reshape(-1)[places].astype(np.float64) if aim.size else aim.reshape(-1)
    origins = dict(structures(np.arange(x.size, dtype=np.float64).reshape(x.shape), aim.shape))
    sources = {name: array for name, array in origins.items() if name.startswith(_MOVING) or name == AS_IT_IS}
    for activation, make in ACTIVATIONS.items():
        for structure in origins:
            if structure in sources and not activation.startswith("softmax"):
                values = x.reshape(-1)[sources[structure].reshape(-1)[places].astype(np.int64)]
                if float(np.abs(make(values.astype(np.float64)) - seen).max(initial=0.0)) > limit:
                    continue
            yield activation, structure


_LOOKED_AT = 512
_MOVING = ("flattened", "the last step")
"""Structures that only move elements, so that some of them can be looked at alone."""


def structures(x: Array, shape: Shape) -> Iterator[tuple[str, Array]]:
    """Yield the changes of shape that lead from a tensor to `shape`, by name."""
    shape = tuple(shape)
    if x.shape == shape:
        yield AS_IT_IS, x
        return
    for name, make in _STRUCTURES.items():
        yield from ((f"{name}{more}", array) for more, array in make(x, shape) if array.shape == shape)


def _flattened(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    if x.size != int(np.prod(shape)) or not shape or x.shape[0] != shape[0]:
        return
    yield " with the channels last", x.reshape(shape)
    if x.ndim >= 3:
        yield " with the channels first", np.moveaxis(x, -1, 1).reshape(shape)


def _last_step(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    if x.ndim == len(shape) + 1 == 3:
        yield "", x[:, -1]


def _averaged(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    if x.ndim >= 3:
        axes = tuple(range(1, x.ndim - 1))
        for keep in (False, True):
            yield "", x.mean(axis=axes, keepdims=keep)


def _largest(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    if x.ndim >= 3:
        yield "", x.max(axis=tuple(range(1, x.ndim - 1)))


def _padded(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Zeros around the space: all ways to share them out between beginning and end, the same on each axis first."""
    if x.ndim != len(shape) or x.ndim < 3 or (x.shape[0], x.shape[-1]) != (shape[0], shape[-1]):
        return
    totals = [new - old for new, old in zip(shape[1:-1], x.shape[1:-1], strict=True)]
    if any(not 0 <= total <= _MOST_PADDING for total in totals):
        return
    for before in product(*(range(total + 1) for total in totals)):
        pads = [(first, total - first) for first, total in zip(before, totals, strict=True)]
        yield f" {pads}", np.pad(x, [(0, 0), *pads, (0, 0)])


_MOST_PADDING = 6


def _pooled(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Windows without overlap, of equal sides."""
    if x.ndim != len(shape) or x.ndim < 3 or not all(shape):
        return
    for width in {old // new for old, new in zip(x.shape[1:-1], shape[1:-1], strict=True)}:
        if width < 2:
            continue
        cut = x[(slice(None), *(slice(0, size // width * width) for size in x.shape[1:-1]))]
        split = [each for size in cut.shape[1:-1] for each in (size // width, width)]
        windows = cut.reshape(x.shape[0], *split, x.shape[-1])
        axes = tuple(range(2, windows.ndim - 1, 2))
        yield f", the largest of {width}", windows.max(axis=axes)
        yield f", the mean of {width}", windows.mean(axis=axes)


def _resized(x: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    if x.ndim == len(shape) == 4 and (x.shape[0], x.shape[-1]) == (shape[0], shape[-1]):
        for way in RESIZINGS:
            yield f", {way}", resized(x, shape[1:3], way)


_STRUCTURES: Mapping[str, Callable[[Array, tuple[int, ...]], Iterator[tuple[str, Array]]]] = {
    "flattened": _flattened,
    "the last step": _last_step,
    "the mean over space": _averaged,
    "the largest over space": _largest,
    "padded": _padded,
    "pooled": _pooled,
    "resized": _resized,
}
