"""Any value as JSON can hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from tensoraudit.facts import Unknown


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; mappings sorted by key, sets sorted, what is not known as its reason."""
    if value is None or (isinstance(value, bool | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
    for kind, convert in _CONVERT.items():
        if isinstance(value, kind):
            return convert(value)
    return str(value)


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): plain(item) for key, item in sorted(value.items(), key=lambda entry: str(entry[0]))}


_CONVERT: dict[Any, Any] = {
    Enum: lambda value: plain(value.value),
    str: str,
    Mapping: _mapping,
    list | tuple: lambda value: [plain(item) for item in value],
    set | frozenset: lambda value: sorted((plain(item) for item in value), key=str),
    np.generic: lambda value: plain(value.item()),
    np.ndarray: lambda value: plain(value.tolist()),
    PurePath: lambda value: value.as_posix(),
    Unknown: lambda value: {"unknown": value.reason},
}
"""How each kind of value is written; the first kind that fits."""
