"""In which order of axes two tensors agree most, where they agree wholly in none: a kernel of another layout in which
one element was changed differs by that element, and not by all that its axes moved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array, ElementType
from tensoraudit.checkpoints.rearrangements import Order, sampled

_LEAST: Final = 0.5
"""The share of a sample that must agree: of two unrelated tensors next to nothing does."""


def likely_order(
    views: tuple[Array, Array], types: tuple[ElementType, ElementType], orders: Iterable[Order]
) -> Order | None:
    """Return the order of axes in which at least half of a sample of elements is equal on both sides up to rounding,
    and more than in any other; None where there is none."""
    shares = {order: _share(ours, theirs) for order, ours, theirs in sampled(views, types, orders)}
    best = max(shares, key=lambda order: shares[order], default=None)
    return best if best is not None and shares[best] >= _LEAST else None


def _share(ours: Array, theirs: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.isclose(ours, theirs, rtol=2**-7, atol=0, equal_nan=True).mean())
