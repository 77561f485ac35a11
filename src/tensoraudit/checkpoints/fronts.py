"""Words at the front of names that two checkpoints do not share: found by counting which leave the most names equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from tensoraudit.checkpoints.naming import LEADING

_DEEPEST: Final = 6
"""Words at the front of a name that may be nothing but a prefix."""

Words = tuple[str, ...]
_Key = TypeVar("_Key", bound=Hashable)


def unique(keyed: Iterable[tuple[int, _Key]]) -> dict[_Key, int]:
    """Return the numbers by key, without keys that two numbers share."""
    found: dict[_Key, int] = {}
    twice = set()
    for number, key in keyed:
        if found.setdefault(key, number) != number:
            twice.add(key)
    for key in twice:
        del found[key]
    return found


def pairs_without(
    ours: Mapping[int, Words], theirs: Mapping[int, Words], front: Words, other: Words
) -> list[tuple[int, int]]:
    """Return the numbers of names that are equal when each side's front is taken off; names without it do not count."""
    left, right = unique(_without(ours, front)), unique(_without(theirs, other))
    return [(i, right[words]) for words, i in left.items() if words in right]


def _without(side: Mapping[int, Words], front: Words) -> Iterator[tuple[int, Words]]:
    size = len(front)
    if not size:
        return iter(side.items())
    return ((n, words[size:]) for n, words in side.items() if len(words) > size and words[:size] == front)


def best_fronts(ours: Mapping[int, Words], theirs: Mapping[int, Words]) -> tuple[Words, Words] | None:
    """Return the words to leave out on each side that pair the most tensors; None where none pairs any.

    One pair alone is a coincidence, unless the words are known to say nothing or a side has no more than that.
    """
    if not ours or not theirs:
        return None
    least = min(2, len(ours), len(theirs))
    common = _common_front(ours), _common_front(theirs)
    votes: Counter[tuple[Words, Words]] = Counter()
    if any(common):
        votes[common] = len(pairs_without(ours, theirs, *common))
    if votes[common] < min(len(ours), len(theirs)):
        votes.update((front, ()) for front in _fronts(ours, theirs))
        votes.update(((), front) for front in _fronts(theirs, ours))
    enough = {fronts: n for fronts, n in votes.items() if any(fronts) and n and (n >= least or _says_nothing(fronts))}
    return max(enough, key=lambda fronts: (enough[fronts], -len(fronts[0] + fronts[1]), fronts), default=None)


def _fronts(side: Mapping[int, Words], other: Mapping[int, Words]) -> Iterator[Words]:
    """Yield the words before each name of the other side that a name of this one ends with."""
    names = set(other.values())
    longest = max(map(len, names))
    for words in side.values():
        for depth in range(max(1, len(words) - longest), min(_DEEPEST, len(words) - 1) + 1):
            if words[depth:] in names:
                yield words[:depth]


def _common_front(side: Mapping[int, Words]) -> Words:
    first, last = min(side.values()), max(side.values())
    most = min(len(first), len(last)) - 1
    size = next((n for n in range(most) if first[n] != last[n]), max(0, most))
    return first[:size]


def _says_nothing(fronts: tuple[Words, Words]) -> bool:
    return all(not front or front in LEADING for front in fronts)
