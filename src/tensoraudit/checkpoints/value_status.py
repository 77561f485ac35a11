"""What the values of a pair of tensors say: whether they are equal, and if not, whether they are after some change.

In this order, and each only where the one before did not hold: as they are, in another order of axes, reshaped, without
padding, after a combination of those (`equivalence.steps`). Only an element-by-element comparison decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, NamedTuple, Self

from tensoraudit.checkpoints.block_comparison import BlockComparison, Outcome, Run
from tensoraudit.checkpoints.digests import BEHIND, Threads, digest_entry
from tensoraudit.checkpoints.element_types import Array, element_type, narrow
from tensoraudit.checkpoints.header_status import (
    CONVENTIONS,
    SUSPECTED,
    fitting_orders,
    padded_axis,
    permutation_by_axes,
)
from tensoraudit.checkpoints.likely_order import likely_order
from tensoraudit.checkpoints.paired import PairedTensor, Status
from tensoraudit.checkpoints.precision import narrower
from tensoraudit.checkpoints.rearrangements import ROUNDINGS, Order, matching_orders, merged_shapes, spacing
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.shares import ROWS, Workspaces
from tensoraudit.checkpoints.stored_parts import Buffers
from tensoraudit.checkpoints.values import UnreadableValues, read_entry, type_of, word_blocks
from tensoraudit.checkpoints.verdicts import Distance, Tally
from tensoraudit.checkpoints.views import ELEMENTS, HELD, inverse, view_blocks, view_of
from tensoraudit.checkpoints.workspace import Workspace
from tensoraudit.equivalence.blocks import blocks, largest_magnitude
from tensoraudit.equivalence.gaps import gaps
from tensoraudit.equivalence.parameter import is_folded
from tensoraudit.equivalence.steps import Steps, apply, describe, find_steps
from tensoraudit.equivalence.verdict import Verdict

SEARCHED: Final = 8 << 20
"""Bytes of a tensor that is searched for steps beyond a permutation: both sides are in memory for that."""

_RUN: Final = 2 * ELEMENTS
"""Elements of a block that is read as it lies: a block is handed to other threads, which takes time of its own."""

Side = tuple[StoredCheckpoint, Entry]


class Tools(NamedTuple):
    """What all pairs share."""

    threads: Threads
    buffers: tuple[Buffers, Buffers]
    workspaces: Workspaces


class Settler:
    """Settles pairs of tensors of two checkpoints by their values; a context, because it hashes in threads.

    `steps` are those of the user's map, by the candidate's name.
    """

    def __init__(self, reference: StoredCheckpoint, candidate: StoredCheckpoint, steps: Mapping[str, Steps]) -> None:
        self._reference, self._candidate, self._steps = reference, candidate, steps
        most, kept = 8 * _RUN, BEHIND + 1
        threads, buffers = (ThreadPoolExecutor(1), ThreadPoolExecutor(1)), (Buffers(most, kept), Buffers(most, kept))
        self._tools = Tools(threads, buffers, (Workspace(ROWS), Workspace(ROWS)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for threads in self._tools.threads:
            threads.shutdown()

    def settle(self, pair: PairedTensor, a: Entry, b: Entry) -> PairedTensor:
        """Return the pair with what its values say; "unread" with the reason where they cannot be had."""
        try:
            settling = _Settling(((self._reference, a), (self._candidate, b)), self._tools, pair)
            return settling.settled(self._steps.get(pair.candidate, ()))
        except UnreadableValues as problem:
            return pair._replace(status="unread", permutation=(), note=_joined(pair.note, problem.reason))


class _Settling:
    """One pair. Each attempt returns the settled pair, or None where it does not explain the values."""

    def __init__(self, sides: tuple[Side, Side], tools: Tools, pair: PairedTensor) -> None:
        self._sides, self._tools = sides, tools
        (_, a), (_, b) = sides
        self._a, self._b = a, b
        self._types = type_of(a), type_of(b)
        self._pair = pair._replace(permutation=(), note=_without_suspicion(pair.note))
        self._comparison = BlockComparison(tools.threads, self._types, tools.workspaces)
        self._plain: Outcome | None = None

    def settled(self, steps: Steps) -> PairedTensor:
        if steps:
            return self._by_steps(steps)
        attempts = (self._turned_by_axes, self._as_it_is, self._turned, self._reshaped, self._rearranged, self._padded)
        for attempt in (*attempts, self._searched):
            if (found := attempt()) is not None:
                return found
        return self._different()

    def _turned_by_axes(self) -> PairedTensor | None:
        order = permutation_by_axes(self._a, self._b)
        return None if order is None else self._if_turned([order])

    def _as_it_is(self) -> PairedTensor | None:
        if self._a.shape != self._b.shape:
            return None
        self._plain = outcome = self._compared_flat()
        note = ""
        if permutation_by_axes(self._a, self._b) is not None and outcome.holds:
            note = f"the same in memory, though the formats keep it as {self._a.axes} and {self._b.axes}"
        if outcome.equal:
            return self._result("equal", outcome, note)
        if outcome.is_cast:
            return self._result("cast", outcome, note)
        return self._result("different", outcome, note) if outcome.holds else None

    def _turned(self) -> PairedTensor | None:
        """Another order of axes, also where the shapes are equal."""
        return self._if_turned(fitting_orders(self._a.shape, self._b.shape))

    def _if_turned(self, orders: Iterable[Order]) -> PairedTensor | None:
        views = self._view(0), self._view(1)
        for order in matching_orders(views, self._types, orders):
            outcome = self._compared(views[0], views[1].transpose(inverse(order)))
            if outcome.holds:
                return self._result("permuted", outcome)._replace(permutation=order)
        return None

    def _reshaped(self) -> PairedTensor | None:
        if self._a.shape == self._b.shape or self._a.numel != self._b.numel:
            return None
        outcome = self._compared_flat()
        return self._result("reshaped", outcome) if outcome.holds else None

    def _rearranged(self) -> PairedTensor | None:
        """Axes merged or split, and then another order of axes: heads of attention, depthwise kernels."""
        if self._a.numel != self._b.numel or len(self._a.shape) == len(self._b.shape) == 1:
            return None
        for one, other in merged_shapes(self._a.shape, self._b.shape):
            views = self._view(0).reshape(one), self._view(1).reshape(other)
            for order in matching_orders(views, self._types, fitting_orders(one, other)):
                outcome = self._compared(views[0], views[1].transpose(inverse(order)))
                if outcome.holds:
                    note = f"as {list(one)} with its axes in the order {list(order)}, then {list(self._b.shape)}"
                    return self._result("reshaped", outcome, note)
        return None

    def _padded(self) -> PairedTensor | None:
        axis = padded_axis(self._a.shape, self._b.shape)
        if axis is None:
            return None
        size = min(self._a.shape[axis], self._b.shape[axis])
        head, tail = _along(axis, slice(size)), _along(axis, slice(size, None))
        views = self._view(0), self._view(1)
        outcome = self._compared(views[0][head], views[1][head])
        if not outcome.holds:
            return None
        rest = views[0][tail] if self._a.shape[axis] > size else views[1][tail]
        number = self._types[0 if self._a.shape[axis] > size else 1]
        filled = "not zeros" if any(number.widen(words).any() for words in view_blocks(rest)) else "zeros"
        return self._result("padded", outcome, f"{rest.shape[axis]:,} more along axis {axis}, {filled}")

    def _searched(self) -> PairedTensor | None:
        """Steps of other kinds: gates in another order, flipped axes, rows of another flattening."""
        if self._a.numel != self._b.numel or not self._a.shape or self._most_bytes() > SEARCHED:
            return None
        if self._plain is not None and not self._may_be_moved(self._plain):
            return None
        ours, theirs = values = self._value(0), self._value(1)
        steps = find_steps(*self._rounded_alike(values))
        if not steps:
            return None
        status: Status = "permuted" if self._a.shape == self._b.shape else "reshaped"
        return self._after_steps(status, f"the same after {describe(steps)}", self._judged(apply(steps, ours), theirs))

    def _by_steps(self, steps: Steps) -> PairedTensor:
        """What the user's map says of it."""
        if self._most_bytes() > HELD:
            raise UnreadableValues("it is too large for the steps of the map")
        ours, theirs = values = self._value(0), self._value(1)
        try:
            made = apply(steps, ours)
        except ValueError as problem:
            return self._pair._replace(status="different", note=f"the map does not fit: {problem}")
        if made.shape != theirs.shape:
            note = f"the map gives {list(made.shape)}, the candidate has {list(theirs.shape)}"
            return self._pair._replace(status="different", note=note)
        rounded, others = self._rounded_alike(values)
        distance = self._judged(apply(steps, rounded), others)
        note = f"by the map: {describe(steps)}"
        if distance is not None and not distance.verdict.passes:
            return self._after_steps("different", note, distance)
        status: Status = "permuted" if made.ndim == ours.ndim else "reshaped"
        return self._after_steps(status, note, self._judged(made, theirs))

    def _after_steps(self, status: Status, note: str, distance: Distance | None) -> PairedTensor:
        verdict = Verdict.IDENTICAL if distance is None else distance.verdict
        reason = "" if distance is None or distance.is_number else distance.reason
        return self._pair._replace(
            status=status,
            verdict=str(verdict),
            linf=0.0 if distance is None else distance.apart,
            digests=self._own_digests(),
            note=_joined(self._pair.note, note, reason),
        )

    def _most_bytes(self) -> int:
        return max(kind.held_bytes(entry.numel) for kind, (_, entry) in zip(self._types, self._sides, strict=True))

    def _different(self) -> PairedTensor:
        note = self._folded()
        if not note and (turned := self._nearly_turned()) is not None:
            return turned
        if self._plain is not None and self._plain.distance is not None:
            return self._result("different", self._plain, _joined(note, self._plain.distance.reason))
        note = _joined(self._pair.note, note)
        return self._pair._replace(
            status="different", verdict=str(Verdict.BREAK), digests=self._own_digests(), note=note
        )

    def _nearly_turned(self) -> PairedTensor | None:
        """What differs after another order of axes, in which most elements agree."""
        as_it_is = tuple(range(len(self._a.shape)))
        orders = list(fitting_orders(self._a.shape, self._b.shape))
        if not orders:
            return None
        views = self._view(0), self._view(1)
        order = likely_order(views, self._types, [as_it_is, *orders] if self._a.shape == self._b.shape else orders)
        if order is None or order == as_it_is:
            return None
        outcome = self._compared(views[0], views[1].transpose(inverse(order)))
        reason = outcome.distance.reason if outcome.distance else ""
        note = _joined(f"with its axes in the order {list(order)}", reason)
        return self._result("different", outcome, note)._replace(permutation=order)

    def _folded(self) -> str:
        """Say so where each output channel is the reference's times a factor of its own."""
        if len(self._a.shape) < 2 or self._most_bytes() > SEARCHED:
            return ""
        views = self._view(0), self._view(1)
        for order in (tuple(range(len(self._a.shape))), *CONVENTIONS):
            if len(order) != len(self._a.shape) or views[0].transpose(order).shape != views[1].shape:
                continue
            for axis in (0, len(order) - 1):
                if self._is_folded(views[0].transpose(order), views[1], axis):
                    return "each output channel is the reference's times a factor of its own: a folded normalisation"
        return ""

    def _is_folded(self, reference: Array, candidate: Array, axis: int) -> bool:
        """A look at a corner first: mostly it says no, and the whole tensor need not be read."""
        corner = tuple(slice(2 if each == axis else 64) for each in range(reference.ndim))
        sides = (reference[corner], candidate[corner]), (reference, candidate)
        return all(is_folded(self._types[0].widen(one), self._types[1].widen(other), axis) for one, other in sides)

    def _result(self, status: Status, outcome: Outcome, note: str = "") -> PairedTensor:
        return self._pair._replace(status=status, note=_joined(self._pair.note, note), **outcome.known)

    def _may_be_moved(self, outcome: Outcome) -> bool:
        """The largest magnitudes of both sides agree: the elements may be the same in other places."""
        if outcome.distance is None:
            return False
        one = outcome.distance.largest
        pieces = (self._types[1].widen(words) for words in self._flat(1, self._tools.buffers[1])())
        other = max(map(largest_magnitude, pieces), default=0.0)
        return abs(one - other) <= ROUNDINGS * spacing(self._a.dtype, self._b.dtype) * max(one, other)

    def _compared_flat(self) -> Outcome:
        one, other = self._tools.buffers
        return self._comparison.compare(self._flat(0, one), self._flat(1, other), again=self._flat(0))

    def _flat(self, side: int, buffers: Buffers | None = None) -> Run:
        stored, entry = self._sides[side]
        most = _RUN * self._types[side].word.itemsize
        return lambda: word_blocks(stored, entry, most, buffers)

    def _view(self, side: int) -> Array:
        return view_of(*self._sides[side])

    def _value(self, side: int) -> Array:
        return read_entry(*self._sides[side])

    def _compared(self, one: Array, other: Array) -> Outcome:
        return self._comparison.compare(_blocks_of(one), _blocks_of(other))

    def _judged(self, made: Array, theirs: Array) -> Distance | None:
        """The distance of two arrays of values; None where they are equal."""
        if all(not gaps(x, y).any() for _, (x, y) in blocks(made, theirs)):  # NaN is no 0
            return None
        tally = Tally((self._a.dtype, self._b.dtype))
        for _, (x, y) in blocks(made, theirs, size=ELEMENTS):
            tally.add(x, y)
        return tally.distance()

    def _own_digests(self) -> tuple[str, str]:
        return digest_entry(*self._sides[0]), digest_entry(*self._sides[1])

    def _rounded_alike(self, values: tuple[Array, Array]) -> tuple[Array, Array]:
        """The values of both sides in the narrower of their types, so that a cast does not hide an order."""
        name = narrower(self._a.dtype, self._b.dtype)
        kind, rounded = element_type(name), list(values)
        for side, entry in enumerate((self._a, self._b)):
            words = narrow(values[side], name) if entry.dtype != name else None
            if words is not None and kind is not None:
                rounded[side] = kind.widen(words.reshape(-1)).reshape(entry.shape)
        return rounded[0], rounded[1]


def _blocks_of(view: Array) -> Run:
    return lambda: view_blocks(view)


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _without_suspicion(note: str) -> str:
    return _joined(*(each for each in note.split("; ") if not each.startswith(SUSPECTED)))
