"""Arrays in bfloat16, of which NumPy has no twin: float32 arrays that hold only its values, and know that they do.

Shared by both sides: Python 3.9, numpy only. It must not know references or samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BFLOAT16 = "bfloat16"
_LARGEST, _INFINITY, _MAGNITUDE = 0x7F7F, 0x7F80, 0x7FFF
_HALF = np.uint32(0x7FFF)
_KEPT = np.uint32(0xFFFF0000)


class Bfloat16(np.ndarray):
    """A float32 array that stands for one in bfloat16; its views do so too.

    Results of arithmetic are of this class as well, though bfloat16 may not hold them: whoever writes one rounds it.
    """


def is_bfloat16(value: Any) -> bool:
    """Whether a value is an array that stands for one in bfloat16."""
    return isinstance(value, Bfloat16) and value.dtype == np.float32


def bfloat16(values: Any) -> Bfloat16:
    """Return numbers in bfloat16: the nearest that it has, of two that are as near the even one."""
    wide = np.array(values, np.float32, order="C")
    bits = wide.view(np.uint32) if wide.ndim else wide.reshape(1).view(np.uint32).reshape(())
    nearest = np.asarray((bits + (_HALF + ((bits >> np.uint32(16)) & np.uint32(1)))) & _KEPT, np.uint32)
    # Rounding the bits of a NaN could carry it into another number.
    return np.where(np.isnan(wide), wide, nearest.view(np.float32)).view(Bfloat16)


def stepped(values: Any, toward: Any) -> Bfloat16:
    """Return values of bfloat16, each moved by one of its own units in the last place (ULP) toward another number.

    Zeros stay, and so do infinities, NaN, what is at its goal, and the largest finite number if it would overflow.
    """
    wide = np.array(values, np.float32, order="C").reshape(-1)
    up = np.sign(np.where(np.isfinite(wide), np.asarray(toward).reshape(-1), 0) - wide) * np.sign(wide)
    bits = (wide.view(np.uint32) >> np.uint32(16)).astype(np.int32)
    magnitude = bits & _MAGNITUDE
    stays = (magnitude == 0) | (magnitude >= _INFINITY) | ((magnitude == _LARGEST) & (up > 0))
    moved = bits + np.where(stays, 0, np.nan_to_num(up)).astype(np.int32)
    narrow = (moved.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return narrow.reshape(np.shape(values)).view(Bfloat16)
