"""Tensors of a checkpoint by the layer that they belong to, whatever separates the words of a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tensoraudit.checkpoints.schema import Entry

_APART: Final = frozenset({"params", "batch_stats", "variables", "vars"})
"""Words that keep the tensors of one layer apart (collections of Flax) or that all layers have (Keras)."""
_TENSORFLOW: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
_NUMBERED: Final[Mapping[str, str]] = {"0": "gamma", "1": "beta", "2": "moving_mean", "3": "moving_variance"}
"""Variables of a batch normalisation that a .weights.h5 of Keras numbers, where the layer has all four."""
_NORMALISATION: Final = "batch_normalization"

MEANS: Final = frozenset({"running_mean", "moving_mean", "mean"})
VARIANCES: Final = frozenset({"running_var", "moving_variance", "moving_var", "var"})
SCALES: Final = frozenset({"weight", "scale", "gamma"})
SHIFTS: Final = frozenset({"bias", "beta"})

Layers = Mapping[str, Mapping[str, Entry]]


def place_of(name: str) -> tuple[str, str]:
    """The layer and the kind of a full name: `params.bn.scale` and `bn/scale/.ATTRIBUTES/VARIABLE_VALUE` both give
    ("bn", "scale")."""
    words = name.removesuffix(_TENSORFLOW).partition(":")[0].replace("/", ".").split(".")
    kind = words.pop()
    if not _APART.isdisjoint(words):
        words = [word for word in words if word not in _APART]
    if kind in _NUMBERED and words and words[-1].startswith(_NORMALISATION):
        kind = _NUMBERED[kind]
    return ".".join(words), kind


def layers_of(entries: Iterable[Entry]) -> Layers:
    """The tensors of each layer by their kind, layers in the order of their first tensor."""
    layers: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        layer, kind = place_of(entry.full_name)
        layers.setdefault(layer, {})[kind] = entry
    return layers
