"""Names that hold the attribute under which a wrapper keeps the model that it wraps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

_WRAPPERS: Final = {
    "_orig_mod": "torch.compile",
    "_forward_module": "a strategy of Lightning",
    "_fsdp_wrapped_module": "FullyShardedDataParallel",
    "_checkpoint_wrapped_module": "checkpoint_wrapper",
}
_PARALLEL: Final = "module."
_COUNTER: Final = "n_averaged"
_LIFTED: Final = re.compile(r"(?:Checkpoint|Remat|Jit)[A-Z]\w*_\d+")


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `wrapper_prefix` for each wrapper whose attribute is part of names, `module_prefix` for each set of weights
    of which every name begins with `module.`, and `lifted_names` for names of flax's lifted classes; the values are the
    numbers of tensors."""
    weights = [entry for entry in stored.entries if entry.group in ("model", "ema")]
    if stored.framework == "jax":
        yield from _lifted(weights)
    elif stored.framework == "pytorch":
        yield from _wrapped(weights)
        yield from _parallel(weights)


def _wrapped(weights: Iterable[Entry]) -> Iterator[Observation]:
    found = Counter(
        segment
        for entry in weights
        if "_mod" in entry.name
        for segment in set(entry.name.split(".")[:-1])
        if segment in _WRAPPERS
    )
    for segment, count in sorted(found.items()):
        told = f"{_names(count)} the segment {segment}, under which {_WRAPPERS[segment]} keeps the model"
        yield Observation("wrapper_prefix", segment, count, told)


def _parallel(weights: Iterable[Entry]) -> Iterator[Observation]:
    sets: dict[tuple[str, ...], list[Entry]] = {}
    for entry in weights:
        sets.setdefault(entry.path, []).append(entry)
    for path, entries in sets.items():
        averaged = any(entry.name == _COUNTER for entry in entries)  # the names of an AveragedModel begin so too
        if not averaged and len(entries) > 1 and all(entry.name.startswith(_PARALLEL) for entry in entries):
            told = f"All {len(entries)} names begin with {_PARALLEL}, as those of DistributedDataParallel do"
            yield Observation("module_prefix", ".".join(path) or "checkpoint", len(entries), told)


def _lifted(weights: Iterable[Entry]) -> Iterator[Observation]:
    found: dict[str, int] = {}
    for entry in weights:
        for segment in re.split(r"[./]", entry.name):
            if _LIFTED.fullmatch(segment):
                found[segment] = found.get(segment, 0) + 1
    for segment, count in found.items():
        told = f"{_names(count)} the segment {segment}, which flax gives to a class made by nn.remat or nn.jit"
        yield Observation("lifted_names", segment, count, told)


def _names(count: int) -> str:
    return f"{count} {'name holds' if count == 1 else 'names hold'}"
