"""Which tensor of one checkpoint is which of the other, by names and shapes. Reads no values.

Tensors of a kind (weights, averages, states of optimisers...) are paired among themselves, in this order, each step
with what the ones before left over; every step takes time in proportion to the number of tensors:

1. by the caller's own pairs,
2. by name, with the keys that lead to it or without,
3. by name without wrappers' segments and without words at the front (`fronts`),
4. by the frameworks' conventions (`naming`) and the other names that a format keeps (`other_names`),
5. (by value, which `fingerprints` does where it is asked for,)
6. by shape: layers whose shapes no other layer has, then single tensors, then all in one and the same order.

A key that two tensors of a side share pairs nothing: a wrong pair is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tensoraudit.checkpoints.fronts import Words, best_fronts, pairs_without, unique
from tensoraudit.checkpoints.naming import convention_key, unwrapped, words_of, wrapping
from tensoraudit.checkpoints.other_names import state_keys, variable_names
from tensoraudit.checkpoints.paired import By
from tensoraudit.checkpoints.schema import Entry, StoredCheckpoint

_ROUNDS = 8
"""Different fronts of one checkpoint, as of an encoder and a decoder."""


_DIGITS = 20


class Match(NamedTuple):
    """Tensor number `reference` is number `candidate`."""

    reference: int
    candidate: int
    by: By
    note: str = ""


class Side:
    """The tensors of one checkpoint: their kinds and names, and the numbers of those without a partner (`free`)."""

    def __init__(self, stored: StoredCheckpoint) -> None:
        self.stored = stored
        self.entries: Sequence[Entry] = stored.entries
        self.names = [entry.full_name if entry.path else entry.name for entry in self.entries]
        # What is in no group that a reader knows may be weights, where nothing else is.
        has_model = any(entry.group == "model" for entry in self.entries)
        self.kinds = ["model" if entry.group == "other" and not has_model else entry.group for entry in self.entries]
        self.free = dict.fromkeys(range(len(self.entries)))
        self._conventions: dict[int, Words] = {}

    def words(self, number: int) -> Words:
        """The words of a name without wrappers' segments."""
        return words_of(unwrapped(self.entries[number].name))

    def convention(self, number: int) -> Words:
        """The key by convention, of the other name where there is one; () where there is none."""
        if number not in self._conventions:
            self._conventions[number] = self._convention(number)
        return self._conventions[number]

    def _convention(self, number: int) -> Words:
        if self.kinds[number] == "optimizer":
            return self._states.get(number, ())
        return convention_key(unwrapped(self._others.get(self.names[number]) or self.entries[number].name))

    @cached_property
    def _others(self) -> Mapping[str, str]:
        return variable_names(self.stored)

    @cached_property
    def _states(self) -> Mapping[int, Words]:
        return state_keys(self.stored)


@dataclass(slots=True)
class Pairing:
    """The pairs of two sides so far, and the fronts that were taken off to find them."""

    reference: Side
    candidate: Side
    matches: list[Match] = field(default_factory=list)
    prefixes: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether a side has no tensor left."""
        return not self.reference.free or not self.candidate.free

    def take(self, found: Iterable[tuple[int, int]], by: By, note: str = "") -> None:
        """Make pairs of numbers; a number that has a partner is passed over."""
        ours, theirs = self.reference.free, self.candidate.free
        for i, j in found:
            if i in ours and j in theirs:
                self.matches.append(Match(i, j, by, note))
                del ours[i], theirs[j]


def pair_by_names(
    reference: StoredCheckpoint, candidate: StoredCheckpoint, mapping: Mapping[str, str] | None = None
) -> Pairing:
    """Pair entries by the mapping (reference's name to candidate's), names, prefixes and conventions."""
    pairing = Pairing(Side(reference), Side(candidate))
    if mapping:
        _by_map(pairing, mapping)
    _by_full_name(pairing)
    _by_key(pairing, lambda side, n: (side.kinds[n], side.entries[n].name), "name")
    for i, j in _by_key(pairing, lambda side, n: (side.kinds[n], unwrapped(side.entries[n].name)), "prefix"):
        names = pairing.reference.entries[i].name, pairing.candidate.entries[j].name
        pairing.prefixes[wrapping(names[0]), wrapping(names[1])] = None
    for kind in sorted(set(pairing.reference.kinds)):
        if kind != "optimizer":
            _by_front(pairing, kind, Side.words, "prefix")
        _by_front(pairing, kind, Side.convention, "convention")
    return pairing


def _by_map(pairing: Pairing, mapping: Mapping[str, str]) -> None:
    ours, theirs = _numbers_by_name(pairing.reference), _numbers_by_name(pairing.candidate)
    given = ((ours.get(a), theirs.get(b)) for a, b in mapping.items())
    pairing.take([(i, j) for i, j in given if i is not None and j is not None], "map")


def _numbers_by_name(side: Side) -> dict[str, int]:
    """Numbers by name, the full name before the short one."""
    short = {entry.name: number for number, entry in enumerate(side.entries)}
    return short | {name: number for number, name in enumerate(side.names)}


def _by_full_name(pairing: Pairing) -> None:
    """The step that pairs all of two checkpoints of one format; a full name stands once in each."""
    ours, theirs = pairing.reference, pairing.candidate
    numbers = {theirs.names[j]: j for j in theirs.free}
    found = ((i, numbers.get(ours.names[i], -1)) for i in list(ours.free))
    pairing.take(((i, j) for i, j in found if j >= 0 and ours.kinds[i] == theirs.kinds[j]), "name")


def _by_key(pairing: Pairing, key: Callable[[Side, int], Hashable], by: By) -> list[tuple[int, int]]:
    if pairing.is_done:
        return []
    ours, theirs = (unique((n, key(side, n)) for n in side.free) for side in (pairing.reference, pairing.candidate))
    found = [(i, theirs[value]) for value, i in ours.items() if value in theirs]
    pairing.take(found, by)
    return found


def _by_front(pairing: Pairing, kind: str, words: Callable[[Side, int], Words], by: By) -> None:
    """Pair by equal words, and then by words that are equal without a front of either side."""
    if pairing.is_done:
        return
    ours, theirs = (
        {n: key for n in side.free if side.kinds[n] == kind and (key := words(side, n))}
        for side in (pairing.reference, pairing.candidate)
    )
    fronts: tuple[Words, Words] | None = ((), ())
    for _ in range(_ROUNDS):
        if fronts is None or not ours or not theirs:
            return
        found = pairs_without(ours, theirs, *fronts)
        if by == "convention":
            found = without_doubtful(pairing.reference, pairing.candidate, found)
            found = [
                (i, j) for i, j in found if _may_be_one(pairing.reference.entries[i], pairing.candidate.entries[j])
            ]
        if any(fronts) and found and by == "prefix":
            pairing.prefixes[_joined(fronts[0]), _joined(fronts[1])] = None
        pairing.take(found, by)
        for i, j in found:
            del ours[i], theirs[j]
        fronts = best_fronts(ours, theirs)


def without_doubtful(ours: Side, theirs: Side, found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out pairs of numbered layers that only a spelling makes equal and that count from another number: `conv1`
    of a model with `conv1` and `conv2` is no `Conv_1` of one with `Conv_0` and `Conv_1`."""
    firsts = _first_numbers(ours), _first_numbers(theirs)
    return [
        (i, j)
        for i, j in found
        if ours.words(i)[:-1] == theirs.words(j)[:-1]
        or firsts[0].get(_family(ours, i)) == firsts[1].get(_family(theirs, j))
    ]


def _may_be_one(one: Entry, other: Entry) -> bool:
    """What only a convention makes equal has as many elements or as many axes: the `scale` of a quantised layer, a
    single number, is no kernel, though that of a normalisation is its `weight`."""
    return one.numel == other.numel or len(one.shape) == len(other.shape)


def _first_numbers(side: Side) -> dict[Words, Words]:
    """The lowest numbers of each family of names."""
    lowest: dict[Words, Words] = {}
    for n in range(len(side.entries)):
        if side.kinds[n] == "model":
            numbers = tuple(word.zfill(_DIGITS) for word in side.convention(n) if word.isdecimal())
            family = _family(side, n)
            lowest[family] = min(lowest.get(family, numbers), numbers)
    return lowest


def _family(side: Side, number: int) -> Words:
    return tuple("#" if word.isdecimal() else word for word in side.convention(number))


def _joined(words: Words) -> str:
    return ".".join(words) + "." if words else ""
