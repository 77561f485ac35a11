"""Tensors recognised by their values alone: no names, no layout, no order of axes.

A print (count, sum, sum of squares, extremes in double precision) does not change when axes move or a shape is
flattened, and hardly when a tensor is cast. Equal prints only propose; a pair is made where two tensors are each
other's nearest and no third one is as near. Tensors of one value all over, and single numbers, propose nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array
from tensoraudit.checkpoints.pairing import Pairing, Side
from tensoraudit.checkpoints.precision import narrower
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint
from tensoraudit.checkpoints.values import UnreadableValues, blocks
from tensoraudit.equivalence.floor import EPS
from tensoraudit.equivalence.value_alignment import Print, distance

_BLOCK: Final = 1 << 15
_SUMMED: Final = 1e-6
"""Relative distance of two prints that the order of summation alone can make."""
_LOOKED_AT: Final = 32
"""Prints on either side of one that are looked at: of more copies than that it does not matter which is which."""
_APART: Final = 4.0
"""How much further the second nearest must be: otherwise two tensors are too alike to be told apart."""


def print_of(stored: StoredCheckpoint, entry: Entry) -> Print:
    """Return a tensor's print, read block by block. Raises UnreadableValues."""
    return print_of_blocks(blocks(stored, entry, most=1 << 20))


def print_of_blocks(pieces: Iterable[Array]) -> Print:
    """Return the print of the values of all pieces together. A complex number counts as two."""
    count = finite = 0
    total = squares = 0.0
    low, high = math.inf, -math.inf
    for piece in pieces:
        plain = piece.view(piece.real.dtype) if piece.dtype.kind == "c" else piece
        count += plain.size
        for start in range(0, plain.size, _BLOCK):
            values = plain[start : start + _BLOCK].astype(np.float64)
            if not math.isfinite(float(values.min())) or not math.isfinite(float(values.max())):
                values = values[np.isfinite(values)]
            if not values.size:
                continue
            finite += values.size
            low, high = min(low, float(values.min())), max(high, float(values.max()))
            with np.errstate(over="ignore"):
                total += float(values.sum())
                squares += float(np.einsum("i,i->", values, values))
    return Print(count, finite, total, squares, low, high)


def pair_by_values(pairing: Pairing, progress: Callable[[str], None]) -> None:
    """Pair what has no partner yet by values; adds to the pairing. Tensors that cannot be read stay as they are."""
    ours, theirs = pairing.reference, pairing.candidate
    sizes = {theirs.entries[j].numel for j in theirs.free}
    left = [i for i in ours.free if ours.entries[i].numel in sizes]
    sizes = {ours.entries[i].numel for i in left}
    right = [j for j in theirs.free if theirs.entries[j].numel in sizes]
    progress(f"prints of {len(left) + len(right):,} tensors without a partner")
    pairing.take(_nearest_pairs(ours, dict(_prints(ours, left)), theirs, dict(_prints(theirs, right))), "value")


def _prints(side: Side, numbers: list[int]) -> Iterator[tuple[int, Print]]:
    for number in numbers:
        try:
            found = print_of(side.stored, side.entries[number])
        except UnreadableValues:
            continue
        if not found.is_constant:
            yield number, found


class _Prints:
    """The prints of one side by kind and number of elements, sorted by their squares."""

    def __init__(self, side: Side, prints: Mapping[int, Print]) -> None:
        self._side = side
        self._sorted: dict[tuple[str, int], list[tuple[float, int, int, Print]]] = {}
        for place, (number, found) in enumerate(prints.items()):
            key = side.kinds[number], found.count
            self._sorted.setdefault(key, []).append((found.squares, place, number, found))
        for row in self._sorted.values():
            row.sort(key=lambda each: each[:2])

    def near(self, kind: str, dtype: str, found: Print) -> Iterator[tuple[float, int, int]]:
        """Yield (distance, place, number) of at most `_LOOKED_AT` prints that may be one tensor with this one."""
        row = self._sorted.get((kind, found.count), [])
        widest = found.squares * 2.1 * (max(EPS.values()) + _SUMMED)
        start = bisect_left(row, found.squares - widest, key=lambda each: each[0])
        end = bisect_right(row, found.squares + widest, key=lambda each: each[0])
        middle = bisect_left(row, found.squares, key=lambda each: each[0])
        for _, place, number, other in row[max(start, middle - _LOOKED_AT) : min(end, middle + _LOOKED_AT)]:
            limit = EPS.get(narrower(dtype, self._side.entries[number].dtype), 0.0) + _SUMMED
            if (gap := distance(found, other)) <= limit:
                yield gap, place, number


def _nearest_pairs(
    ours: Side, left: Mapping[int, Print], theirs: Side, right: Mapping[int, Print]
) -> list[tuple[int, int]]:
    """Return pairs, the nearest first; of tensors with equal prints those that stand at like places."""
    prints = _Prints(theirs, right)
    proposals = sorted(
        (gap, abs(place - other), i, j)
        for place, (i, found) in enumerate(left.items())
        for gap, other, j in prints.near(ours.kinds[i], ours.entries[i].dtype, found)
    )
    gaps: dict[int, list[float]] = {}
    for gap, _, i, _ in proposals:
        gaps.setdefault(i, []).append(gap)
    return [
        (i, j)
        for gap, _, i, j in proposals
        if gap <= _SUMMED or all(other <= gap or other >= _APART * gap for other in gaps[i])
    ]
