"""Dtypes that lose what the tensor is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

_HALF: Final = {"float16": 2048, "bfloat16": 256}
"""The number from which on adding one changes nothing."""
_COUNTERS: Final = ("step", "steps", "global_step", "num_batches_tracked", "n_averaged", "count", "num_updates")
_SECOND_MOMENTS: Final = frozenset({"exp_avg_sq", "max_exp_avg_sq", "nu", "square_avg"})
_FLOATS: Final = frozenset({"float32", "float16", "bfloat16", "float64"})


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `half_counter` and `half_moment` for each such tensor, and `uneven_dtypes` for each tensor of a repeated
    layer whose dtype is not that of the same tensor in most of the others."""
    for entry in stored.entries:
        if entry.dtype in _HALF and (entry.group == "optimizer" or entry.name.endswith(_COUNTERS)):
            yield from _half(entry)
    yield from _uneven(stored)


def _half(entry: Entry) -> Iterator[Observation]:
    last = entry.name.rpartition(".")[2].rpartition("/")[2]
    if last in _COUNTERS and entry.numel == 1:
        told = f"{entry.full_name} is a counter in {entry.dtype}, which does not count beyond {_HALF[entry.dtype]}"
        yield Observation("half_counter", entry.full_name, entry.dtype, told)
    moments = entry.group == "optimizer" and entry.dtype == "float16"
    if moments and _SECOND_MOMENTS & set(entry.name.replace("/", ".").split(".")):
        told = f"{entry.full_name} holds second moments in float16: of gradients below 2e-4 they are 0"
        yield Observation("half_moment", entry.full_name, entry.dtype, told)


def _uneven(stored: StoredCheckpoint) -> Iterator[Observation]:
    weights = [entry for entry in stored.entries if entry.group == "model" and entry.dtype in _FLOATS]
    if len({entry.dtype for entry in weights}) < 2:
        return
    rows: dict[str, list[Entry]] = {}
    for entry in weights:
        role = ".".join(["*" if word.isdigit() else word for word in entry.name.split(".")])
        rows.setdefault(role, []).append(entry)
    for role, entries in rows.items():
        if all(entry.dtype == entries[0].dtype for entry in entries):
            continue
        usual, most = Counter(entry.dtype for entry in entries).most_common(1)[0]
        if most > len(entries) - most:
            odd = next(entry for entry in entries if entry.dtype != usual)
            told = f"{role} is {usual} in {most} of {len(entries)} layers, and {odd.full_name} is {odd.dtype}"
            yield Observation("uneven_dtypes", odd.full_name, [odd.dtype, usual], told)
