"""How far two arrays are apart: every cheap number in one pass over memory. Judges nothing, knows no tolerance.

Differences are taken in double precision: exact for float16, and for float32 correctly rounded at 2**-53. Integers and
bools never become floats; they are compared in their own width, so that uint8 does not wrap and int64 keeps its last
bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensoraudit.equivalence.blocks import BLOCK, Array, Index, blocks, index_at
from tensoraudit.equivalence.ulp import UlpKeys

# Below this difference two values count as equal in `max_relative`, and a smaller reference is taken as this large: the
# spacing of the dtype at 1.0. Without it a reference of 0 makes every relative error infinite (structural rule 7).
ABSOLUTE_FLOOR = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}

# Sums of squares of doubles outside this range may have overflowed or lost terms; such tensors get a second, scaled
# pass. Squares of narrower floats are always inside it.
_SQUARES_SAFE = (1e-250, 1e300)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The distance between a reference `a` and a candidate `b` of equal shape and dtype.

    Sums and extremes run over the `compared` elements: those that are finite on both sides. Quantities without meaning
    for the dtype, or for an empty tensor, are None. Counts of NaN and Inf are kept apart; they never hide in a sum.
    """

    size: int
    compared: int
    identical_bits: bool
    differing: int
    linf: float
    mean_abs: float | None = None
    rmse: float | None = None
    max_relative: float | None = None
    cosine: float | None = None
    max_ulp: int | None = None
    reference_max: float = 0.0
    nan_mismatches: int = 0
    inf_mismatches: int = 0
    nan_both: int = 0
    inf_both: int = 0
    first_mismatch: Index | None = None
    worst: Index | None = None
    worst_reference: float | int | bool | None = None
    worst_candidate: float | int | bool | None = None


def measure(reference: Array, candidate: Array) -> Metrics:
    """Measure two arrays of equal shape and dtype (float16/32/64, integer or bool) in one pass.

    Raises ValueError when shape or dtype differ: nothing is broadcast and nothing is cast. Extra memory stays under
    1 MiB whatever the size.
    """
    if reference.shape != candidate.shape or reference.dtype != candidate.dtype:
        raise ValueError(
            f"cannot measure {reference.dtype}{list(reference.shape)} against "
            f"{candidate.dtype}{list(candidate.shape)}: shape and dtype must be equal"
        )
    if reference.dtype.kind == "f":
        return _measure_floats(reference, candidate)
    return _measure_exact(reference, candidate)


def _measure_exact(reference: Array, candidate: Array) -> Metrics:
    unsigned = np.dtype(f"u{reference.dtype.itemsize}")
    differing, largest, worst = 0, -1, None
    for offset, (a, b) in blocks(reference, candidate):
        count = int(np.count_nonzero(a != b))
        if not count:
            continue
        differing += count
        # The larger minus the smaller, read as unsigned, is exact over the whole range of the type.
        gap = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)
        position = int(gap.argmax())
        if int(gap[position]) > largest:
            largest, worst = int(gap[position]), offset + position
    index = None if worst is None else index_at(worst, reference.shape)
    return Metrics(
        size=reference.size,
        compared=reference.size,
        identical_bits=differing == 0,
        differing=differing,
        linf=max(largest, 0),
        worst=index,
        worst_reference=None if index is None else reference[index].item(),
        worst_candidate=None if index is None else candidate[index].item(),
    )


def _measure_floats(reference: Array, candidate: Array) -> Metrics:
    tally = _Tally(reference.dtype.name)
    # Overflow and NaN are counted, not warned about. Entered once: in every block it would cost a tenth of the time.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for offset, (a, b) in blocks(reference, candidate):
            tally.add(offset, a, b)
    mean_abs, rmse, cosine = tally.moments()
    if tally.compared and reference.dtype.itemsize == 8 and not _squares_are_safe(tally):
        mean_abs, rmse, cosine = _scaled_moments(reference, candidate, tally)
    worst = None if tally.worst is None else index_at(tally.worst, reference.shape)
    first = None if tally.first_mismatch is None else index_at(tally.first_mismatch, reference.shape)
    return Metrics(
        size=reference.size,
        compared=tally.compared,
        identical_bits=tally.identical,
        differing=tally.differing,
        linf=tally.linf,
        mean_abs=mean_abs,
        rmse=rmse,
        max_relative=tally.max_relative if tally.compared else None,
        cosine=cosine,
        max_ulp=tally.max_ulp if tally.compared else None,
        reference_max=tally.reference_max,
        nan_mismatches=tally.nan_mismatches,
        inf_mismatches=tally.inf_mismatches,
        nan_both=tally.nan_both,
        inf_both=tally.inf_both,
        first_mismatch=first,
        worst=worst,
        worst_reference=None if worst is None else float(reference[worst]),
        worst_candidate=None if worst is None else float(candidate[worst]),
    )


class _Tally:
    """Running sums and extremes over blocks; owns the buffers, so that a block allocates nothing large.

    Extremes go through `argmax`, sums through `dot`: at this block size both are two to four times faster than the
    reductions `max` and `sum`, and `argmax` stops at a NaN, which is how NaN and Inf are noticed without a pass of
    their own.
    """

    def __init__(self, dtype: str) -> None:
        self.floor = ABSOLUTE_FLOOR[dtype]
        self.keys = UlpKeys(np.dtype(dtype).itemsize)
        self.a, self.b, self.d, self.e = (np.empty(BLOCK) for _ in range(4))
        self.floors, self.ones = np.full(BLOCK, self.floor), np.ones(BLOCK)
        self.identical = True
        self.compared = self.differing = self.max_ulp = 0
        self.nan_mismatches = self.inf_mismatches = self.nan_both = self.inf_both = 0
        self.first_mismatch: int | None = None
        self.worst: int | None = None
        self.linf, self.max_relative, self.reference_max = 0.0, 0.0, 0.0
        self.sum_d = self.sum_dd = self.sum_aa = self.sum_bb = self.sum_ab = 0.0

    def add(self, offset: int, x: Array, y: Array) -> None:
        """Take in one block: `x` of the reference, `y` of the candidate."""
        a, b, d, e = (buffer[: x.size] for buffer in (self.a, self.b, self.d, self.e))
        np.copyto(a, x)
        np.copyto(b, y)
        np.subtract(a, b, out=d)
        np.abs(d, out=e)
        position = int(e.argmax())
        same_bits, differing, ulp = self.keys.compare(x, y)
        self.identical = self.identical and same_bits
        if not math.isfinite(e[position]):
            finite = self._set_aside_nonfinite(offset, a, b)
            a, b, d, e = (values[finite] for values in (a, b, d, e))
            if not a.size:
                return
            _, differing, ulp = self.keys.compare(x[finite], y[finite])
            position = int(e.argmax())
            offset = offset + int(np.flatnonzero(finite)[position]) - position
        self.compared += a.size
        self.differing += differing
        self.max_ulp = max(self.max_ulp, ulp)
        if e[position] > self.linf:
            self.linf, self.worst = float(e[position]), offset + position
        self._add_sums(a, b, d, e)
        self._add_extremes(a, e)

    def _set_aside_nonfinite(self, offset: int, a: Array, b: Array) -> Array:
        """Count NaN and Inf and say which elements are finite on both sides."""
        nan_a, nan_b, inf_a, inf_b = np.isnan(a), np.isnan(b), np.isinf(a), np.isinf(b)
        nan_mismatch = nan_a != nan_b
        inf_mismatch = (inf_a | inf_b) & (a != b) & ~nan_a & ~nan_b
        self.nan_both += int(np.count_nonzero(nan_a & nan_b))
        self.inf_both += int(np.count_nonzero(inf_a & inf_b & (a == b)))
        self.nan_mismatches += int(np.count_nonzero(nan_mismatch))
        self.inf_mismatches += int(np.count_nonzero(inf_mismatch))
        mismatch = nan_mismatch | inf_mismatch
        self.differing += int(np.count_nonzero(mismatch))
        if self.first_mismatch is None and mismatch.any():
            self.first_mismatch = offset + int(mismatch.argmax())
        finite: Array = np.isfinite(a) & np.isfinite(b)
        return finite

    def _add_sums(self, a: Array, b: Array, d: Array, e: Array) -> None:
        self.sum_d += float(e.dot(self.ones[: e.size]))
        self.sum_dd += float(d.dot(d))
        self.sum_aa += float(a.dot(a))
        self.sum_bb += float(b.dot(b))
        self.sum_ab += float(a.dot(b))

    def _add_extremes(self, a: Array, e: Array) -> None:
        """Overwrites its arguments: the last use of the block."""
        np.abs(a, out=a)
        self.reference_max = max(self.reference_max, float(a[a.argmax()]))
        np.subtract(e, self.floor, out=e)
        np.maximum(a, self.floors[: a.size], out=a)
        np.divide(e, a, out=e)
        self.max_relative = max(self.max_relative, float(e[e.argmax()]))

    def moments(self) -> tuple[float | None, float | None, float | None]:
        """Return mean|d|, root mean square of d and the cosine, None where nothing was compared."""
        if not self.compared:
            return None, None, None
        return (
            self.sum_d / self.compared,
            math.sqrt(self.sum_dd / self.compared),
            _cosine(self.sum_ab, self.sum_aa, self.sum_bb),
        )


def _cosine(ab: float, aa: float, bb: float) -> float | None:
    """Two zero vectors point the same way; one zero vector against another has no angle."""
    if aa == 0.0 and bb == 0.0:
        return 1.0
    norm = math.sqrt(aa) * math.sqrt(bb)
    return None if norm == 0.0 else min(1.0, max(-1.0, ab / norm))


def _squares_are_safe(tally: _Tally) -> bool:
    """Tell whether no sum of squares overflowed or vanished; a sum of 0 is right only where every value is 0."""
    low, high = _SQUARES_SAFE
    sums = ((tally.sum_dd, tally.linf), (tally.sum_aa, tally.reference_max), (tally.sum_bb, tally.reference_max))
    return all(low < total < high or total == largest == 0.0 for total, largest in sums)


def _largest_compared(reference: Array, candidate: Array) -> float:
    """The candidate's largest magnitude where both are finite: a number beside an Inf must not set the scale."""
    found = (np.abs(y[np.isfinite(x) & np.isfinite(y)]) for _, (x, y) in blocks(reference, candidate))
    return max((float(each.max()) for each in found if each.size), default=0.0)


def _scaled_moments(
    reference: Array, candidate: Array, tally: _Tally
) -> tuple[float | None, float | None, float | None]:
    """Moments of doubles so large or so small that their squares leave the range; two more passes, rarely needed."""
    top = float(np.finfo(np.float64).max)
    extremes = (tally.reference_max, _largest_compared(reference, candidate), tally.linf)
    scale_a, scale_b, scale_d = (min(value, top) if value > 0.0 else 1.0 for value in extremes)
    sum_d = sum_dd = aa = bb = ab = 0.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for _, (x, y) in blocks(reference, candidate):
            finite = np.isfinite(x) & np.isfinite(y)
            a, b = x[finite] / scale_a, y[finite] / scale_b
            # Where values are large, halves first: their difference cannot overflow.
            half = 2.0 if scale_d > 1.0 else 1.0
            d = np.abs(x[finite] / half - y[finite] / half) / (scale_d / half)
            sum_d, sum_dd = sum_d + float(d.sum()), sum_dd + float(d.dot(d))
            aa, bb, ab = aa + float(a.dot(a)), bb + float(b.dot(b)), ab + float(a.dot(b))
    mean, root = sum_d / tally.compared * scale_d, math.sqrt(sum_dd / tally.compared) * scale_d
    return mean, root, _cosine(ab, aa, bb)
