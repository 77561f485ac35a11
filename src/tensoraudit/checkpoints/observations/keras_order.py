"""Layers of Keras, which a file of weights keeps by class and number, and a loader takes by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint

if TYPE_CHECKING:
    from tensoraudit.checkpoints.diff import CheckpointDiff


def observe_diff(diff: CheckpointDiff) -> Iterator[Observation]:
    """Yield `layers_swapped` for each place that holds another layer on the other side, where that layer is known on
    both sides; the value are both names."""
    reference, candidate = names_of(diff.reference), names_of(diff.candidate)
    both = set(reference.values()) & set(candidate.values())
    for place, name in reference.items():
        other = candidate.get(place, name)
        if other != name and {name, other} <= both:
            told = f"{place} holds the weights of {name} in the reference and of {other} in the candidate."
            yield Observation("layers_swapped", place, [name, other], told)


def names_of(stored: StoredCheckpoint) -> Mapping[str, str]:
    """The names of the layers at their places in the file, those that stand only once; {} where none are stored."""
    names = stored.metadata.get("layer_names")
    if not isinstance(names, Mapping):
        return {}
    often = Counter(names.values())
    return {place: name for place, name in names.items() if name and often[name] == 1}
