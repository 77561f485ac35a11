"""Variations of a sample: other sizes, edge values, one-ULP perturbations. A sample maps argument names to arrays.

Values that are no arrays (a Python number, None) pass through untouched.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array

Sample = Mapping[str, Any]

# Large and tiny values for edge samples: far outside what a model was trained on, yet their squares stay in range.
_EDGES = {"float16": (1e2, 1e-3), "float32": (1e4, 1e-6), "float64": (1e4, 1e-6)}


def resize_sample(
    sample: Sample, dims: Mapping[str, Mapping[Any, str]], sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """Return the sample with the dynamic dimensions `dims` (argument -> axis -> name) at other sizes.

    An argument whose shape does not change is returned as it is. Integers and bools are drawn from the sample's own
    values, so ids stay in their vocabulary; masks (all values 0 or 1) keep a one at the start of each row. Floats are
    normal with the sample's mean and standard deviation, clipped to its range, so that a domain (an image in [0, 1],
    the argument of a logarithm) is kept.

    Raises ValueError when an axis does not exist or an integer argument has no value to draw from.
    """
    return {
        name: _resized(name, value, dims[name], sizes, seed)
        if isinstance(value, np.ndarray) and name in dims
        else value
        for name, value in sample.items()
    }


def redraw_sample(sample: Sample, seed: int) -> dict[str, Any]:
    """Return the sample with other values at the same sizes, drawn as `resize_sample` draws them.

    Integers and bools keep their values: a shuffled mask or graph index could mean something else. Where an argument
    holds more than two different integers (token ids) it is drawn from these.
    """
    return {
        name: _redrawn(name, value, seed) if isinstance(value, np.ndarray) else value for name, value in sample.items()
    }


def _redrawn(name: str, value: Array, seed: int) -> Array:
    rng = _rng(seed, name)
    if value.dtype.kind == "f" and value.size:
        return np.asarray(_like_floats(value, list(value.shape), rng), value.dtype)
    if value.dtype.kind in "iu" and np.unique(value).size > 2:
        return np.asarray(rng.choice(value.reshape(-1), value.shape), value.dtype)
    return value


def _resized(name: str, value: Array, dims: Mapping[Any, str], sizes: Mapping[str, int], seed: int) -> Array:
    shape = list(value.shape)
    for axis, dim in dims.items():
        if not -value.ndim <= int(axis) < value.ndim:
            raise ValueError(f"argument {name!r} has {value.ndim} axes; there is no axis {axis} for dimension {dim!r}")
        shape[int(axis)] = sizes.get(dim, shape[int(axis)])
    if tuple(shape) == value.shape:
        return value
    if not value.size:
        if value.dtype.kind == "f":
            return np.zeros(shape, value.dtype)
        raise ValueError(f"argument {name!r} is empty in the sample: there are no values to draw from")
    rng = _rng(seed, name)
    drawn = _like_floats(value, shape, rng) if value.dtype.kind == "f" else rng.choice(value.reshape(-1), shape)
    if value.dtype.kind in "biu" and drawn.ndim and _is_mask(value):
        drawn[..., :1] = 1
    return np.asarray(drawn, value.dtype)


def _is_mask(value: Array) -> bool:
    return bool(((value == 0) | (value == 1)).all() and value.any())


def _like_floats(value: Array, shape: list[int], rng: np.random.Generator) -> Array:
    finite = value[np.isfinite(value)].astype(np.float64)
    if not finite.size:
        return np.zeros(shape)
    return np.clip(rng.normal(finite.mean(), finite.std(), shape), finite.min(), finite.max())


def _rng(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def edge_samples(sample: Sample) -> dict[str, dict[str, Any]]:
    """Return samples named zeros, large, tiny and negative; only float arguments change.

    `large` and `tiny` scale the sample to a largest magnitude of 1e4 and 1e-6 (float16: 1e2 and 1e-3), `negative` is
    -|x|.
    """
    makers: dict[str, Callable[[Array], Array]] = {
        "zeros": _zeros,
        "large": lambda x: _scaled(x, _EDGES[x.dtype.name][0]),
        "tiny": lambda x: _scaled(x, _EDGES[x.dtype.name][1]),
        "negative": lambda x: np.asarray(-np.abs(x), x.dtype),
    }
    return {edge: {name: make(v) if _is_float(v) else v for name, v in sample.items()} for edge, make in makers.items()}


def _zeros(value: Array) -> Array:
    return np.zeros_like(value)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in _EDGES


def _scaled(value: Array, magnitude: float) -> Array:
    largest = float(np.abs(value.astype(np.float64)).max(initial=0.0, where=np.isfinite(value)))
    scaled: Array = (value.astype(np.float64) * (magnitude / largest if largest > 0.0 else 1.0)).astype(value.dtype)
    return scaled


def perturb(sample: Sample, seed: int) -> dict[str, Any]:
    """Move every float element by one unit in the last place, up or down at random; integers and bools stay.

    Exact zeros, infinities and NaN stay too: a zero is exact in every format and mostly structural (padding, a mask),
    and its neighbours are subnormal numbers that hardware may flush or a logarithm blow up. The largest finite number
    only moves down.
    """
    return {name: _nudged(name, value, seed) if _is_float(value) else value for name, value in sample.items()}


def _nudged(name: str, value: Array, seed: int) -> Array:
    up = _rng(seed, name).integers(0, 2, value.shape, dtype=np.uint8).astype(bool)
    infinity = value.dtype.type(np.inf)
    with np.errstate(over="ignore", under="ignore"):
        moved = np.nextafter(value, np.where(up, infinity, -infinity))
    stays = (value == 0) | ~np.isfinite(value) | ~np.isfinite(moved)
    return np.where(stays, value, moved)
