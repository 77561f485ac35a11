"""What a tensor looks like whatever the order of its values: enough to recognise it on another side, never to judge it.

Runs in every worker, so it needs Python 3.9 and numpy only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensoraudit.probes.tensors import WIDENED

BLOCK = 32768
"""Elements at a time: 256 KiB in double precision, which stays in the processor's cache."""
_LARGEST = 1.7e308


def fingerprint(array: Any) -> dict[str, Any] | None:
    """Return {"count", "finite", "sum", "squares", "min", "max"} of an array of any layout; None without numbers.

    `count` counts the elements, `finite` those that are neither NaN nor infinite; the rest is over the finite ones, in
    double precision. A complex number counts as two.
    """
    plain = np.asarray(array)
    if plain.dtype.name in WIDENED:
        plain = plain.astype(WIDENED[plain.dtype.name])
    if plain.dtype.kind == "c":
        plain = np.ascontiguousarray(plain).view(plain.real.dtype)
    if plain.dtype.kind not in "biuf":
        return None
    flat = plain.ravel(order="K")  # no copy of a transposed tensor: the order does not matter here
    total, squares, finite, low, high = 0.0, 0.0, 0, math.inf, -math.inf
    for start in range(0, flat.size, BLOCK):
        piece = flat[start : start + BLOCK]
        lowest, highest = float(piece.min()), float(piece.max())
        if not (math.isfinite(lowest) and math.isfinite(highest)):
            piece = piece[np.isfinite(piece)]
            if not piece.size:
                continue
            lowest, highest = float(piece.min()), float(piece.max())
        values = piece.astype(np.float64)
        with np.errstate(over="ignore"):
            total += float(values.sum())
            squares += float(np.einsum("i,i->", values, values))  # `dot` would wake the threads of BLAS each time
        low, high, finite = min(low, lowest), max(high, highest), finite + int(piece.size)
    numbers = {"sum": total, "squares": squares, "min": low, "max": high}
    # JSON has no infinity: squares of huge doubles, or no finite value at all.
    bounded = {name: max(-_LARGEST, min(_LARGEST, value)) for name, value in numbers.items()}
    return {"count": int(flat.size), "finite": finite, **bounded}
