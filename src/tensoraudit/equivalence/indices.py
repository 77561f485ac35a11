"""Index outputs (argmax, top-k): integers that point into scores. Structural rule 10.

An index that differs is noise where the scores it chose between tie within noise, else a break. That can be told only
with the scores at hand. They are either given by the caller or found among the reference's own float outputs, where
one of these holds exactly:

1. *argmax / argmin*: the indices are the arg-extremes of the scores along one axis (kept or dropped);
2. *top-k*: the scores, taken at the indices, are the k largest (or smallest) along one axis, in sorted order;
3. *values*: the float output has the shape of the indices and is sorted along the last axis: the other half of a top-k
   whose scores are no output. Then an index inside the reference's list must tie with the value at its place there,
   and one from outside with the last value of the list, since nothing outside is better than that.

Whatever the ties, an index out of range or twice in one top-k list is a break.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array

Kind = Literal["arg", "top-k", "values"]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the reference as rows with the choice along the last axis, and how the index output relates to them."""

    name: str
    kind: Kind
    rows: Array
    axis: int
    kept: bool


@dataclass(frozen=True, slots=True)
class TieCheck:
    """What differing indices mean: `untied` of `differing` choose between scores that do not tie."""

    differing: int
    untied: int
    largest_gap: float


def find_scores(indices: Array, floats: Mapping[str, Array]) -> Scores | None:
    """Return the float output that the reference's indices provably point into, None when there is none."""
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
    return found


def check_ties(scores: Scores, reference: Array, candidate: Array, tie: float) -> TieCheck:
    """Compare two index arrays of equal shape; scores that differ by at most `tie` count as equal."""
    chosen_a, chosen_b = _as_rows(scores, reference), _as_rows(scores, candidate)
    places = chosen_a != chosen_b
    rows = np.flatnonzero(places.any(axis=1))
    gaps = _gaps(scores, rows, chosen_a[rows], chosen_b[rows])[places[rows]]
    return TieCheck(gaps.size, int(np.count_nonzero(~(gaps <= tie))), float(gaps.max(initial=0.0)))


def _gaps(scores: Scores, rows: Array, chosen_a: Array, chosen_b: Array) -> Array:
    """Return how far apart the two chosen scores are, place by place; infinite for an invalid index."""
    values = scores.rows[rows].astype(np.float64)
    invalid = chosen_b < 0
    if scores.kind == "values":
        # The place of the candidate's index in the reference's list; an index from outside stands for the last place.
        found = chosen_b[:, :, np.newaxis] == chosen_a[:, np.newaxis, :]
        a = np.broadcast_to(np.arange(values.shape[1]), chosen_a.shape)
        b = np.where(found.any(axis=2), found.argmax(axis=2), values.shape[1] - 1)
    else:
        invalid = invalid | (chosen_b >= values.shape[1])
        a, b = chosen_a.astype(np.int64), np.where(invalid, 0, chosen_b).astype(np.int64)
    if scores.kind != "arg":
        ordered = np.sort(chosen_b, axis=1)
        invalid = invalid | (ordered[:, 1:] == ordered[:, :-1]).any(axis=1, keepdims=True)
    gaps = np.abs(np.take_along_axis(values, a, axis=1) - np.take_along_axis(values, b, axis=1))
    return np.where(invalid, np.inf, gaps)


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
    if indices.shape != values.shape or not indices.ndim or indices.shape[-1] < 2:
        return None
    steps = np.diff(_rows(values, -1).astype(np.float64), axis=1)
    if (steps <= 0).all() or (steps >= 0).all():
        return Scores(name, "values", _rows(values, -1), indices.ndim - 1, kept=True)
    return None
