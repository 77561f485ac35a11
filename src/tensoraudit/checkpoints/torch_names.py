"""Names for tensors whose keys, joined by dots, are the same: `{"a.b": ..., "a": {"b": ...}}`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from tensoraudit.checkpoints.torch_tree import Keys


def names_apart(all_keys: Sequence[Keys]) -> list[tuple[str, ...] | None]:
    """Return words for the keys whose joined name another has too, None for all others, which keep their names.

    A key that holds a dot itself is marked, `a.b (one key)` beside `a.b`, and so are strings beside other keys,
    `0 (text)` beside `0`; where that does not tell them apart, the later ones are numbered. The marks have no dot, at
    which reports cut names.
    """
    words: list[tuple[str, ...]] = [tuple(map(str, keys)) or ("tensor",) for keys in all_keys]
    changed: set[int] = set()
    shared = _shared(words)
    for mark in _MARKS:
        for at in shared:
            words[at] = (*words[at][:-1], words[at][-1] + mark(all_keys[at]))
        changed |= set(shared)
        shared = _shared(words) if shared else []
    _number(words, shared)
    changed |= set(shared)
    return [each if at in changed else None for at, each in enumerate(words)]


def _one_key(keys: Keys) -> str:
    return " (one key)" if any(isinstance(key, str) and "." in key for key in keys) else ""


def _text(keys: Keys) -> str:
    return " (text)" if keys and all(isinstance(key, str) for key in keys) else ""


_MARKS: Final[tuple[Callable[[Keys], str], ...]] = (_one_key, _text)


def _shared(words: Sequence[tuple[str, ...]]) -> list[int]:
    """Which of the names occur more than once."""
    names = [".".join(each) for each in words]
    counts = Counter(names)
    return [at for at, name in enumerate(names) if counts[name] > 1]


def _number(words: list[tuple[str, ...]], shared: Sequence[int]) -> None:
    """Put a number behind all but the first of each name, one that no other name has."""
    taken = {".".join(each) for each in words} if shared else set()
    counts: dict[str, int] = {}
    for at in shared:
        name = ".".join(words[at])
        count = counts.get(name, 0) + 1
        while count > 1 and f"{name} #{count}" in taken:
            count += 1
        if count > 1:
            words[at] = (*words[at][:-1], f"{words[at][-1]} #{count}")
        counts[name] = count
