"""Compare one tensor: the structural rules in order, then the numbers. Knows nothing of other outputs.

The rules are a table, `RULES`; the first that objects decides. What each may say:

    changed_shape         break        shapes differ; with "matches after transpose" where that is so (rules 2, 6)
    changed_dtype         break        dtypes differ; the values are compared after widening, for the report only (rule 3)
    not_deterministic     unverified   a side differs from itself between two runs (rule 8)
    moved_nonfinite       break        NaN or Inf on one side only or at other places (rule 1)
    nothing_to_compare    unverified   every value is NaN on both sides, so that agreement would mean nothing (rule 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensoraudit.equivalence.blocks import Array, Index, blocks, largest_difference
from tensoraudit.equivalence.decisions import decide
from tensoraudit.equivalence.floor import NoiseFloor, noise_floor
from tensoraudit.equivalence.layout import find_permutation, matches_after_reshape
from tensoraudit.equivalence.metrics import Metrics, measure
from tensoraudit.equivalence.tolerance import Tolerance
from tensoraudit.equivalence.verdict import Judgement, Verdict, is_loss, judge, noise_limit


@dataclass(frozen=True, slots=True)
class Note:
    """Something a report must say beside the verdict. `kind` is stable and machine-readable, `text` one plain sentence."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """What is known about one output. `layout` is the axis order that makes the candidate match, a diagnosis and no pass.

    `metrics` is None where the structure already differs; `floor` and `error_ratio` are None for integers and where no run
    stands behind the floor.
    """

    name: str
    candidate_name: str
    verdict: Verdict
    reason: str
    metrics: Metrics | None = None
    floor: NoiseFloor | None = None
    error_ratio: float | None = None
    top1_changes: int | None = None
    layout: Index | None = None
    notes: tuple[Note, ...] = ()

    def __bool__(self) -> bool:
        raise TypeError("a comparison is no yes or no: look at .verdict, where `unverified` is not a pass")


@dataclass(frozen=True, slots=True)
class Case:
    """Everything given about one tensor. Dtypes are logical names: "bfloat16" may be carried in float32."""

    name: str
    candidate_name: str
    reference: Array
    candidate: Array
    reference_dtype: str
    candidate_dtype: str
    tolerance: Tolerance
    oracle: Array | None = None
    perturbed: Sequence[Array] = ()
    reference_repeat: Array | None = None
    candidate_repeat: Array | None = None
    notes: tuple[Note, ...] = ()


def compare_tensor(case: Case) -> TensorComparison:
    """Compare one output; index outputs that differ come out as `break` here and are looked at again with their scores."""
    for rule in (changed_shape, changed_dtype, not_deterministic):
        if (found := rule(case)) is not None:
            return found
    metrics = measure(case.reference, case.candidate)
    notes = _nonfinite_notes(metrics) + _empty_notes(metrics)
    for check in (moved_nonfinite, nothing_to_compare):
        if (judgement := check(metrics)) is not None:
            return _result(case, judgement, metrics=metrics, notes=notes)
    if metrics.identical_bits or case.reference.dtype.kind != "f":
        return _result(case, _judge_exact(case, metrics), metrics=metrics, notes=notes)
    return _compare_floats(case, metrics, notes)


def _compare_floats(case: Case, metrics: Metrics, notes: tuple[Note, ...]) -> TensorComparison:
    a, b, tolerance = case.reference, case.candidate, case.tolerance
    floor = noise_floor(a, b, case.reference_dtype, metrics, oracle=case.oracle, perturbed=case.perturbed)
    if floor.source != "oracle":
        notes += (Note("no-oracle", _NO_ORACLE[floor.source]),)
    loss = is_loss(metrics, floor, tolerance)
    decisions = decide(a, b, tie=tie_of(floor, tolerance), scale=floor.scale, loss=loss)
    judgement = judge(metrics, floor, tolerance, decisions)
    layout = find_permutation(a, b, _close(floor, tolerance)) if loss else None
    if layout is not None:
        judgement = Judgement(Verdict.BREAK, f"the layout differs: matches after transpose {layout}")
    return TensorComparison(
        name=case.name,
        candidate_name=case.candidate_name,
        verdict=judgement.verdict,
        reason=judgement.reason,
        metrics=metrics,
        floor=floor,
        error_ratio=floor.error_ratio if floor.measured else None,
        top1_changes=decisions.top1_changes if decisions.axis is not None else None,
        layout=layout,
        notes=case.notes + notes,
    )


def tie_of(floor: NoiseFloor, tolerance: Tolerance) -> float:
    """Return how far noise alone may move one value against another: each of the two by the limit times the floor."""
    return 2.0 * noise_limit(floor, tolerance) * floor.value


def _close(floor: NoiseFloor, tolerance: Tolerance) -> float:
    return max(tolerance.linf, noise_limit(floor, tolerance) * floor.value)


_NO_ORACLE = {
    "perturbation": "no double-precision run of the reference: the floor is how far the reference moves when its inputs "
    "move by one unit in the last place",
    "dtype": "neither a double-precision run nor perturbed runs of the reference: judged by the tolerance alone",
}


def changed_shape(case: Case) -> TensorComparison | None:
    """Rules 2 and 6: nothing is broadcast; a permuted layout is named."""
    a, b = case.reference, case.candidate
    if a.shape == b.shape:
        return None
    within = case.tolerance.linf if a.dtype.kind == "f" else 0.0
    layout = find_permutation(a, b, within)
    reason = f"the shape changes from {list(a.shape)} to {list(b.shape)}"
    if layout is not None:
        reason += f"; matches after transpose {layout}"
    elif matches_after_reshape(a, b, within):
        reason += "; the values agree one by one, so that a reshape is missing"
    return _result(case, Judgement(Verdict.BREAK, reason), layout=layout)


def changed_dtype(case: Case) -> TensorComparison | None:
    """Rule 3: no cast before this check."""
    before, after = case.reference_dtype, case.candidate_dtype
    if before == after and case.reference.dtype == case.candidate.dtype:
        return None
    gap = largest_difference(case.reference, case.candidate)
    reason = f"the dtype changes from {before} to {after}; widened to float64, the values differ by at most {gap:.2g}"
    return _result(case, Judgement(Verdict.BREAK, reason), notes=(Note("dtype-changed", reason),))


def not_deterministic(case: Case) -> TensorComparison | None:
    """Rule 8: a side that differs from itself cannot be compared with another."""
    for side, first, second in (
        ("reference", case.reference, case.reference_repeat),
        ("candidate", case.candidate, case.candidate_repeat),
    ):
        if second is not None and not repeats(first, second):
            reason = f"not deterministic: the {side} gives other values when it runs again on the same input"
            return _result(case, Judgement(Verdict.UNVERIFIED, reason))
    return None


def repeats(first: Array, second: Array) -> bool:
    """Tell whether two runs gave the same values; NaN equals NaN, whatever its payload."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    for _, (a, b) in blocks(first, second):
        same = a == b
        if not same.all() and not (a.dtype.kind == "f" and (same | (np.isnan(a) & np.isnan(b))).all()):
            return False
    return True


def moved_nonfinite(metrics: Metrics) -> Judgement | None:
    """Rule 1, first half."""
    if not metrics.nan_mismatches and not metrics.inf_mismatches:
        return None
    what = [f"{n} {kind}" for n, kind in ((metrics.nan_mismatches, "NaN"), (metrics.inf_mismatches, "Inf")) if n]
    at = f"first at {metrics.first_mismatch}"
    return Judgement(Verdict.BREAK, f"{' and '.join(what)} on one side only, {at}")


def nothing_to_compare(metrics: Metrics) -> Judgement | None:
    """Rule 1, second half: an output that is NaN all over proves nothing."""
    if metrics.nan_both == metrics.size and metrics.size:
        return Judgement(Verdict.UNVERIFIED, "every value is NaN on both sides: there is nothing to compare")
    return None


def _nonfinite_notes(metrics: Metrics) -> tuple[Note, ...]:
    notes = []
    if metrics.nan_both:
        text = f"{metrics.nan_both} of {metrics.size} values are NaN on both sides, at the same places"
        notes.append(Note("nan-on-both-sides", text))
    if metrics.inf_both:
        text = f"{metrics.inf_both} of {metrics.size} values are the same infinity on both sides"
        notes.append(Note("inf-on-both-sides", text))
    return tuple(notes)


def _empty_notes(metrics: Metrics) -> tuple[Note, ...]:
    return () if metrics.size else (Note("empty", "the output has no elements on both sides"),)


def _judge_exact(case: Case, metrics: Metrics) -> Judgement:
    """Same bits, or rule 5: integers and bools in their own width."""
    if metrics.identical_bits:
        return Judgement(Verdict.IDENTICAL, "every bit is equal")
    reason = (
        f"{metrics.differing} of {metrics.size} {case.reference_dtype} values differ, the most at {metrics.worst}: "
        f"{metrics.worst_reference} against {metrics.worst_candidate}"
    )
    return Judgement(Verdict.BREAK, reason)


def _result(
    case: Case,
    judgement: Judgement,
    *,
    metrics: Metrics | None = None,
    layout: Index | None = None,
    notes: tuple[Note, ...] = (),
) -> TensorComparison:
    return TensorComparison(
        name=case.name,
        candidate_name=case.candidate_name,
        verdict=judgement.verdict,
        reason=judgement.reason,
        metrics=metrics,
        layout=layout,
        notes=case.notes + notes,
    )
