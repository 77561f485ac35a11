"""The structural rules for one output, each by name. Whatever a rule objects to is decided before any tolerance.

| rule | says | when |
| --- | --- | --- |
| `changed_shape` | break | shapes differ: nothing is broadcast, a permuted layout is named (rules 2 and 6) |
| `changed_dtype` | break | dtypes differ: nothing is cast before this check (rule 3) |
| `not_deterministic` | unverified | a side differs from itself between two runs on one input (rule 8) |
| `moved_nonfinite` | break | NaN or Inf on one side only or at other places (rule 1) |
| `nothing_to_compare` | unverified | every value is NaN on both sides: that they agree would mean nothing (rule 1) |
| `changed_integers` | break | integers or bools differ in their own width (rule 5) |

Rule 4 is `pairing`, rule 7 stands in `floor` and `metrics`, rule 9 is `comparison.unverified`, rule 10 is `indices`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensoraudit.equivalence.blocks import Array, Index, blocks, largest_difference, largest_magnitude
from tensoraudit.equivalence.case import Case, Note
from tensoraudit.equivalence.layout import find_permutation, matches_after_reshape
from tensoraudit.equivalence.metrics import Metrics
from tensoraudit.equivalence.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Objection:
    """What a structural rule found: a verdict that no number can change."""

    verdict: Verdict
    reason: str
    layout: Index | None = None
    notes: tuple[Note, ...] = ()


def changed_shape(case: Case) -> Objection | None:
    """Rules 2 and 6: shapes must be equal; empty equals empty."""
    a, b = case.reference, case.candidate
    if a.shape == b.shape:
        return None
    within = case.closeness(largest_magnitude(a))
    reason = f"the shape changes from {list(a.shape)} to {list(b.shape)}"
    layout = find_permutation(a, b, within)
    if layout is not None:
        return Objection(Verdict.BREAK, f"{reason}; matches after transpose {layout}", layout)
    if matches_after_reshape(a, b, within):
        return Objection(Verdict.BREAK, f"{reason}; the values agree one by one, so that only a reshape is missing")
    return Objection(Verdict.BREAK, reason)


def changed_dtype(case: Case) -> Objection | None:
    """Rule 3: dtypes must be equal; the values are compared all the same, for the report."""
    before, after = case.reference_dtype, case.candidate_dtype
    if before == after and case.reference.dtype == case.candidate.dtype:
        return None
    gap = largest_difference(case.reference, case.candidate)
    reason = f"the dtype changes from {before} to {after}; widened to float64, the values differ by at most {gap:.2g}"
    return Objection(Verdict.BREAK, reason, notes=(Note("dtype-changed", reason),))


def not_deterministic(case: Case) -> Objection | None:
    """Rule 8: a side that differs from itself cannot be compared with another."""
    for side, first, second in (
        ("reference", case.reference, case.reference_repeat),
        ("candidate", case.candidate, case.candidate_repeat),
    ):
        if second is not None and not repeats(first, second):
            reason = f"not deterministic: the {side} gives other values when it runs again on the same input"
            return Objection(Verdict.UNVERIFIED, reason)
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


def moved_nonfinite(case: Case, metrics: Metrics) -> Objection | None:
    """Rule 1, first half: NaN and Inf must stand at the same places, Inf with the same sign."""
    counts = ((metrics.nan_mismatches, "NaN"), (metrics.inf_mismatches, "Inf"))
    what = " and ".join(f"{count} {kind}" for count, kind in counts if count)
    if not what:
        return None
    return Objection(
        Verdict.BREAK,
        f"{what} of {metrics.size} values on one side only or with another sign, first at {metrics.first_mismatch}",
    )


def nothing_to_compare(case: Case, metrics: Metrics) -> Objection | None:
    """Rule 1, second half: an output that is NaN all over proves nothing."""
    if not metrics.size or metrics.nan_both != metrics.size:
        return None
    return Objection(Verdict.UNVERIFIED, "every value is NaN on both sides: there is nothing to compare")


def changed_integers(case: Case, metrics: Metrics) -> Objection | None:
    """Rule 5: integers and bools are exact."""
    if case.reference.dtype.kind == "f" or not metrics.differing:
        return None
    reason = (
        f"{metrics.differing} of {metrics.size} {case.reference_dtype} values differ, the most at {metrics.worst}: "
        f"{metrics.worst_reference} against {metrics.worst_candidate}"
    )
    layout = find_permutation(case.reference, case.candidate, 0.0)
    if layout is not None:
        return Objection(Verdict.BREAK, f"{reason}; matches after transpose {layout}", layout)
    return Objection(Verdict.BREAK, reason)


BEFORE_MEASURING = (changed_shape, changed_dtype, not_deterministic)
AFTER_MEASURING = (moved_nonfinite, nothing_to_compare, changed_integers)


def value_notes(metrics: Metrics) -> tuple[Note, ...]:
    """Return what must never stay silent although no rule objects: NaN, Inf or no values at all, on both sides."""
    size = metrics.size
    found = (
        (metrics.nan_both, "nan-on-both-sides", f"{metrics.nan_both} of {size} values are NaN on both sides"),
        (metrics.inf_both, "inf-on-both-sides", f"{metrics.inf_both} of {size} values are infinite on both sides"),
        (not size, "empty", "the output has no elements, on both sides"),
    )
    return tuple(Note(kind, text) for holds, kind, text in found if holds)
