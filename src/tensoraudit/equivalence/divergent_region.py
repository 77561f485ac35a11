"""Where two traces part, told by the flow of data: the last values that agree, and the first operation behind them.

A value that the other side lacks is no fault by itself: frameworks cut one layer into different operations. It is
*redeemed* when something made from it agrees again. What is left between the agreed values and a wrong output is the
region that diverges. Its *entries* are the values that are made from agreed ones only; of these, the one behind the
latest agreed value on both sides is the first diverging operation.

Values without a print (lists of tensors), integers and constants are never named: the search looks through the first
two, and a constant tells nothing. It looks through padding too, which one side does inside of its convolution.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensoraudit.equivalence.value_alignment import Value

_SAME = 1e-9
"""Relative difference of sums over the same numbers in another order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value that is made from agreed values only, and does not agree. `behind` are those, `latest` the place of the
    last of them in the order of execution (-1: only inputs of the model)."""

    value: Value
    behind: frozenset[str]
    latest: int


@dataclass(frozen=True, slots=True)
class Region:
    """One side's part that diverges: `values` in the order of execution, its entries, and the agreed values on which
    this picture rests: those in front of the region, and those that redeemed something."""

    values: tuple[Value, ...]
    entries: tuple[Entry, ...]
    rests_on: tuple[str, ...]


class Flow:
    """The values of one side and how they are made from each other."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = {value.name: value for value in values}
        self.order = {name: place for place, name in enumerate(self.values)}

    @cached_property
    def _readers(self) -> Mapping[str, list[str]]:
        readers: dict[str, list[str]] = {}
        for value in self.values.values():
            for name in value.inputs:
                readers.setdefault(name, []).append(value.name)
        return readers

    def region(self, roots: Iterable[str], agreed: Collection[str], drifted: Collection[str] = ()) -> Region:
        """Return what diverges on the way to `roots`. `drifted` are values that differ by little: they redeem nothing,
        and nothing redeems them."""
        redeemed, redeemers = self._redeemed(agreed, drifted)
        wrong: set[str] = set()
        front: set[str] = set()
        waiting = [name for name in roots if name in self.values]
        while waiting:
            name = waiting.pop()
            if name in agreed or self.values[name].is_input:
                front.add(name)
            elif name not in wrong:
                wrong.add(name)
                waiting += [each for each in self.values[name].inputs if each in self.values]
        ordered = [self.values[name] for name in sorted(wrong - redeemed, key=self.order.__getitem__)]
        entries = [self._entry(value, agreed, redeemed) for value in ordered if self._is_named(value)]
        proofs = {redeemers[name] for name in wrong & redeemed}
        rests_on = sorted(front | proofs, key=self.order.__getitem__)
        return Region(tuple(ordered), tuple(entry for entry in entries if entry is not None), tuple(rests_on))

    def _redeemed(self, agreed: Collection[str], drifted: Collection[str]) -> tuple[set[str], dict[str, str]]:
        """All values from which an agreed one is made, through any that do not agree; each with that agreed one."""
        redeemers: dict[str, str] = {}
        for name in reversed(self.order):
            if name in agreed or name in drifted:
                continue
            for reader in self._readers.get(name, ()):
                if reader in agreed and not self._is_constant(reader):
                    redeemers[name] = reader
                elif reader in redeemers and reader not in agreed:
                    redeemers[name] = redeemers[reader]
        return set(redeemers), redeemers

    def _is_named(self, value: Value) -> bool:
        return value.anchors and not any(
            _pads(value, self.values[name]) for name in value.inputs if name in self.values
        )

    def _is_constant(self, name: str) -> bool:
        made = self.values[name].print
        return made is not None and made.is_constant

    def _entry(self, value: Value, agreed: Collection[str], redeemed: Collection[str]) -> Entry | None:
        """The value as an entry; None when something that it is made from diverges already."""
        behind: set[str] = set()
        seen: set[str] = set()
        waiting = list(value.inputs)
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.values or self._is_constant(name):
                continue
            seen.add(name)
            made = self.values[name]
            if name in agreed or made.is_input:
                behind.add(name)
            elif self._is_named(made) and name not in redeemed:
                return None
            else:
                waiting += made.inputs
        latest = max((-1 if self.values[name].is_input else self.order[name] for name in behind), default=-1)
        return Entry(value, frozenset(behind), latest)

    def front(self, value: Value, agreed: Collection[str]) -> set[str]:
        """The nearest agreed values that a value is made from."""
        front: set[str] = set()
        seen: set[str] = set()
        waiting = list(value.inputs)
        while waiting:
            name = waiting.pop()
            if name in agreed:
                front.add(name)
            elif name in self.values and name not in seen:
                seen.add(name)
                waiting += self.values[name].inputs
        return front

    def above(self, roots: Iterable[str]) -> set[str]:
        """The roots and everything that they are made from."""
        found: set[str] = set()
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.values:
                found.add(name)
                waiting += self.values[name].inputs
        return found


def _pads(value: Value, made_from: Value) -> bool:
    """Whether a value is another one with zeros around it."""
    a, b = value.print, made_from.print
    if a is None or b is None or a.count <= b.count or not b.squares:
        return False
    return math.isclose(a.squares, b.squares, rel_tol=_SAME) and math.isclose(
        a.total, b.total, rel_tol=_SAME, abs_tol=_SAME * math.sqrt(b.squares * b.count)
    )


def first_entries(
    reference: Sequence[Entry], candidate: Sequence[Entry], partners: Mapping[str, Collection[str]]
) -> tuple[Entry | None, Entry | None]:
    """Choose the first diverging operation of both sides: entries behind the same values, the latest of them.

    `partners` maps an agreed value of the reference to those of the candidate. Where no two entries stand behind the
    same values, each side's own latest is chosen.
    """
    scored = [
        ((shared, ours.latest, _alike(ours.value, theirs.value), theirs.latest), -i, -j)
        for i, ours in enumerate(reference)
        for j, theirs in enumerate(candidate)
        if (shared := _shares(ours, theirs, partners))
    ]
    if scored:
        best = max(scored, key=lambda each: (each[0][1], each[0][2], each[0][3], each[1], each[2]))
        return reference[-best[1]], candidate[-best[2]]
    return _latest(reference), _latest(candidate)


def _shares(ours: Entry, theirs: Entry, partners: Mapping[str, Collection[str]]) -> bool:
    return any(theirs.behind & set(partners.get(name, ())) for name in ours.behind)


def _alike(ours: Value, theirs: Value) -> int:
    """Operations of one size are more likely the same than others."""
    a, b = ours.print, theirs.print
    return int(a is not None and b is not None and a.count == b.count)


def _latest(entries: Sequence[Entry]) -> Entry | None:
    return max(entries, key=lambda entry: (entry.latest, -entries.index(entry)), default=None)
