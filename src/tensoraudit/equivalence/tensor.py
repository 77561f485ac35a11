"""Compare one output: the structural rules in order, then the numbers. Knows nothing of other outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tensoraudit.equivalence.blocks import Index
from tensoraudit.equivalence.case import Case, Note
from tensoraudit.equivalence.decisions import class_axes, decide
from tensoraudit.equivalence.detail import Detail, measure_detail
from tensoraudit.equivalence.floor import NoiseFloor, noise_floor
from tensoraudit.equivalence.layout import find_permutation
from tensoraudit.equivalence.metrics import Metrics, measure
from tensoraudit.equivalence.structure import AFTER_MEASURING, BEFORE_MEASURING, Objection, repeats, value_notes
from tensoraudit.equivalence.tolerance import Tolerance
from tensoraudit.equivalence.verdict import Judgement, Verdict, is_loss, judge, noise_limit

__all__ = ["Case", "Note", "TensorComparison", "compare_tensor", "repeats", "tie_of"]

# A floor above this share of the largest value means that the reference itself has lost its digits.
_ILL_CONDITIONED = 0.01


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """What is known about one output.

    `reason` is one sentence with the numbers. `metrics` is None where shape or dtype already differ. `floor` is None
    for integers and for equal bits; `error_ratio` also where no run stands behind the floor or the reference is zero
    all over. `top1_changes` is None where the tensor has no class axis. `layout` is the axis order after which the
    candidate would match: a diagnosis, never a pass. `detail` is taken for floats with a real loss only. `may_tie`:
    the verdict is `unverified` because integers that differ may be places of scores that tie, which no output shows.
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
    detail: Detail | None = None
    may_tie: bool = False

    def __bool__(self) -> bool:
        raise TypeError("a comparison is no yes or no: look at .verdict, where `unverified` is not a pass")


def compare_tensor(case: Case) -> TensorComparison:
    """Compare one output. An index output that differs is a `break` here; `comparison` then looks at its scores."""
    for before in BEFORE_MEASURING:
        if (objection := before(case)) is not None:
            return _objected(case, objection)
    metrics = _in_ulps_of(case.float_dtype, measure(case.reference, case.candidate))
    case = replace(case, notes=case.notes + value_notes(metrics))
    for after in AFTER_MEASURING:
        if (objection := after(case, metrics)) is not None:
            return _objected(case, objection, metrics)
    if metrics.identical_bits:
        same = Judgement(Verdict.IDENTICAL, "every bit is equal")
        decides = case.reference.dtype.kind == "f" and class_axes(case.reference.shape)
        return _result(case, same, metrics=metrics, top1_changes=0 if decides else None, notes=case.notes)
    return _compare_floats(case, metrics)


def _compare_floats(case: Case, metrics: Metrics) -> TensorComparison:
    a, b, tolerance = case.reference, case.candidate, case.tolerance
    floor = noise_floor(a, b, case.float_dtype, metrics, oracle=case.oracle, perturbed=case.perturbed)
    loss = is_loss(metrics, floor, tolerance)
    decisions = decide(a, b, tie=tie_of(floor, tolerance), scale=floor.scale, loss=loss)
    judgement = judge(metrics, floor, tolerance, decisions)
    close = case.closeness(floor.scale, noise_limit(floor, tolerance) * floor.value)
    layout = find_permutation(a, b, close) if loss and metrics.linf > close else None
    if layout is not None:
        judgement = Judgement(Verdict.BREAK, f"the layout differs: matches after transpose {layout}")
    return _result(
        case,
        judgement,
        metrics=metrics,
        floor=floor,
        error_ratio=floor.error_ratio if floor.measured and not floor.zero_reference else None,
        top1_changes=decisions.top1_changes if decisions.axis is not None else None,
        layout=layout,
        notes=case.notes + _floor_notes(floor),
        detail=measure_detail(a, b) if loss else None,
    )


def tie_of(floor: NoiseFloor, tolerance: Tolerance) -> float:
    """Return how far noise alone may move one value against another: each of the two by the limit times the floor."""
    return 2.0 * noise_limit(floor, tolerance) * floor.value


_NO_ORACLE = {
    "perturbation": "no double-precision run of the reference: the floor is how far it moves with inputs one unit in "
    "the last place away",
    "dtype": "neither a double-precision run nor perturbed runs of the reference: the floor is one rounding",
}


def _floor_notes(floor: NoiseFloor) -> tuple[Note, ...]:
    notes = []
    if floor.source != "oracle":
        notes.append(Note("no-oracle", _NO_ORACLE[floor.source]))
    if floor.value > max(_ILL_CONDITIONED * floor.scale, 64 * floor.dtype_floor):
        text = f"the reference itself is only known to {floor.value:.2g}, at a largest value of {floor.scale:.2g}"
        notes.append(Note("ill-conditioned", f"{text}: a smaller error cannot be told from noise"))
    return tuple(notes)


def _in_ulps_of(dtype: str, metrics: Metrics) -> Metrics:
    """ULP distances are counted in float32 where a narrower float is carried in it: 16 bits more than bfloat16 has."""
    if metrics.max_ulp is None or dtype not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return metrics
    return replace(metrics, max_ulp=metrics.max_ulp >> 16 if dtype == "bfloat16" else None)


def _objected(case: Case, objection: Objection, metrics: Metrics | None = None) -> TensorComparison:
    judgement = Judgement(objection.verdict, objection.reason)
    return _result(case, judgement, metrics=metrics, layout=objection.layout, notes=case.notes + objection.notes)


def _result(case: Case, judgement: Judgement, **known: Any) -> TensorComparison:
    return TensorComparison(case.name, case.candidate_name, judgement.verdict, judgement.reason, **known)
