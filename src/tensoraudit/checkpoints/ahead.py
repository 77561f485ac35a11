"""A checkpoint as commands look at it, and the second of two while the first is read: in a copy of this process.

What the copy read travels in columns: pickled one by one, a hundred thousand entries take longer than their headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.halves import ahead


class Seen(NamedTuple):
    """A checkpoint, and what the topics say of it beside what its reader says."""

    stored: StoredCheckpoint
    observations: tuple[Observation, ...]


Looked = Callable[[], Seen | None]
"""Hands out what was seen of a checkpoint meanwhile, None where nothing was."""


def look_at(path: Path) -> Seen:
    """Read the headers of a checkpoint and look at them. Raises InputError."""
    from tensoraudit.checkpoints.observations import observe_all
    from tensoraudit.checkpoints.read import read_checkpoint

    stored = read_checkpoint(path)
    return Seen(stored, tuple(observe_all(stored)))


@contextmanager
def looking_ahead(path: Path) -> Iterator[Looked]:
    """Begin to look at a checkpoint in a copy of this process. What is handed out waits for what came of it, and gives
    None where there is no copy or the copy failed: whoever then looks for himself sees why."""

    def work() -> tuple[StoredCheckpoint, tuple[Observation, ...], _Columns]:
        stored, observations = look_at(path)
        return replace(stored, entries=()), observations, _packed(stored.entries)

    def result() -> Seen | None:
        found = receive()
        return None if found is None else Seen(replace(found[0], entries=_unpacked(found[2])), found[1])

    with ahead(work) as receive:
        yield result


def nothing_ahead() -> None:
    """Hand out that nothing was begun."""


class _Columns(NamedTuple):
    """Entries field by field, without their parts; how many parts each has; the parts field by field."""

    entries: tuple[tuple[Any, ...], ...]
    counts: tuple[int, ...]
    parts: tuple[tuple[Any, ...], ...]


_PARTS = Entry._fields.index("parts")


def _packed(entries: Sequence[Entry]) -> _Columns:
    columns = list(zip(*entries, strict=True)) or [()] * len(Entry._fields)
    parts: tuple[tuple[Part, ...], ...] = columns.pop(_PARTS)
    flat = tuple(zip(*chain.from_iterable(parts), strict=True)) or ((),) * len(Part._fields)
    return _Columns(tuple(columns), tuple(map(len, parts)), flat)


def _unpacked(found: _Columns) -> tuple[Entry, ...]:
    parts = map(Part._make, zip(*found.parts, strict=True))
    groups = [tuple(islice(parts, count)) for count in found.counts]
    columns = (*found.entries[:_PARTS], groups, *found.entries[_PARTS:])
    return tuple(map(Entry._make, zip(*columns, strict=True)))
