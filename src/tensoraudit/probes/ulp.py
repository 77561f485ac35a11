"""Move numbers by one unit in the last place (ULP), up or down at random. Shared by the workers: Python 3.9, numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_BITS: dict[int, Any] = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
_SIGN: dict[int, Any] = {2: np.int16(-(2**15)), 4: np.int32(-(2**31)), 8: np.int64(-(2**63))}
_PARTS: dict[str, Any] = {"complex64": np.dtype(np.float32), "complex128": np.dtype(np.float64)}
_NAMES = frozenset(("bfloat16",))
"""Floating dtypes of ml_dtypes whose kind numpy calls `V`."""


def perturb(leaves: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], list[str]]:
    """Return the leaves with every floating array moved, and the names of those that moved.

    Integers stay, and so do arrays that hold only 0 and 1: they are masks, and code compares them.
    """
    draws = np.random.default_rng(seed)
    moved = {
        name: move(leaf, draws)
        for name, leaf in leaves.items()
        if isinstance(leaf, np.ndarray) and _moves(leaf) and not ((leaf == 0) | (leaf == 1)).all()
    }
    return {**leaves, **moved}, list(moved)


def _moves(array: Any) -> bool:
    return is_floating(array) or array.dtype.name in _PARTS


def is_floating(array: Any) -> bool:
    """Whether an array holds floating numbers of a format that can be moved."""
    return (array.dtype.kind == "f" or array.dtype.name in _NAMES) and array.dtype.itemsize in _BITS


def move(array: Any, draws: np.random.Generator) -> Any:
    """Return an array whose elements are each one ULP up or down, of a complex number both parts.

    IEEE formats order their bit patterns like their values, so one ULP is one step of the integer with the same bits.
    Zeros stay (their neighbours are denormal), and so do infinities, NaN and the largest finite number.
    """
    if array.dtype.name in _PARTS:
        parts = np.ascontiguousarray(array).reshape(-1).view(_PARTS[array.dtype.name])
        return move(parts, draws).view(array.dtype).reshape(array.shape)
    bits = _BITS[array.dtype.itemsize]
    values = np.ascontiguousarray(array).reshape(-1).view(bits)
    largest = _largest(array.dtype).view(bits)[0]
    magnitude = values & ~_SIGN[array.dtype.itemsize]
    signs = np.unpackbits(np.frombuffer(draws.bytes((values.size + 7) // 8), np.uint8), count=values.size)
    steps = signs.view(np.int8) * np.int8(2) - np.int8(1)
    steps[(magnitude == 0) | (magnitude >= largest)] = 0
    return (values + steps).astype(bits).view(array.dtype).reshape(array.shape)


def _largest(dtype: Any) -> Any:
    if dtype.name in _NAMES:  # 0x7f7f: all bits of the exponent but the last, all of the mantissa
        return np.array([0x7F7F], np.int16).view(dtype)
    return np.array([np.finfo(dtype).max], dtype)
