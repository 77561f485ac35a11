from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensoraudit.equivalence.decisions import Decisions
from tensoraudit.equivalence.floor import NoiseFloor
from tensoraudit.equivalence.metrics import Metrics, measure
from tensoraudit.equivalence.tolerance import Tolerance
from tensoraudit.equivalence.verdict import Verdict, is_loss, judge

TOLERANCE = Tolerance(linf=1e-5, noise_limit=4.0, noise_limit_without_oracle=8.0)
SAME, CHANGED = Decisions(rows=5, axis=1), Decisions(rows=5, top1_changes=2, axis=1)


def metrics(linf: float) -> Metrics:
    a, b = np.zeros(3), np.zeros(3)
    return replace(measure(a, b), linf=linf, identical_bits=False)


def floor(ratio: float, linf: float, scale: float = 1.0, source: str = "oracle", zero: bool = False) -> NoiseFloor:
    return NoiseFloor(linf / ratio, linf, None, 1e-30, scale, source, zero)  # type: ignore[arg-type]


# within tolerance?, ratio over the limit?, decision changed? -> verdict: the whole table
TABLE = [
    (1e-6, 1.0, SAME, Verdict.EQUIVALENT),
    (1e-5, 4.0, SAME, Verdict.EQUIVALENT),
    (1e-6, 1.0, CHANGED, Verdict.EQUIVALENT),
    (1e-3, 1.0, SAME, Verdict.NOISE),
    (1e-3, 4.0, CHANGED, Verdict.NOISE),
    (1e-6, 4.1, SAME, Verdict.DRIFT),
    (1e-3, 300.0, SAME, Verdict.DRIFT),
    (1e-6, 4.1, CHANGED, Verdict.BREAK),
    (1e-3, 300.0, CHANGED, Verdict.BREAK),
    (1.5, 300.0, SAME, Verdict.BREAK),
]


@pytest.mark.parametrize(("linf", "ratio", "decisions", "verdict"), TABLE)
def test_the_table(linf: float, ratio: float, decisions: Decisions, verdict: Verdict) -> None:
    found = judge(metrics(linf), floor(ratio, linf), TOLERANCE, decisions)
    assert found.verdict == verdict


def test_a_reason_gives_the_numbers() -> None:
    reason = judge(metrics(1.7e-5), floor(11.5, 1.7e-5), TOLERANCE, SAME).reason
    for part in ("1.7e-05", "over the tolerance 1e-05", "11.5 times", "limit 4", "no decision changes"):
        assert part in reason
    reason = judge(metrics(1e-3), floor(300, 1e-3), TOLERANCE, CHANGED).reason
    assert "top-1 entry along axis 1 changes in 2 of 5 rows" in reason


def test_without_an_oracle_the_other_limit_holds_and_the_reason_says_so() -> None:
    known = floor(6.0, 1e-3, source="perturbation")
    assert judge(metrics(1e-3), known, TOLERANCE, SAME).verdict == Verdict.NOISE
    assert "no oracle" in judge(metrics(1e-3), known, TOLERANCE, SAME).reason
    assert judge(metrics(1e-3), floor(8.1, 1e-3, source="perturbation"), TOLERANCE, SAME).verdict == Verdict.DRIFT


def test_a_floor_that_was_not_measured_excuses_but_does_not_accuse() -> None:
    within = floor(50.0, 9e-6, source="dtype")
    assert not is_loss(metrics(9e-6), within, TOLERANCE)
    assert is_loss(metrics(2e-5), floor(50.0, 2e-5, source="dtype"), TOLERANCE)
    assert not is_loss(metrics(2e-5), floor(3.0, 2e-5, scale=300.0, source="dtype"), TOLERANCE)


def test_an_absolute_tolerance_does_not_hide_the_loss_of_a_tiny_tensor() -> None:
    tiny = floor(1e4, 9e-6, scale=1e-5, source="dtype")
    assert is_loss(metrics(9e-6), tiny, TOLERANCE)
    assert not is_loss(metrics(9e-6), tiny, replace(TOLERANCE, guard=float("inf")))


def test_a_zero_reference_is_judged_by_the_absolute_tolerance() -> None:
    assert not is_loss(metrics(9e-6), floor(50.0, 9e-6, scale=0.0, zero=True), TOLERANCE)
    assert is_loss(metrics(2e-5), floor(50.0, 2e-5, scale=0.0, zero=True), TOLERANCE)
    assert not is_loss(metrics(2e-5), floor(1.0, 2e-5, scale=0.0, zero=True), TOLERANCE)


def test_verdicts_are_ordered_and_unverified_is_no_pass() -> None:
    order = ["identical", "equivalent", "noise", "unverified", "drift", "break"]
    assert sorted(Verdict, key=lambda verdict: verdict.rank) == order
    assert [verdict.passes for verdict in sorted(Verdict, key=lambda v: v.rank)] == [True] * 3 + [False] * 3
