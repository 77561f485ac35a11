"""Index outputs (argmax, top-k): integers that point into scores. Structural rule 10.

An index that differs is noise only where the scores it chose between are proven to tie within noise. That can be told
only with the scores at hand. They are either given by the caller or found among the reference's own float outputs:

1. *argmax / argmin*: the indices are the arg-extremes of the scores along one axis (kept or dropped);
2. *top-k*: the scores, taken at the indices, are the k largest (or smallest) along one axis, in sorted order;
3. *values*: the float output has the shape of the integers and is sorted along the last axis, and the integers could
   be places (none negative, none twice in a list): perhaps the other half of a top-k whose scores are no output.

What is found so may be chance: scores that nearly all tie fit any integers. Of 1 and 2 at least half of all choices
must be ruled out by scores that do not tie, of 3 some list must hold values that do not tie; else a difference within
ties is *open*, which is no pass. In *values* a difference is

- tied, where places were swapped whose values tie within noise;
- open, where an integer comes from outside the reference's list, stands among the values that tie with the last, and
  something shows that ties reach past the end of the list: the last two values tie, or the reference's own integer
  there changes when it runs in double precision or with moved inputs. Which score an outsider has is in no output;
- a break everywhere else. A value off by 1000 in the last place looks like an outsider, and nothing excuses it.

Whatever the ties, an index out of range or twice in one top-k list is a break.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array

Kind = Literal["arg", "top-k", "values"]

# The share of all choices that the scores must leave open at most for a relation to be more than chance.
_CHANCE = 0.5


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the reference as rows with the choice along the last axis, and how the index output relates to them.

    `given`: the caller says that the indices point into them, so that the relation itself needs no evidence.
    """

    name: str
    kind: Kind
    rows: Array
    axis: int
    kept: bool
    given: bool = False


@dataclass(frozen=True, slots=True)
class TieCheck:
    """What differing indices mean: of `differing`, `untied` choose between scores that do not tie, `open` may do so.

    Where neither is left all of them are proven to tie. `largest_gap` is infinite for an index that is no choice.
    `shown`: the integers are known to be indices of these scores; values alone never show that.
    """

    differing: int
    untied: int
    open: int
    largest_gap: float
    shown: bool = True


def find_scores(indices: Array, floats: Mapping[str, Array]) -> Scores | None:
    """Return the float output that the reference's indices fit, None when there is none."""
    for relate in (_relate_arg, _relate_topk, _relate_values):
        for name, values in floats.items():
            if values.dtype.kind == "f" and values.size and (found := relate(name, indices, values)) is not None:
                return found
    return None


def scores_for(name: str, indices: Array, values: Array) -> Scores:
    """Relate scores that the caller names to an index output; ValueError where the indices do not come from them."""
    found = find_scores(indices, {name: values})
    if found is None:
        raise ValueError(
            f"{name}: scores of shape {list(values.shape)} do not explain the indices of shape {list(indices.shape)}: "
            "they are neither their argmax nor their sorted top-k along any axis"
        )
    return replace(found, given=True)


def check_ties(scores: Scores, reference: Array, candidate: Array, tie: float, moved: Array | None = None) -> TieCheck:
    """Compare two index arrays of equal shape; scores that differ by at most `tie` count as equal.

    `moved` says where the reference's own indices change in double precision or with moved inputs.
    """
    chosen_a, chosen_b = _as_rows(scores, reference), _as_rows(scores, candidate)
    rows = np.flatnonzero((chosen_a != chosen_b).any(axis=1))
    own = np.zeros_like(chosen_a, dtype=bool) if moved is None else _as_rows(scores, moved)
    values = scores.rows[rows].astype(np.float64)
    if scores.kind == "values":
        gaps, outside = _gaps_in_lists(values, chosen_a[rows], chosen_b[rows], tie, own[rows])
    else:
        gaps, outside = _gaps(scores.kind, values, chosen_a[rows], chosen_b[rows])
    places = chosen_a[rows] != chosen_b[rows]
    gaps, outside = gaps[places], outside[places]
    tied, enough = gaps <= tie, _rules_out_enough(scores, chosen_a, tie)
    return TieCheck(
        differing=gaps.size,
        untied=int(np.count_nonzero(~tied)),
        open=int(np.count_nonzero(tied & (outside | (not enough)))),
        largest_gap=float(gaps.max(initial=0.0)),
        shown=enough and scores.kind != "values",
    )


def _gaps(kind: Kind, values: Array, chosen_a: Array, chosen_b: Array) -> tuple[Array, Array]:
    """Return how far apart the two chosen scores are, infinite for an invalid index; no index is outside."""
    invalid = (chosen_b < 0) | (chosen_b >= values.shape[1])
    if kind == "top-k":
        invalid |= _repeats(chosen_b)
    b = np.where(invalid, 0, chosen_b).astype(np.int64)
    gaps = _distance(values, chosen_a.astype(np.int64), b)
    return np.where(invalid, np.inf, gaps), np.zeros_like(invalid)


def _gaps_in_lists(values: Array, chosen_a: Array, chosen_b: Array, tie: float, own: Array) -> tuple[Array, Array]:
    """Return the same where only the chosen scores are known, and which indices are from outside the list.

    One from outside stands for the score behind the last, where something shows that ties reach that far.
    """
    last = values.shape[1] - 1
    found = chosen_b[:, :, np.newaxis] == chosen_a[:, np.newaxis, :]
    outside = ~found.any(axis=2)
    a = np.broadcast_to(np.arange(last + 1), chosen_a.shape)
    gaps = _distance(values, a, np.where(outside, last, found.argmax(axis=2)))
    reaches = own | (np.abs(values[:, -1:] - values[:, -2:-1]) <= tie)
    invalid = (chosen_b < 0) | _repeats(chosen_b) | (outside & ~reaches)
    return np.where(invalid, np.inf, gaps), outside


def _distance(values: Array, a: Array, b: Array) -> Array:
    left, right = np.take_along_axis(values, a, axis=1), np.take_along_axis(values, b, axis=1)
    # Equal infinities tie: what was masked has such scores.
    gaps: Array = np.abs(np.subtract(left, right, out=np.zeros_like(left), where=left != right))
    return gaps


def _repeats(chosen: Array) -> Array:
    """Return which rows hold an index twice, as a column."""
    ordered = np.sort(chosen, axis=1)
    return np.asarray((ordered[:, 1:] == ordered[:, :-1]).any(axis=1, keepdims=True))


def _rules_out_enough(scores: Scores, chosen: Array, tie: float) -> bool:
    """Whether scores that do not tie rule out enough other choices for the relation to be more than chance."""
    if scores.given:
        return True
    first, last = scores.rows[:, :1], scores.rows[:, -1:]
    if scores.kind == "values":
        return bool((np.abs(first - last) > tie).any())
    best = np.take_along_axis(scores.rows, chosen[:, :1].astype(np.int64), axis=1)
    as_good = (np.abs(scores.rows - best) <= tie) | (scores.rows == best)
    return bool(np.prod(as_good.mean(axis=1)) <= _CHANCE)


def _as_rows(scores: Scores, indices: Array) -> Array:
    moved = np.moveaxis(indices, scores.axis, -1) if scores.kept else indices[..., np.newaxis]
    return moved.reshape(-1, moved.shape[-1])


def _rows(values: Array, axis: int) -> Array:
    moved = np.moveaxis(values, axis, -1)
    return moved.reshape(-1, moved.shape[-1])


def _relate_arg(name: str, indices: Array, values: Array) -> Scores | None:
    for axis in reversed(range(values.ndim)):
        if values.shape[axis] < 2:
            continue
        dropped = values.shape[:axis] + values.shape[axis + 1 :]
        kept = (*values.shape[:axis], 1, *values.shape[axis + 1 :])
        if indices.shape not in (dropped, kept):
            continue
        for extreme in (np.argmax, np.argmin):
            if np.array_equal(extreme(values, axis=axis).reshape(-1), indices.reshape(-1)):
                return Scores(name, "arg", _rows(values, axis), axis, indices.shape == kept)
    return None


def _relate_topk(name: str, indices: Array, values: Array) -> Scores | None:
    if indices.ndim != values.ndim or not indices.size or indices.min() < 0:
        return None
    for axis in reversed(range(values.ndim)):
        count = indices.shape[axis]
        rest_equal = all(i == v for k, (i, v) in enumerate(zip(indices.shape, values.shape, strict=True)) if k != axis)
        if not rest_equal or not 1 <= count <= values.shape[axis] or indices.max() >= values.shape[axis]:
            continue
        taken = _rows(np.take_along_axis(values, indices.astype(np.int64), axis), axis)
        ordered = np.sort(_rows(values, axis), axis=1)
        if np.array_equal(taken, ordered[:, ::-1][:, :count]) or np.array_equal(taken, ordered[:, :count]):
            return Scores(name, "top-k", _rows(values, axis), axis, kept=True)
    return None


def _relate_values(name: str, indices: Array, values: Array) -> Scores | None:
    if indices.shape != values.shape or not indices.ndim or indices.shape[-1] < 2 or indices.min() < 0:
        return None
    rows = _rows(values, -1)
    sorted_down, sorted_up = (rows[:, 1:] <= rows[:, :-1]).all(), (rows[:, 1:] >= rows[:, :-1]).all()
    if (sorted_down or sorted_up) and not _repeats(_rows(indices, -1)).any():
        return Scores(name, "values", rows, indices.ndim - 1, kept=True)
    return None
