"""Weights that are codes: integers or float8 numbers that mean something only together with a scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tensoraudit.checkpoints.observations.layers import Layers, layers_of
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

CODES: Final = frozenset({
    "int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
})  # fmt: skip
SCALES: Final = frozenset({"SCB", "weight_scale", "weight_scale_inv", "scale_weight", "scale", "scales", "absmax"})
"""Kinds of tensors that scale the weight beside them, or below it (`weight.absmax`)."""


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield for each layer whose 2-D weight is codes: `codes_with_scale`; `scale_missing` where other layers have one;
    `codes_without_scale` where none has."""
    if not any(entry.dtype in CODES for entry in stored.entries):
        return
    layers = layers_of(entry for entry in stored.entries if entry.group in ("model", "ema"))
    coded = {layer: tensors["weight"] for layer, tensors in layers.items() if _is_coded(tensors)}
    scales = {layer: _scales(layer, layers) for layer in coded}
    scaled = sum(1 for found in scales.values() if found)
    for layer, weight in coded.items():
        file = weight.parts[0].file if weight.parts else ""
        told = f"{weight.full_name} is stored as {weight.dtype} {list(weight.shape)}"
        if scales[layer]:
            told = f"{told}; {', '.join(scales[layer])} scales it."
            yield Observation("codes_with_scale", weight.full_name, scales[layer], told, file)
        elif scaled:
            told = f"{told} without a scale, while {scaled} other layers have one."
            yield Observation("scale_missing", weight.full_name, weight.dtype, told, file)
        else:
            yield Observation("codes_without_scale", weight.full_name, weight.dtype, f"{told} without a scale.", file)


def _is_coded(tensors: Mapping[str, Entry]) -> bool:
    weight = tensors.get("weight")
    return weight is not None and weight.dtype in CODES and len(weight.shape) == 2


def _scales(layer: str, layers: Layers) -> list[str]:
    below = f"{layer}.weight" if layer else "weight"
    found = (tensors[kind] for tensors in (layers[layer], layers.get(below, {})) for kind in SCALES & tensors.keys())
    return sorted(entry.full_name for entry in found)
