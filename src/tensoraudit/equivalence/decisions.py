"""What a user would decide from a float tensor, and whether the candidate decides otherwise. Sets no limit on errors.

A tensor does not say what it is for, so this is a convention, chosen so that a changed class is never missed and a
small loss in a hidden state is not blown up:

1. *Class axis*: the largest entry along it is the decision (top-1). For rank 1 to 3 it is the last axis, if longer
   than 1. From rank 4 on the tensor may be a map with channels first or last, so axis 1 and the last axis are both
   looked at.
2. *Single score* (rank 0, rank 1, or up to rank 3 with a last axis of 1): the side of the threshold is the decision.
   The threshold is 0.5 when all values on both sides lie in [0, 1] (a probability), else 0 (a logit, a margin).
3. *Sign* in any other tensor counts only when it is clear: both values are further from zero than 1 % of the largest
   reference value. A hidden state has many values near zero whose sign decides nothing.
4. Near ties are no decision: a top-1 changes only if the reference prefers its choice over the candidate's by more
   than `tie`, and a side only if both values are further than `tie` from the threshold. `tie` is what noise alone may
   move one value against another: twice the noise limit times the floor.
5. Top-k for k > 1 is judged where k is known: at an index output (`indices`).

NaN decides nothing (structural rule 1 judges it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tensoraudit.equivalence.blocks import BLOCK, Array, blocks, in_unit_interval

CLEAR_SIGN = 0.01


@dataclass(frozen=True, slots=True)
class Decisions:
    """How many decisions a tensor holds and how many changed. Counts of near ties are not part of the changes."""

    rows: int = 0
    top1_changes: int = 0
    near_ties: int = 0
    axis: int | None = None
    side_changes: int = 0
    threshold: float = 0.0

    @property
    def changed(self) -> bool:
        """Tell whether any decision changed."""
        return bool(self.top1_changes or self.side_changes)

    def sentence(self) -> str:
        """Say what changed, in words."""
        parts = []
        if self.top1_changes:
            parts.append(f"the top-1 entry along axis {self.axis} changes in {self.top1_changes} of {self.rows} rows")
        if self.side_changes:
            side = "sign" if self.threshold == 0.0 else f"side of {self.threshold:g}"
            parts.append(f"{self.side_changes} value(s) change {side}")
        return " and ".join(parts) or "no decision changes"


def class_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes along which the largest entry may be a decision, by rule 1."""
    if not shape:
        return ()
    axes = (1, len(shape) - 1) if len(shape) >= 4 else (len(shape) - 1,)
    return tuple(axis for axis in axes if shape[axis] > 1)


def decide(reference: Array, candidate: Array, *, tie: float, scale: float, loss: bool = True) -> Decisions:
    """Compare the decisions of two float tensors of equal shape; see the rules in the module's docstring.

    `scale` is the largest reference value. Without a loss only the top-1 is counted: no side can change clearly then.
    """
    best = Decisions()
    for axis in class_axes(reference.shape):
        found = _top1(reference, candidate, axis, tie)
        if best.axis is None or found.top1_changes > best.top1_changes:
            best = found
    if not loss:
        return best
    threshold, margin = _threshold(reference, candidate, tie, scale)
    changes = _side_changes(reference, candidate, threshold, margin)
    return replace(best, side_changes=changes, threshold=threshold)


def _top1(reference: Array, candidate: Array, axis: int, tie: float) -> Decisions:
    length = reference.shape[axis]
    rows = np.moveaxis(reference, axis, -1), np.moveaxis(candidate, axis, -1)
    total = changes = ties = 0
    for a, b in _row_blocks(*rows, length):
        chosen_a, chosen_b = a.argmax(axis=1), b.argmax(axis=1)
        total += len(a)
        different = np.flatnonzero(chosen_a != chosen_b)
        if not different.size:
            continue
        with np.errstate(invalid="ignore"):
            gap = a[different, chosen_a[different]].astype(np.float64) - a[different, chosen_b[different]]
            clear = gap > tie
        judged = ~np.isnan(gap)
        changes += int(np.count_nonzero(clear & judged))
        ties += int(np.count_nonzero(~clear & judged))
    return Decisions(rows=total, top1_changes=changes, near_ties=ties, axis=axis)


def _row_blocks(a: Array, b: Array, length: int) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of whole rows; a row longer than a block is one of its own."""
    for _, (x, y) in blocks(a, b, size=max(1, 16 * BLOCK // length) * length):
        yield x.reshape(-1, length), y.reshape(-1, length)


def _threshold(reference: Array, candidate: Array, tie: float, scale: float) -> tuple[float, float]:
    """Return the threshold between two decisions and how far from it a value must be to count."""
    single = reference.ndim <= 1 or (reference.ndim <= 3 and reference.shape[-1] == 1)
    if not single:
        return 0.0, max(tie, CLEAR_SIGN * scale)
    return (0.5, tie) if in_unit_interval(reference) and in_unit_interval(candidate) else (0.0, tie)


def _side_changes(reference: Array, candidate: Array, threshold: float, margin: float) -> int:
    changes = 0
    low, high = threshold - margin, threshold + margin
    for _, (a, b) in blocks(reference, candidate):
        changes += int(np.count_nonzero(((a > high) & (b < low)) | ((a < low) & (b > high))))
    return changes
