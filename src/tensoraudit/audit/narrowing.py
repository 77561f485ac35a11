"""Give both sides the inputs that a reference really computes with, where its framework takes narrower dtypes.

JAX without 64-bit types makes int32 of int64 before the model sees it; an exported file then wants int32 as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensoraudit.errors import InputError

Arrays = Mapping[str, Any]


def narrow(samples: Sequence[Arrays], dtypes: Mapping[str, str]) -> tuple[list[Arrays], list[str]]:
    """Return the samples with every array of a dtype among the keys of `dtypes` cast to its value, and a note on each
    argument that was cast. Raises InputError for integers that do not fit."""
    touched = {
        name: (array.dtype.name, dtypes[array.dtype.name])
        for sample in samples
        for name, array in sample.items()
        if isinstance(array, np.ndarray) and array.dtype.name in dtypes
    }
    cast: list[Arrays] = [{name: _cast(name, value, dtypes) for name, value in sample.items()} for sample in samples]
    return cast, [
        f"{name} is {wide}, which JAX takes as {slim} while its 64-bit types are off: both sides got {slim}. "
        "jax.config.update('jax_enable_x64', True) before the model is made keeps it"
        for name, (wide, slim) in touched.items()
    ]


def _cast(name: str, value: Any, dtypes: Mapping[str, str]) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.name not in dtypes:
        return value
    dtype = np.dtype(dtypes[value.dtype.name])
    if dtype.kind in "iu" and value.size:
        limits = np.iinfo(dtype)
        worst = value.max() if value.max() > limits.max else value.min()
        if not limits.min <= worst <= limits.max:
            raise InputError(
                f"input {name} holds {worst}, which {dtype} cannot hold; JAX's 64-bit types are off, so the model "
                "would compute with another number",
                where=name,
                remedy="Call jax.config.update('jax_enable_x64', True) before the model is made, or give smaller ones.",
            )
    return value.astype(dtype)
