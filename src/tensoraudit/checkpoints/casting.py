"""Casts that are counted: how many values are others afterwards, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array, element_type, narrow
from tensoraudit.equivalence.gaps import agree, gaps

_PIECE: Final = 1 << 18
"""Elements that are compared at a time, so that counting needs little memory beside the arrays."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a cast did to `elements` values: `changed` of them are other numbers afterwards, however little.

    `to_inf` are finite values that became infinite, `to_zero` values that became zero, `to_nan` those that became NaN;
    `linf` is the largest absolute difference of values that are finite on both sides, of complex numbers its magnitude.
    """

    elements: int
    changed: int = 0
    to_inf: int = 0
    to_zero: int = 0
    to_nan: int = 0
    linf: float = 0.0


def cast(array: Array, dtype: str) -> tuple[Array, Loss]:
    """Return the values in another dtype, rounded to nearest, and what that lost. NaN that stays NaN is no loss.

    Numpy has no bfloat16: the values are rounded to it, and held exactly by float32.
    """
    source = np.ascontiguousarray(array).reshape(-1)
    target = np.empty(source.shape, np.float32 if dtype == "bfloat16" else np.dtype(dtype))
    total = Loss(source.size)
    for start in range(0, source.size, _PIECE):
        piece = slice(start, start + _PIECE)
        with np.errstate(all="ignore"):
            target[piece] = _converted(_real(source[piece], target.dtype), dtype)
            total = _added(total, _loss(source[piece], target[piece]))
    return target.reshape(array.shape), total


def _converted(values: Array, dtype: str) -> Array:
    if dtype != "bfloat16":
        return values.astype(dtype)
    kind, words = element_type(dtype), narrow(values, dtype)
    assert kind is not None and words is not None
    return kind.widen(words)


def _real(values: Array, target: np.dtype[Any]) -> Array:
    """The real parts of complex numbers for a real target: numpy would drop the imaginary ones with a warning."""
    return values.real if values.dtype.kind == "c" and target.kind != "c" else values


def _loss(before: Array, after: Array) -> Loss:
    finite = np.isfinite(before) & np.isfinite(after)
    return Loss(
        before.size,
        changed=int((~agree(before, after, 0.0)).sum()),
        to_inf=int((np.isfinite(before) & np.isinf(after)).sum()),
        to_zero=int(((after == 0) & (before != 0)).sum()),
        to_nan=int((np.isnan(after) & ~np.isnan(before)).sum()),
        linf=float(gaps(before, after).max(initial=0.0, where=finite)),
    )


def _added(total: Loss, more: Loss) -> Loss:
    return Loss(
        total.elements,
        total.changed + more.changed,
        total.to_inf + more.to_inf,
        total.to_zero + more.to_zero,
        total.to_nan + more.to_nan,
        max(total.linf, more.linf),
    )
