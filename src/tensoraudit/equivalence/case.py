"""What is given about one output of two sides, and what may be said beside a verdict. Holds data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.floor import dtype_floor
from tensoraudit.equivalence.tolerance import Tolerance


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

    def closeness(self, scale: float) -> float:
        """Return how far values may differ and still count as matching, where no floor is measured; 0 for integers."""
        if self.reference.dtype.kind != "f":
            return 0.0
        return max(
            self.tolerance.linf,
            self.tolerance.noise_limit_without_oracle * dtype_floor(self.reference_dtype, scale),
        )
