"""The expensive numbers of a tensor that fails: quantiles of the error and a histogram of ULP distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array, blocks
from tensoraudit.equivalence.ulp import UlpKeys

FRACTIONS = (0.5, 0.9, 0.99, 0.999)
_SAMPLE = 1 << 20


@dataclass(frozen=True, slots=True)
class Detail:
    """How errors are spread over a tensor. `quantiles` maps a fraction to |a - b| at it.

    `ulp_histogram[k]` counts elements whose ULP distance d has bit length k: k = 0 equal, k = 1 one ULP, k = 2 two or
    three...
    """

    quantiles: Mapping[float, float]
    ulp_histogram: tuple[int, ...]


def measure_detail(
    reference: Array, candidate: Array, fractions: tuple[float, ...] = (0.5, 0.9, 0.99, 0.999)
) -> Detail:
    """Take quantiles of |a - b| and a histogram of ULP distances of two float arrays of equal shape and dtype.

    Quantiles of more than 2**20 elements come from an even sample of that many, in order to stay under the memory
    limit.
    """
    keys = UlpKeys(reference.dtype.itemsize)
    step = max(1, -(-reference.size // (1 << 20)))
    counts = np.zeros(8 * reference.dtype.itemsize + 1, np.int64)
    sample: list[Array] = []
    for offset, (x, y) in blocks(reference, candidate):
        finite = np.isfinite(x) & np.isfinite(y)
        counts += _bit_lengths(keys.distances(x, y)[finite], counts.size)
        start = -offset % step
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.abs(x[start::step].astype(np.float64) - y[start::step].astype(np.float64))
        sample.append(difference[finite[start::step]])
    merged: Array = np.concatenate(sample) if sample else np.empty(0)
    quantiles = {f: float(np.quantile(merged, f)) for f in fractions} if merged.size else {}
    last = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0
    return Detail(quantiles, tuple(int(count) for count in counts[:last]))


def _bit_lengths(distances: Array, length: int) -> Any:
    """Count how many integers have each bit length, exactly (no floating logarithm)."""
    bounds = np.array([1 << k for k in range(8 * distances.dtype.itemsize)], distances.dtype)
    return np.bincount(np.searchsorted(bounds, distances, side="right"), minlength=length)
