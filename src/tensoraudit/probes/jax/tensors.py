"""JAX arrays to references in the run folder, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import dtypes

from tensoraudit.probes.protocol import JobFailed, Session

Leaf = Any
"""A numpy array, a Python number, a string, a bool or None: what is left when containers are taken apart."""


def is_array(value: Any) -> bool:
    """Whether a leaf is traced; numbers, strings and None are Python's, and fixed when the function is traced."""
    return isinstance(value, (np.ndarray, jax.Array))


def is_key(value: Any) -> bool:
    """Whether an array holds random keys, which have no numpy dtype."""
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def dtype_name(value: Any) -> str:
    """Return the common name of an array's dtype: `float32`, `bfloat16`, `key<fry>`."""
    return str(value.dtype)


def put_all(session: Session, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Write arrays by name."""
    return {name: session.put(numbers_of(array)) for name, array in arrays.items()}


def numbers_of(array: Any) -> np.ndarray[Any, Any]:
    """Return an array as numpy's; a random key as the integers that it is made of."""
    return np.asarray(jax.random.key_data(array) if is_key(array) else array)


def get(session: Session, reference: Mapping[str, Any]) -> Leaf:
    """Return the leaf that a reference or a `{"value": ...}` stands for; an array is a copy of its own."""
    if "value" in reference:
        return reference["value"]
    array = np.array(session.get(dict(reference)), order="C")
    logical = reference.get("logical")
    return array.astype(np.dtype(logical)) if logical else array


def to_leaf(value: Any) -> Leaf:
    """Return a leaf as samples hold it: arrays become numpy's, numpy scalars Python numbers.

    Raises TypeError for anything that is no leaf.
    """
    if is_key(value):
        raise TypeError("a random key cannot be given as an input: make it inside the function, from an integer")
    if isinstance(value, (np.ndarray, jax.Array)):
        return np.array(value, order="C")
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} is no array, number, string or None")


def describe_leaf(session: Session, leaf: Leaf) -> dict[str, Any]:
    """Return a leaf as jobs carry it: a reference, or `{"value": ...}`."""
    return session.put(leaf) if is_array(leaf) else {"value": leaf}


def taken(name: str, leaf: Leaf) -> Leaf:
    """Return an input as JAX takes it: with 64-bit types off, int64 becomes int32 and float64 float32.

    Raises JobFailed for integers that do not fit: JAX would wrap them without a word.
    """
    if not is_array(leaf):
        return leaf
    dtype = np.dtype(dtypes.canonicalize_dtype(leaf.dtype))
    if dtype == leaf.dtype:
        return leaf
    if dtype.kind in "iu" and leaf.size:
        limits, low, high = np.iinfo(dtype), leaf.min(), leaf.max()
        if low < limits.min or high > limits.max:
            raise JobFailed(
                f"{name} is {leaf.dtype} and holds {high if high > limits.max else low}, which {dtype} cannot hold; "
                "64-bit types are off in JAX, so it would become another number",
                remedy="Call jax.config.update('jax_enable_x64', True) before the model is made, or give smaller ones.",
            )
    return leaf.astype(dtype)


def canonical() -> dict[str, str]:
    """Return what JAX makes of 64-bit inputs now: {"int64": "int32", ...}; nothing when 64-bit types are on."""
    wide = ("int64", "uint64", "float64", "complex128")
    found = {name: np.dtype(dtypes.canonicalize_dtype(np.dtype(name))).name for name in wide}
    return {name: narrow for name, narrow in found.items() if narrow != name}
