"""The expensive numbers of a tensor that fails: quantiles of the error and a histogram of ULP distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def measure_detail(reference: Array, candidate: Array, fractions: Sequence[float] = FRACTIONS) -> Detail:
    """Take quantiles of |a - b| and a histogram of ULP distances of two float arrays of equal shape and dtype.

    Elements that are NaN or infinite on either side are left out. Quantiles of more than 2**20 elements come from an
    even sample of that many, in order to stay under the memory limit.
    """
    keys = UlpKeys(reference.dtype.itemsize)
    step = -(-reference.size // _SAMPLE)
    counts = np.zeros(8 * reference.dtype.itemsize + 1, np.int64)
    sample: list[Array] = []
    for offset, (x, y) in blocks(reference, candidate):
        finite = np.isfinite(x) & np.isfinite(y)
        counts += np.bincount(_bit_lengths(keys.distances(x, y))[finite], minlength=counts.size)
        every = slice(-offset % step, None, step)
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.abs(x[every].astype(np.float64) - y[every].astype(np.float64))
        sample.append(difference[finite[every]])
    merged: Array = np.concatenate(sample) if sample else np.empty(0)
    quantiles = np.quantile(merged, fractions).tolist() if merged.size else []
    last = int(counts.nonzero()[0][-1]) + 1 if counts.any() else 0
    return Detail(dict(zip(fractions, quantiles, strict=False)), tuple(counts[:last].tolist()))


def _bit_lengths(distances: Array) -> Array:
    """Return the bit length of each unsigned integer, from the exponent of its double.

    A distance above 2**53 may round up into the next length; nobody reads a histogram that far out.
    """
    lengths: Array = np.frexp(distances.astype(np.float64))[1]
    return lengths
