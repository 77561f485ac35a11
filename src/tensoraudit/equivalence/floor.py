"""How far apart two right computations of one tensor would be: the noise floor. Judges nothing.

With a reference result `a`, a candidate result `b` and an oracle `r` (the reference's model in double precision):

    e_a           = max|a - r|            the reference's own rounding error
    e_b           = max|b - r|            the candidate's error
    p             = max over draws k of max|a_k - a|, where a_k comes from inputs moved by one unit in the last place
    dtype floor   = max(eps * max|r|, spacing at zero)     one rounding of the largest value (eps: spacing at 1.0)
    floor         = max(e_a, p, dtype floor)
    error_ratio   = e_b / floor

Without an oracle `e_a` drops out, `a` stands in for `r` and `e_b = max|a - b|`. Elements that are NaN or infinite on
either side of a difference do not count here; structural rule 1 judges them.

The dtype floor keeps a floor that was measured as zero (data movement, a saturated output) from making one rounding an
infinite ratio. It is never less than the spacing of the numbers at zero. A tensor that is zero all over has no scale of
its own and is judged on the scale of 1 (structural rule 7). float32 values that lie in [0, 1] on both sides are judged
on the scale `PROBABILITY` at least, however small the largest one is on this input; rows that sum to 1 are not, since
softmax is accurate relatively.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array, in_unit_interval, largest_difference, largest_magnitude
from tensoraudit.equivalence.metrics import Metrics

Source = Literal["oracle", "perturbation", "dtype"]

# Spacing of the numbers at 1.0, by logical dtype (IEEE 754; OCP 8-bit formats).
EPS = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
# Spacing of the numbers at zero: the smallest subnormal number; but the smallest normal one in those formats whose
# subnormal numbers hardware and runtimes may flush to zero.
SPACING_AT_ZERO = {
    "float16": 2.0**-24,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
    "float8_e4m3fn": 2.0**-9,
    "float8_e5m2": 2.0**-16,
}


PROBABILITY = 0.25
"""With the noise limit of 8 this excuses two roundings at 1.0: ONNX Runtime's sigmoid is accurate to that absolutely,
not relatively (measured: off by up to 1.3e-7 where the true value is 1e-15)."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The floor of one tensor with everything that went into it; all in the unit of the tensor's values.

    `scale` is max|r|. `source` says what the floor rests on: an oracle, perturbed runs only, or (nothing was measured)
    the dtype alone. `zero_reference` tells that `a` is zero all over: only an absolute tolerance can judge it.
    """

    reference_error: float | None
    candidate_error: float
    sensitivity: float | None
    dtype_floor: float
    scale: float
    source: Source
    zero_reference: bool = False

    @property
    def value(self) -> float:
        """Return max(e_a, p, dtype floor); always positive."""
        return max(self.reference_error or 0.0, self.sensitivity or 0.0, self.dtype_floor)

    @property
    def error_ratio(self) -> float:
        """Return e_b / floor."""
        return self.candidate_error / self.value

    @property
    def measured(self) -> bool:
        """Tell whether a run, not only the dtype, stands behind the floor."""
        return self.source != "dtype"


def dtype_floor(dtype: str, scale: float) -> float:
    """Return one rounding at the largest value `scale`, for a logical dtype name; a scale of 0 counts as 1."""
    return max(EPS[dtype] * (scale if scale > 0.0 else 1.0), SPACING_AT_ZERO[dtype])


def _is_softmax(values: Array) -> bool:
    return values.ndim > 0 and bool(np.all(np.abs(values.sum(axis=-1, dtype=np.float64) - 1.0) < 1e-3))


def noise_floor(
    reference: Array,
    candidate: Array,
    dtype: str,
    metrics: Metrics,
    *,
    oracle: Array | None = None,
    perturbed: Sequence[Array] = (),
) -> NoiseFloor:
    """Measure the floor of a float tensor; all arrays have one shape, `metrics` are those of the two sides."""
    draws = [largest_difference(draw, reference) for draw in perturbed]
    sensitivity, zero = max(draws, default=None), metrics.reference_max == 0.0
    scale = metrics.reference_max if oracle is None else largest_magnitude(oracle)
    small = dtype == "float32" and 0.0 < scale < PROBABILITY and not _is_softmax(reference)
    unit = small and in_unit_interval(reference) and in_unit_interval(candidate)
    rounding = dtype_floor(dtype, PROBABILITY if unit else scale)
    if oracle is None:
        source: Source = "perturbation" if draws else "dtype"
        return NoiseFloor(None, metrics.linf, sensitivity, rounding, scale, source, zero)
    own, other = largest_difference(reference, oracle), largest_difference(candidate, oracle)
    return NoiseFloor(own, other, sensitivity, rounding, scale, "oracle", zero)
