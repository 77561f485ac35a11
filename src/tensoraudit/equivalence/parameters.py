"""Which parameter of the candidate belongs to which of the reference, and in which layout.

1. By the user's map.
2. Recurrent cells as a whole (`recurrent`), because one side may keep the gates apart that the other one stacks.
3. By name: the module path without what frameworks add to it, and the kind (kernel, gamma...).
   A name that only ends alike must be the only one of its kind on both sides.
4. By value: count, sum, sum of squares and extremes in double precision propose, whatever the order of the elements;
   an element-by-element check of all layouts then decides.
5. By value once more, where two of the same kind are near each other and do not agree (`nearness`).
6. By kind, shape and order of use.

The layout of a pair is what its values show; where the values differ, what the frameworks' conventions say, or the only
transposition that the shapes allow. Without either (a square matrix of an unknown kind of layer, gates of a cell that
somebody wrote by hand) there is no pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array, blocks
from tensoraudit.equivalence.nearness import nearest_first
from tensoraudit.equivalence.parameter import How, Pair, Parameter, ParameterPairs, Term, judged
from tensoraudit.equivalence.parameter_names import Key, key_of, place_of
from tensoraudit.equivalence.recurrent import pair_cells
from tensoraudit.equivalence.steps import Steps, apply, find_steps, only_permutation, same

Side = Sequence[Parameter]
Finder = Callable[[Side, Side], Iterator[Pair]]


def pair_parameters(
    reference: Side, candidate: Side, mapped: Mapping[str, Sequence[Term]] | None = None
) -> ParameterPairs:
    """Pair the parameters of two sides, each in the order of use.

    `mapped` are the user's own terms by candidate name. Raises ValueError for a map that does not fit.
    """
    left = [each for each in reference if not each.counts]
    right = [each for each in candidate if not each.counts]
    found: dict[str, Pair] = {}
    for pair in _mapped(left, right, mapped or {}):
        found[pair.candidate] = pair
    finders: tuple[Finder, ...] = (pair_cells, _by_name, _by_value, _by_nearness, _by_order)
    for finder in finders:
        used = {term.reference for pair in found.values() for term in pair.terms}
        free = [each for each in left if each.name not in used], [each for each in right if each.name not in found]
        for pair in finder(*free):
            found.setdefault(pair.candidate, pair)
    used = {term.reference for pair in found.values() for term in pair.terms}
    return ParameterPairs(
        tuple(found[each.name] for each in right if each.name in found),
        tuple(each.name for each in left if each.name not in used),
        tuple(each.name for each in right if each.name not in found),
    )


def conventional(a: Parameter, b: Parameter) -> Steps | None:
    """The steps that the axes of both sides ask for; None where they are not known. An upper-case axis is flipped."""
    if not a.axes or sorted(a.axes.lower()) != sorted(b.axes.lower()) or len(a.axes) != a.array.ndim:
        return None
    order = [a.axes.lower().index(axis) for axis in b.axes.lower()]
    flips = [place for place, axis in enumerate(a.axes) if axis not in b.axes]
    turned: Steps = ({"reverse": flips},) if flips else ()
    return turned if order == sorted(order) else (*turned, {"transpose": order})


def _layout(a: Parameter, b: Parameter) -> tuple[Steps, Steps | None] | None:
    """The steps of a pair, and those of the conventions where the values show others."""
    convention = conventional(a, b)
    if convention is not None and _fits(a, b, convention) and same(apply(convention, a.array), b.array):
        return convention, None
    if _alike(a, b) and (found := find_steps(a.array, b.array, _space(a))) is not None:
        return found, convention
    told = told_layout(a, b)
    return None if told is None else (told, None)


def told_layout(a: Parameter, b: Parameter) -> Steps | None:
    """The steps of a pair as far as axes, gates and shapes tell them, without a look at any value."""
    convention = conventional(a, b)
    if convention is not None and _fits(a, b, convention):
        return convention
    if a.gates != b.gates:  # stacked gates of an unknown order: their shapes say nothing of it
        return None
    return only_permutation(a.array.shape, b.array.shape)


def _space(a: Parameter) -> list[int] | None:
    return [place for place, axis in enumerate(a.axes) if axis in "dhwDHW"] or None


def _fits(a: Parameter, b: Parameter, steps: Steps) -> bool:
    return apply(steps, a.array).shape == b.array.shape


def _mapped(left: Side, right: Side, mapped: Mapping[str, Sequence[Term]]) -> Iterator[Pair]:
    names = {each.name for each in left}
    owners = {each.name: each for each in right}
    for name, terms in mapped.items():
        unknown = [term.reference for term in terms if term.reference not in names]
        if name not in owners or unknown:
            side, what = ("reference", unknown[0]) if unknown else ("candidate", name)
            raise ValueError(f"the {side} has no parameter {what!r}")
        yield judged(Pair(name, tuple(terms), "map"), left, owners[name])


def _pair(a: Parameter, b: Parameter, how: How) -> Pair | None:
    layout = _layout(a, b)
    return None if layout is None else _judged(a, b, how, *layout)


def _told_pair(a: Parameter, b: Parameter, how: How) -> Pair | None:
    """A pair whose values agree in no layout: `_by_value` has tried them all."""
    steps = told_layout(a, b)
    return None if steps is None else _judged(a, b, how, steps)


def _judged(a: Parameter, b: Parameter, how: How, steps: Steps, expected: Steps | None = None) -> Pair:
    return replace(judged(Pair(b.name, (Term(a.name, steps),), how), [a], b), expected=expected)


def _by_name(left: Side, right: Side) -> Iterator[Pair]:
    ours, theirs = key_of(left), key_of(right)
    taken: set[str] = set()
    for exact in (True, False):
        rows = _by_place([each for each in left if each.name not in taken], ours, exact=exact)
        others = _by_place([each for each in right if each.name not in taken], theirs, exact=exact)
        for place, near in rows.items():
            if len(near) != 1 or len(others.get(place, ())) != 1:
                continue
            if (pair := _pair(near[0], others[place][0], "name")) is not None:
                taken |= {near[0].name, pair.candidate}
                yield pair


def _by_place(side: Side, keys: Mapping[str, Key], *, exact: bool) -> dict[Key, list[Parameter]]:
    found: dict[Key, list[Parameter]] = {}
    for each in side:
        if (key := place_of(keys[each.name], exact=exact)) is not None:
            found.setdefault(key, []).append(each)
    return found


Fingerprint = tuple[float, float, float, float]


def fingerprint(array: Array) -> Fingerprint:
    """Sum, sum of squares, least and largest value in double precision, whatever the order of the elements."""
    total, squares, least, largest = 0.0, 0.0, math.inf, -math.inf
    for _, (piece,) in blocks(array, size=_PIECE):
        values = piece.astype(np.float64)
        total, squares = total + float(values.sum()), squares + float(values @ values)
        least, largest = min(least, float(values.min())), max(largest, float(values.max()))
    return (total, squares, least, largest) if array.size else (0.0, 0.0, 0.0, 0.0)


_PIECE = 1 << 16


def _alike(a: Parameter, b: Parameter) -> bool:
    return a.array.size == b.array.size and bool(close_prints(fingerprint(a.array), fingerprint(b.array), a.array.size))


def close_prints(a: Fingerprint, b: Any, size: int) -> Any:
    """Tell whether two fingerprints may be of the same values: sums may be rounded differently. `b` may be an array of
    many, one in each row."""
    largest = max(abs(a[2]), abs(a[3]))
    limits = (1e-6 * largest * size, 1e-5 * max(a[1], 1e-300), 1e-6 * largest, 1e-6 * largest)
    with np.errstate(invalid="ignore"):
        return (np.abs(np.subtract(a, b)) <= limits).all(axis=-1)


def _by_value(left: Side, right: Side) -> Iterator[Pair]:
    """Each other's only partner first; of several with the same values (fresh biases), the next in order."""
    sizes: dict[int, list[Parameter]] = {}
    for b in right:
        sizes.setdefault(b.array.size, []).append(b)
    prints = {size: np.array([fingerprint(each.array) for each in some]) for size, some in sizes.items()}
    taken: set[str] = set()
    for a, before in (piece for each in left for piece in _pieces(each)):
        size = a.array.size
        alike = np.flatnonzero(close_prints(fingerprint(a.array), prints[size], size)) if size in sizes else ()
        for b in (sizes[size][place] for place in alike):
            if b.name in taken or _other_kind(a, b):
                continue
            pair = _pair(a, b, "value")
            if pair is not None and pair.equal:
                taken.add(b.name)
                yield replace(pair, terms=(Term(a.name, (*before, *pair.steps)),))
                break


def _pieces(parameter: Parameter) -> list[tuple[Parameter, Steps]]:
    """A parameter, or the rows of a bias that has one for each part, with the steps that cut each out."""
    if parameter.axes != "po":
        return [(parameter, ())]
    rows = range(parameter.array.shape[0])
    cut = [(replace(parameter, array=parameter.array[row], axes="o"), ({"take": row},)) for row in rows]
    return [(parameter, ()), *cut]


def _other_kind(a: Parameter, b: Parameter) -> bool:
    """Two vectors of zeros are equal in value; a bias is no mean all the same."""
    return "other" not in (a.kind, b.kind) and a.kind != b.kind


RELATED = 0.5
"""Two weights of one layer that differ are nearer to each other than this; those of two layers are about 1.4 apart."""


def _by_nearness(left: Side, right: Side) -> Iterator[Pair]:
    """Partners whose values are near, the nearest first; one with a normalisation merged into it is as near as any."""
    taken: set[str] = set()
    for a, b in nearest_first(left, right, lambda a, b: None if _other_kind(a, b) else told_layout(a, b)):
        if a.name in taken or b.name in taken:
            continue
        pair = _told_pair(a, b, "value")
        if pair is not None and (pair.folded or pair.difference <= RELATED):
            taken |= {a.name, b.name}
            yield pair


def _by_order(left: Side, right: Side) -> Iterator[Pair]:
    """The first free partner of the same kind whose shape fits; one of another size is left to the next."""
    free: dict[int, list[Parameter]] = {}
    for b in right:
        free.setdefault(b.array.size, []).append(b)
    for a in left:
        for b in free.get(a.array.size, ()):
            if not _other_kind(a, b) and (pair := _told_pair(a, b, "order")) is not None:
                free[a.array.size].remove(b)
                yield pair
                break
