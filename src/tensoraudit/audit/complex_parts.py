"""Complex numbers as pairs of real ones along a further last axis, as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_PARTS = {"complex64": "float32", "complex128": "float64"}


def parts_of(array: Any) -> Any:
    """Return complex numbers as such pairs, anything else as it is."""
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def parts_reference(reference: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reference of a tensor file that reads complex numbers as such pairs: the bytes are the same."""
    part = _PARTS.get(str(reference.get("dtype")))
    return reference if part is None else {**reference, "dtype": part, "shape": [*reference["shape"], 2]}


def is_complex(reference: Mapping[str, Any]) -> bool:
    """Whether a tensor file holds complex numbers."""
    return reference.get("dtype") in _PARTS
