"""The six verdicts, and the table that picks one for a float tensor that passed every structural rule.

| verdict | when |
| --- | --- |
| identical | same bits |
| equivalent | L-infinity within tolerance, and no loss |
| noise | L-infinity over the tolerance, but no loss |
| drift | a loss that changes no decision |
| break | a loss that changes a decision, or that is larger than the tensor's largest value |
| unverified | could not be judged (given by the structural rules, never by this table) |

A loss is an `error_ratio` over the noise limit, with two restrictions:

1. A reference that is zero all over has no scale: an error within the absolute tolerance is no loss (rule 7).
2. Where no floor was measured (neither oracle nor perturbed runs) the ratio to the dtype floor may excuse a difference
   but not prove a loss: the tolerance has to be exceeded as well, or its `guard` share of the largest value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tensoraudit.equivalence.decisions import Decisions
from tensoraudit.equivalence.floor import NoiseFloor
from tensoraudit.equivalence.metrics import Metrics
from tensoraudit.equivalence.tolerance import Tolerance


class Verdict(StrEnum):
    """What is known about one compared tensor, from best to worst."""

    IDENTICAL = "identical"
    EQUIVALENT = "equivalent"
    NOISE = "noise"
    UNVERIFIED = "unverified"
    DRIFT = "drift"
    BREAK = "break"

    @property
    def rank(self) -> int:
        """Return the place in the order of badness; `unverified` stands between the passes and the proven faults."""
        return _ORDER.index(self)

    @property
    def passes(self) -> bool:
        """Tell whether the tensor was judged and found right."""
        return self in (Verdict.IDENTICAL, Verdict.EQUIVALENT, Verdict.NOISE)


_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and one plain sentence with the numbers behind it."""

    verdict: Verdict
    reason: str


def noise_limit(floor: NoiseFloor, tolerance: Tolerance) -> float:
    """Return how many floors count as noise, which depends on what the floor rests on."""
    return tolerance.noise_limit if floor.source == "oracle" else tolerance.noise_limit_without_oracle


def is_loss(metrics: Metrics, floor: NoiseFloor, tolerance: Tolerance) -> bool:
    """Tell whether the error is more than noise."""
    if floor.error_ratio <= noise_limit(floor, tolerance):
        return False
    if metrics.linf > tolerance.linf:
        return True
    if floor.zero_reference:
        return False
    return floor.measured or metrics.linf > tolerance.guard * floor.scale


def judge(metrics: Metrics, floor: NoiseFloor, tolerance: Tolerance, decisions: Decisions) -> Judgement:
    """Pick the verdict for a float tensor whose bits are not all equal."""
    sizes = f"L-infinity {metrics.linf:.2g} ({_against(metrics.linf, tolerance.linf)} the tolerance {tolerance.linf:g})"
    ratio = f"the error is {floor.error_ratio:.3g} times the noise floor {floor.value:.2g} ({_BASIS[floor.source]})"
    limit = f"limit {noise_limit(floor, tolerance):g}"
    if not is_loss(metrics, floor, tolerance):
        verdict = Verdict.EQUIVALENT if metrics.linf <= tolerance.linf else Verdict.NOISE
        return Judgement(verdict, f"{sizes}; {ratio}, {limit}" if floor.measured or verdict == Verdict.NOISE else sizes)
    if metrics.linf > floor.scale:
        return Judgement(
            Verdict.BREAK, f"{sizes}: more than the largest reference value {floor.scale:.2g}; {ratio}, {limit}"
        )
    if decisions.changed:
        return Judgement(Verdict.BREAK, f"{decisions.sentence()}; {sizes}; {ratio}, {limit}")
    return Judgement(Verdict.DRIFT, f"{sizes}; {ratio}, {limit}; {decisions.sentence()}")


_BASIS = {
    "oracle": "against double precision",
    "perturbation": "inputs moved by one ULP; no oracle",
    "dtype": "rounding of the dtype; no oracle, no perturbed runs",
}


def _against(value: float, limit: float) -> str:
    return "within" if value <= limit else "over"
