"""Amounts as reports write them: sizes in bytes, numbers of things, runs of numbers. Plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """Return a number of bytes with three significant digits: `512 B`, `1.5 KiB`, `931 GiB`."""
    unit, value = 0, float(count)
    while value >= 1000 and unit < len(_UNITS) - 1:
        unit, value = unit + 1, value / 1024
    return f"{count:,} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def amount(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless there is one: `1,024 tensors`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers as ranges: `0-3, 5`."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in _runs(sorted(numbers)))


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = number
    if first is not None and last is not None:
        yield first, last


def listed(texts: Iterable[str], most: int) -> str:
    """Return the first of some texts, and how many more there are."""
    every = list(texts)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more:,} more" if more > 0 else "")
