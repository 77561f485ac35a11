"""Moving statistics of normalisation layers: missing in a checkpoint, or lost, swapped or reset between two."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from tensoraudit.checkpoints.observations.layers import MEANS, SCALES, SHIFTS, VARIANCES, layers_of, place_of
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

if TYPE_CHECKING:
    from tensoraudit.checkpoints.diff import CheckpointDiff, PairedTensor

_BATCH_NORM: Final = re.compile(r"(^|[._])(bn|batch_?norm(aliz?sation|alization)?(1d|2d|3d)?)(_?\d+)?$", re.IGNORECASE)
"""Last word of a layer that is called a batch normalisation."""
_MEANT: Final = ("mean", "batch_norm")
"""What the name of a mean holds: the word, or the layer where Keras numbers the variable."""


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `statistics_missing` for each layer that is called a batch normalisation and has a scale or shift, but not
    both statistics."""
    called_so = (entry for entry in stored.entries if entry.group == "model" and _may_be(entry.full_name.lower()))
    for layer, tensors in layers_of(called_so).items():
        if not _BATCH_NORM.search(layer) or not _is_normalisation(tensors):
            continue
        missing = [name for name, kinds in (("mean", MEANS), ("variance", VARIANCES)) if not kinds & tensors.keys()]
        if missing:
            message = f"{layer} is stored as {', '.join(sorted(tensors))} without its moving {' and '.join(missing)}."
            yield Observation("statistics_missing", layer, missing, message, _file_of(tensors))


def _may_be(name: str) -> bool:
    """Whether a name in small letters is worth a closer look: most are not, and there are many."""
    return "bn" in name or "batch" in name


def _is_normalisation(tensors: Mapping[str, Entry]) -> bool:
    """Tell whether a layer has a scale or shift of one axis. What Keras numbers is left out: with the scale or the
    shift off, the numbers mean others, and the statistics are always there."""
    affine = [tensors[kind] for kind in (SCALES | SHIFTS) & tensors.keys()]
    return bool(affine) and all(len(entry.shape) == 1 and not _is_numbered(entry.name) for entry in affine)


def _is_numbered(name: str) -> bool:
    return name.replace("/", ".").rpartition(".")[2].isdigit()


def _file_of(tensors: Mapping[str, Entry]) -> str:
    return next((part.file for entry in tensors.values() for part in entry.parts), "")


# Two checkpoints


def observe_diff(diff: CheckpointDiff) -> Iterator[Observation]:
    """Yield `statistics_lost`, `statistics_swapped` and `statistics_default`, one for each layer of the reference."""
    if not any(word in pair.reference for pair in diff.pairs for word in _MEANT):
        return
    placed = [(*place_of(pair.reference), pair) for pair in diff.pairs if pair.reference]
    normalised = {layer for layer, kind, _ in placed if kind in MEANS}
    layers: dict[str, dict[str, PairedTensor]] = {layer: {} for layer, _, _ in placed if layer in normalised}
    for layer, kind, pair in placed:
        if layer in normalised:
            layers[layer][kind] = pair
    for layer, pairs in layers.items():
        mean, variance = _one_of(pairs, MEANS), _one_of(pairs, VARIANCES)
        if mean is not None and variance is not None:
            rest = [pair for kind, pair in pairs.items() if kind in SCALES | SHIFTS]
            yield from _compared(layer, mean, variance, rest)


def _one_of(pairs: Mapping[str, PairedTensor], kinds: frozenset[str]) -> PairedTensor | None:
    return next((pair for kind, pair in pairs.items() if kind in kinds), None)


def _compared(
    layer: str, mean: PairedTensor, variance: PairedTensor, rest: list[PairedTensor]
) -> Iterator[Observation]:
    lost = [name for name, pair in (("mean", mean), ("variance", variance)) if pair.status == "missing"]
    if lost and any(pair.candidate for pair in rest):
        told = f"The moving {' and '.join(lost)} of {layer} arrived nowhere; its scale and shift did."
        yield Observation("statistics_lost", layer, lost, told)
    elif swapped(mean, variance):
        told = f"{layer}: the moving mean stands where the variance belongs, and the variance where the mean does."
        yield Observation("statistics_swapped", layer, [mean.candidate, variance.candidate], told)
    elif _is_default(mean, variance):
        told = f"The moving statistics of {layer} are 0 and 1 in the candidate, and others in the reference."
        yield Observation("statistics_default", layer, [mean.candidate, variance.candidate], told)


def swapped(mean: PairedTensor, variance: PairedTensor) -> bool:
    """Tell whether the values of two tensors changed places: by the pairing, or by the digests of both."""
    if "" in (mean.candidate, variance.candidate):
        return False
    if place_of(mean.candidate)[1] in VARIANCES and place_of(variance.candidate)[1] in MEANS:
        return mean.status in _SAME and variance.status in _SAME
    return all(mean.digests) and mean.digests == variance.digests[::-1] and mean.digests[0] != mean.digests[1]


_SAME: Final = frozenset({"equal", "same_header", "cast"})


def _is_default(mean: PairedTensor, variance: PairedTensor) -> bool:
    """Tell whether the candidate has zeros and ones, by their digests, and the reference something else."""
    initial = _digest(0, mean), _digest(1, variance)
    found = tuple(pair.digests[1] for pair in (mean, variance))
    return "" not in initial and found == initial and tuple(pair.digests[0] for pair in (mean, variance)) != initial


def _digest(number: int, pair: PairedTensor) -> str:
    """The digest of a tensor of `pair`'s candidate, filled with one number; "" for an element type without numpy's."""
    dtype, shape = pair.dtypes[1], pair.shapes[1]
    if dtype not in _PLAIN or len(shape) != 1 or shape[0] > _LONGEST:
        return ""
    return hashlib.sha256(np.full(shape, number, np.dtype(dtype).newbyteorder("<")).tobytes()).hexdigest()


_PLAIN: Final = frozenset({"float16", "float32", "float64"})
_LONGEST: Final = 1 << 20
"""Channels of one layer; longer is no vector of statistics."""
