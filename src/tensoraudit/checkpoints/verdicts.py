"""The comparator's verdict on two tensors that pass by block after block, so that memory does not grow with them.

The structural rules, the noise floor, the tolerances and the table of verdicts are those of `equivalence`. One thing is
left out: what a user would decide from a tensor (its largest class, a sign). A stored weight decides nothing by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.precision import narrower
from tensoraudit.equivalence.case import limits_go_by
from tensoraudit.equivalence.decisions import Decisions
from tensoraudit.equivalence.floor import NoiseFloor, dtype_floor
from tensoraudit.equivalence.metrics import Metrics
from tensoraudit.equivalence.tolerance import tolerance_for
from tensoraudit.equivalence.verdict import Verdict, judge

STEP: Final = 1 << 15
"""Elements at a time: the buffers of one step stay in a level-2 cache."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two tensors are apart. `reason` is a sentence with the numbers; `linf` and
    `largest`, the largest magnitude of the reference, are over finite elements."""

    verdict: Verdict
    reason: str
    linf: float
    largest: float = 0.0


@dataclass(slots=True)
class Loss:
    """What a cast lost: the largest |a - b| / |a|, elements that became infinite, and ones that became zero."""

    relative: float = 0.0
    to_inf: int = 0
    to_zero: int = 0


class Tally:
    """Adds up blocks of two tensors of one shape. `dtypes` are their names in the checkpoints.

    With `loss` it also counts what a cast lost, which takes as much time again.
    """

    def __init__(self, dtypes: tuple[str, str], *, loss: bool = False) -> None:
        self._dtypes = dtypes
        self._exact: bool | None = None
        self._buffer: Array | None = None
        self._carrier = np.empty(0, np.float32)
        self._count = self._nonfinite = self._nan_both = self._differing = 0
        self._linf = self._largest = 0.0
        self.loss = Loss() if loss else None

    def add(self, reference: Array, candidate: Array) -> None:
        """Take in one block of values: one-dimensional, as long on both sides."""
        a, b = _comparable(reference), _comparable(candidate)
        kind = np.result_type(a, b)
        if self._exact is None:
            self._exact, self._carrier = kind.kind in "iub", np.empty(0, kind)
        add = self._add_exact if self._exact else self._add_floats
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            for start in range(0, a.size, STEP):
                x, y = (side[start : start + STEP].astype(kind, copy=False) for side in (a, b))
                add(x, y)
        self._count += a.size

    def _add_exact(self, x: Array, y: Array) -> None:
        differing = int(np.count_nonzero(x != y))
        self._differing += differing
        if differing and x.dtype.kind == "b":
            self._linf = 1.0
        elif differing:
            unsigned = np.dtype(f"u{x.dtype.itemsize}")
            gap = np.maximum(x, y).view(unsigned) - np.minimum(x, y).view(unsigned)
            self._linf = max(self._linf, float(gap.max()))
        self._largest = max(self._largest, abs(float(x.max())), abs(float(x.min())))

    def _add_floats(self, x: Array, y: Array) -> None:
        if self._buffer is None or self._buffer.dtype != x.dtype:
            self._buffer = np.empty(STEP, x.dtype)
        gap = self._buffer[: x.size]
        np.subtract(x, y, out=gap)
        np.abs(gap, out=gap)
        worst = float(gap.max())
        if not math.isfinite(worst):
            x, y = self._set_aside_nonfinite(x, y)
            if not x.size:
                return
            gap = np.abs(x - y)
            worst = float(gap.max())
        self._linf = max(self._linf, worst)
        if self.loss is None:
            self._largest = max(self._largest, float(x.max()), -float(x.min()))
        else:
            self._add_loss(self.loss, x, y, gap)

    def _set_aside_nonfinite(self, x: Array, y: Array) -> tuple[Array, Array]:
        nan_x, nan_y, inf = np.isnan(x), np.isnan(y), np.isinf(x) | np.isinf(y)
        both = nan_x & nan_y
        self._nan_both += int(np.count_nonzero(both))
        self._nonfinite += int(np.count_nonzero((nan_x != nan_y) | (inf & (x != y) & ~nan_x & ~nan_y)))
        if self.loss is not None:
            self.loss.to_inf += int(np.count_nonzero(np.isfinite(x) & np.isinf(y)))
        finite = np.isfinite(x) & np.isfinite(y)
        return x[finite], y[finite]

    def _add_loss(self, loss: Loss, x: Array, y: Array, gap: Array) -> None:
        size = np.abs(x)
        self._largest = max(self._largest, float(size.max()))
        if float(size.min()) > 0.0:
            ratio = float(np.divide(gap, size, out=size).max())
            if ratio < 1.0:  # what was flushed to zero is wrong by all of itself
                loss.relative = max(loss.relative, ratio)
                return
            size = np.abs(x)
        kept = (y != 0) & (x != 0)
        loss.to_zero += int(np.count_nonzero(x)) - int(np.count_nonzero(kept))
        loss.relative = max(loss.relative, float(np.divide(gap[kept], size[kept]).max(initial=0.0)))

    def distance(self) -> Distance:
        """Return the verdict on all that was added."""
        if self._nonfinite:
            reason = f"{self._nonfinite:,} of {self._count:,} values are NaN or infinite on one side only"
            return Distance(Verdict.BREAK, reason, self._linf, largest=self._largest)
        if self._count and self._nan_both == self._count:
            return Distance(Verdict.UNVERIFIED, "every value is NaN on both sides", self._linf)
        if self._exact:
            verdict = Verdict.BREAK if self._differing else Verdict.IDENTICAL
            reason = (
                f"{self._differing:,} of {self._count:,} values differ" if self._differing else "every bit is equal"
            )
            return Distance(verdict, reason, self._linf, self._largest)
        return self._of_floats()

    def _of_floats(self) -> Distance:
        dtype = limits_go_by(narrower(*self._dtypes), self._carrier)
        floor = NoiseFloor(
            None, self._linf, None, dtype_floor(dtype, self._largest), self._largest, "dtype", self._largest == 0.0
        )
        metrics = Metrics(self._count, self._count, identical_bits=False, differing=0, linf=self._linf)
        verdict = judge(metrics, floor, tolerance_for(dtype), Decisions()).verdict
        reason = (
            f"the largest difference is {self._linf:.3g} ({floor.error_ratio:.3g} roundings of {dtype}), the largest "
            f"value {self._largest:.3g}"
        )
        return Distance(verdict, reason, self._linf, largest=self._largest)


def _comparable(values: Array) -> Array:
    """Floats that can be computed with, and complex numbers as pairs of them."""
    if values.dtype.kind == "c":
        return np.ascontiguousarray(values).view(values.real.dtype)
    return values.astype(np.float32) if values.dtype == np.float16 else values
