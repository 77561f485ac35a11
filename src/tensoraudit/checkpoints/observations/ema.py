"""Two sets of weights under the same names: the ones that were trained, and their average."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

if TYPE_CHECKING:
    from tensoraudit.checkpoints.diff import CheckpointDiff

_COUNTER: Final = "n_averaged"


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `ema_twin` for each set of averaged weights beside the trained ones, and `averaged_model` for each state of
    an AveragedModel."""
    for path, twin, count in _twins(stored):
        told = f"{_key(path)} and {_key(twin)} hold {count} tensors of the same names and shapes."
        yield Observation("ema_twin", _key(path), [_key(twin), count], told)
    for entry in stored.entries:
        if entry.name == _COUNTER and entry.numel == 1 and _is_wrapped(stored, entry):
            told = f"{_key(entry.path)} is the state of an AveragedModel: names begin with module., {_COUNTER} counts."
            yield Observation("averaged_model", _key(entry.path), entry.full_name, told)


def observe_diff(diff: CheckpointDiff) -> Iterator[Observation]:
    """Yield `ema_taken` for each set of averaged weights of the reference that the candidate does not hold, while it
    holds those that were trained, by value; the value is the number of tensors."""
    for path, twin, _ in _twins(diff.reference):
        trained = sum(
            pair.status == "equal" and all(pair.digests) for pair in diff.pairs if _is_in(pair.reference, twin)
        )
        averaged = sum(pair.status == "equal" for pair in diff.pairs if _is_in(pair.reference, path))
        if trained and not averaged:
            told = f"{trained} tensors are those of {_key(twin)}, and none is one of the average, {_key(path)}."
            yield Observation("ema_taken", _key(path), trained, told)


def _is_in(name: str, path: tuple[str, ...]) -> bool:
    return name.startswith("".join(f"{key}." for key in path)) and bool(name)


def _twins(stored: StoredCheckpoint) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], int]]:
    """Yield the path of each averaged set, that of the trained one, and the number of tensors."""
    averaged = _shapes(stored, "ema")
    trained = _shapes(stored, "model") if averaged else {}
    for path, names in averaged.items():
        twin = next((other for other, shapes in trained.items() if _alike(shapes, names)), None)
        if twin is not None:
            yield path, twin, len(names)


def _shapes(stored: StoredCheckpoint, group: str) -> dict[tuple[str, ...], dict[str, tuple[int, ...]]]:
    sets: dict[tuple[str, ...], dict[str, tuple[int, ...]]] = {}
    for entry in stored.entries:
        if entry.group == group and entry.name != _COUNTER:
            sets.setdefault(entry.path, {})[entry.name.removeprefix("module.")] = entry.shape
    return sets


def _alike(trained: dict[str, tuple[int, ...]], averaged: dict[str, tuple[int, ...]]) -> bool:
    """Tell whether every averaged tensor has a twin. An average may leave out buffers, so not the other way round."""
    return bool(averaged) and all(trained.get(name) == shape for name, shape in averaged.items())


def _is_wrapped(stored: StoredCheckpoint, counter: Entry) -> bool:
    beside = [entry for entry in stored.entries if entry.path == counter.path and entry is not counter]
    return bool(beside) and all(entry.name.startswith("module.") for entry in beside)


def _key(path: tuple[str, ...]) -> str:
    return ".".join(path) or "checkpoint"
