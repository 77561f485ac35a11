"""What is given about one output of two sides, and what may be said beside a verdict. Holds data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.floor import EPS, dtype_floor
from tensoraudit.equivalence.tolerance import Tolerance

_MATCHES = 0.01


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a report must say beside the verdict: `kind` for machines (stable), `text` for people.

    Kinds: nan-on-both-sides, inf-on-both-sides, empty, no-oracle, oracle-unusable, perturbation-unusable,
    ill-conditioned, dtype-changed, paired-by-value, layout-convention.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """One output of both sides. Dtypes are logical names: "bfloat16" may be carried in float32."""

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

    @property
    def float_dtype(self) -> str:
        """Return the dtype that limits go by."""
        return limits_go_by(self.reference_dtype, self.reference)

    def closeness(self, scale: float, noise: float = 0.0) -> float:
        """Return how far values may differ for a layout to count as matching; 0 for integers.

        That is `noise`, a few roundings at `scale`, or the absolute tolerance, but no more than a hundredth of `scale`:
        in a tensor of tiny values the tolerance alone would let anything match.
        """
        if self.reference.dtype.kind != "f":
            return 0.0
        roundings = self.tolerance.noise_limit_without_oracle * dtype_floor(self.float_dtype, scale)
        return max(noise, roundings, min(self.tolerance.linf, _MATCHES * scale))


def limits_go_by(dtype: str, carrier: Array) -> str:
    """Return the logical dtype if its precision is known, else that of the array which carries it."""
    return dtype if dtype in EPS else carrier.dtype.name
