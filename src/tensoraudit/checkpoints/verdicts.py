"""The comparator's verdict on two tensors that pass by block after block, so that memory does not grow with them.

The structural rules, the noise floor, the tolerances and the table of verdicts are those of `equivalence`. One thing is
left out: what a user would decide from a tensor (its largest class, a sign). A stored weight decides nothing by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensoraudit.checkpoints.element_types import PARTS, Array
from tensoraudit.checkpoints.precision import narrower
from tensoraudit.checkpoints.workspace import STEP, Workspace
from tensoraudit.equivalence.case import limits_go_by
from tensoraudit.equivalence.decisions import Decisions
from tensoraudit.equivalence.floor import NoiseFloor, dtype_floor
from tensoraudit.equivalence.gaps import agree, gaps, magnitudes
from tensoraudit.equivalence.metrics import Metrics
from tensoraudit.equivalence.tolerance import tolerance_for
from tensoraudit.equivalence.verdict import Verdict, judge

_largest_of: Final = np.maximum.reduce  # a method of an array asks more before it begins


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two tensors are apart. `reason` is a sentence with the numbers; `linf` and `largest`, the largest
    magnitude of the reference, are over finite elements. `is_number`: `linf` says how far; not so where elements are
    NaN or infinite on one side alone, which no number holds."""

    verdict: Verdict
    reason: str
    linf: float
    largest: float = 0.0
    is_number: bool = True

    @property
    def apart(self) -> float | None:
        """The largest difference, None where no number says how far the two are apart."""
        return self.linf if self.is_number else None


@dataclass(slots=True)
class Loss:
    """What a cast lost: the largest |a - b| / |a|, elements that became infinite, and ones that became zero.

    `changed` are those that are other numbers, counted where integers become floats or floats integers: to be rounded
    is what floats are for, and an integer that is rounded is another one.
    """

    relative: float = 0.0
    to_inf: int = 0
    to_zero: int = 0
    changed: int = 0

    def take(self, other: Loss) -> None:
        """Take in what was lost elsewhere."""
        self.relative = max(self.relative, other.relative)
        self.to_inf += other.to_inf
        self.to_zero += other.to_zero
        self.changed += other.changed


@dataclass(slots=True)
class Nonfinite:
    """Elements that are not finite and not the same: NaN on one side alone, infinite on one side alone, or neither
    finite on any side. Complex numbers have one such part or two."""

    nan: int = 0
    inf: int = 0
    other: int = 0

    def __bool__(self) -> bool:
        return bool(self.nan or self.inf or self.other)

    def count(self, x: Array, y: Array) -> None:
        """Take in the elements of two sides that are not finite on both."""
        nan = np.isnan(x) != np.isnan(y)
        inf = (np.isinf(x) != np.isinf(y)) & ~nan
        self.nan += int(np.count_nonzero(nan))
        self.inf += int(np.count_nonzero(inf))
        self.other += int(np.count_nonzero(~nan & ~inf & ~agree(x, y, 0.0)))

    def take(self, more: Nonfinite) -> None:
        """Take in what was counted elsewhere."""
        self.nan, self.inf, self.other = self.nan + more.nan, self.inf + more.inf, self.other + more.other

    def sentence(self, count: int) -> str:
        """Say how many of `count` elements they are."""
        kinds = (
            (self.nan, "NaN on one side alone"),
            (self.inf, "infinite on one side alone"),
            (self.other, "not finite on either side and not the same"),
        )
        first, *more = [f"{number:,} {{}}{what}" for number, what in kinds if number]
        return " and ".join([first.format(f"of {count:,} values are "), *(each.format("") for each in more)])


class Tally:
    """Adds up blocks of two tensors of one shape. `dtypes` are their names in the checkpoints.

    With `loss` it also counts what a cast lost, which takes half as much time again. Of a `workspace` it uses the rows
    0 and 1, and needs nothing of it after a call.
    """

    def __init__(self, dtypes: tuple[str, str], *, loss: bool = False, workspace: Workspace | None = None) -> None:
        self._dtypes = dtypes
        self._workspace = workspace or Workspace(2)
        self._exact: bool | None = None
        self._carrier = np.empty(0, np.float32)
        self._kind: np.dtype[Any] | None = None
        self._has_integers = False
        self._count = self._nan_both = self._differing = 0
        self._nonfinite = Nonfinite()
        self._linf = self._largest = 0.0
        self.loss = Loss() if loss else None

    def add(self, reference: Array, candidate: Array) -> None:
        """Take in one block of values: one-dimensional, as long on both sides."""
        a, b = _comparable(reference), _comparable(candidate)
        if self._exact is None:
            self._begin(a.dtype, b.dtype)
        kind = self._kind
        add = self._add_mixed if kind is None else self._add_exact if self._exact else self._add_floats
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            for start in range(0, a.size, STEP):
                x, y = a[start : start + STEP], b[start : start + STEP]
                add(*((x, y) if kind is None else (x.astype(kind, copy=False), y.astype(kind, copy=False))))
        self._count += a.size

    def _begin(self, a: np.dtype[Any], b: np.dtype[Any]) -> None:
        """Choose how two types are compared: in one that holds the values of both, if there is such a real one."""
        kind = np.result_type(a, b)
        self._exact = a.kind in "iub" and b.kind in "iub"
        self._has_integers = a.kind in "iu" or b.kind in "iu"
        self._carrier = np.empty(0, kind).real
        of_two_kinds = {a.kind, b.kind} & {"i", "u"} and kind.kind == "f"
        self._kind = None if kind.kind == "c" or of_two_kinds else kind

    def take(self, other: Tally) -> None:
        """Take in all that another tally of the same two tensors has seen."""
        if self._exact is None:
            self._exact, self._carrier, self._has_integers = other._exact, other._carrier, other._has_integers
        self._count += other._count
        self._nonfinite.take(other._nonfinite)
        self._nan_both += other._nan_both
        self._differing += other._differing
        self._linf, self._largest = max(self._linf, other._linf), max(self._largest, other._largest)
        if self.loss is not None and other.loss is not None:
            self.loss.take(other.loss)

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
        gap = self._gap(x, y)
        worst = float(_largest_of(gap))
        if not math.isfinite(worst):
            x, y = self._set_aside_nonfinite(x, y)
            if not x.size:
                return
            gap = self._gap(x, y)
            if not math.isfinite(worst := float(_largest_of(gap))):  # the difference is too large for the type
                worst = float(_largest_of(gap := gaps(x, y)))
        self._linf = max(self._linf, worst)
        size = np.abs(x, out=gap if self.loss is None else self._workspace.row(1, x.size, x.dtype))
        self._largest = max(self._largest, float(_largest_of(size)))
        if self.loss is not None:
            self._add_loss(self.loss, x, y, np.divide(gap, size, out=size))

    def _add_mixed(self, x: Array, y: Array) -> None:
        """Complex numbers, and integers beside what is no integer or beside others of another sign."""
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            x, y = self._set_aside_nonfinite(x, y)
            if not x.size:
                return
        gap, size = gaps(x, y), magnitudes(x)
        differing = int(np.count_nonzero(gap))
        self._differing += differing
        self._linf = max(self._linf, float(_largest_of(gap)))
        self._largest = max(self._largest, float(_largest_of(size)))
        if self.loss is not None:
            if "c" not in (x.dtype.kind, y.dtype.kind):
                self.loss.changed += differing
            self._add_loss(self.loss, x, y, np.divide(gap, size, out=gap))

    def _gap(self, x: Array, y: Array) -> Array:
        """|x - y|."""
        gap: Array = np.subtract(x, y, out=self._workspace.row(0, x.size, x.dtype))
        return np.abs(gap, out=gap)

    def _set_aside_nonfinite(self, x: Array, y: Array) -> tuple[Array, Array]:
        finite = np.isfinite(x) & np.isfinite(y)
        if not finite.all():
            self._count_nonfinite(x[~finite], y[~finite])
        return x[finite], y[finite]

    def _count_nonfinite(self, x: Array, y: Array) -> None:
        self._nan_both += int(np.count_nonzero(np.isnan(x) & np.isnan(y)))
        self._nonfinite.count(x, y)
        if self.loss is not None:
            self.loss.to_inf += int(np.count_nonzero(np.isfinite(x) & np.isinf(y)))

    def _add_loss(self, loss: Loss, x: Array, y: Array, ratio: Array) -> None:
        """`ratio` is |x - y| / |x|."""
        worst = float(_largest_of(ratio))
        if not worst < 1.0:  # a zero: of 0 the ratio is none, and what was flushed to zero is wrong by all of itself
            is_number = x != 0
            kept = (y != 0) & is_number
            loss.to_zero += int(np.count_nonzero(is_number)) - int(np.count_nonzero(kept))
            np.copyto(ratio, 0.0, where=~kept)
            worst = float(_largest_of(ratio))
        loss.relative = max(loss.relative, worst)

    def distance(self) -> Distance:
        """Return the verdict on all that was added."""
        if self._nonfinite:
            rest = f"the others differ by up to {self._linf:.3g}" if self._linf else "the others are equal"
            reason = f"{self._nonfinite.sentence(self._count)}, {rest}"
            return Distance(Verdict.BREAK, reason, self._linf, self._largest, is_number=False)
        if self._count and self._nan_both == self._count:
            return Distance(Verdict.UNVERIFIED, "every value is NaN on both sides", self._linf, is_number=False)
        if self._exact:
            verdict = Verdict.BREAK if self._differing else Verdict.IDENTICAL
            reason = (
                f"{self._differing:,} of {self._count:,} values differ" if self._differing else "every bit is equal"
            )
            return Distance(verdict, reason, self._linf, self._largest)
        return self._of_floats()

    def _of_floats(self) -> Distance:
        names = [PARTS.get(name, name) for name in self._dtypes]
        dtype = limits_go_by(narrower(*names), self._carrier)
        floor = NoiseFloor(
            None, self._linf, None, dtype_floor(dtype, self._largest), self._largest, "dtype", self._largest == 0.0
        )
        metrics = Metrics(self._count, self._count, identical_bits=False, differing=0, linf=self._linf)
        verdict = judge(metrics, floor, tolerance_for(dtype), Decisions()).verdict
        if verdict == Verdict.NOISE and self._has_integers:
            verdict = Verdict.DRIFT  # numbers of a checkpoint may be large and close, and an integer has no noise
        reason = (
            f"the largest difference is {self._linf:.3g} ({floor.error_ratio:.3g} roundings of {dtype}), the largest "
            f"value {self._largest:.3g}"
        )
        return Distance(verdict, reason, self._linf, largest=self._largest)


def _comparable(values: Array) -> Array:
    """Floats that can be computed with."""
    if values.dtype != np.float16:
        return values
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return values.astype(np.float32)
