"""State as trees of plain values: copies of them, and what differs between two.

Shared by the workers: Python 3.9. A framework's own arrays are made numpy's by its `array` function first.
"""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

import numpy as np

Array = Callable[[Any], Optional["np.ndarray[Any, Any]"]]
"""Turns a framework's array into numpy's; None for what is none of its arrays."""

TABLE = 10_000
"""Entries of a container beyond which it is data and no state."""
LARGE = 256 << 20
"""Bytes of an array in a plain value beyond which it is data and no state."""
_DEPTH = 16

_SCALARS = (type(None), bool, int, float, complex, str, bytes)


def is_value(value: Any, array: Array, depth: int = 0) -> bool:
    """Tell whether a value is plain: numbers, texts, arrays, and containers of these of no great size."""
    if isinstance(value, (_SCALARS, np.generic)):
        return True
    found = array(value)
    if found is not None:
        return bool(found.nbytes <= LARGE and found.dtype != object)
    if not isinstance(value, (Mapping, list, tuple, deque, set, frozenset)) or len(value) > TABLE or depth > _DEPTH:
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return all(is_value(each, array, depth + 1) for each in inner)


def copied(value: Any, clone: Callable[[Any], Any]) -> Any:
    """Return a copy of a plain value; `clone` copies a framework's array, and returns None for anything else."""
    array = clone(value)
    if array is not None:
        return array
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(copied(each, clone) for each in value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(copied(each, clone) for each in value)
    if isinstance(value, deque):
        return deque((copied(each, clone) for each in value), value.maxlen)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, copied(each, clone)) for key, each in value.items())
    return copy.deepcopy(value)


def put_in_place(old: Any, new: Any) -> bool:
    """Give a container its former contents, so that all who hold it see them; False for what cannot be changed."""
    if isinstance(old, (dict, OrderedDict)) and isinstance(new, Mapping):
        old.clear()
        old.update(new)
    elif isinstance(old, list) and isinstance(new, list):
        old[:] = new
    elif isinstance(old, (deque, set)) and type(new) is type(old):
        old.clear()
        old.extend(new) if isinstance(old, deque) else old.update(new)
    elif isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and _same_form(old, new) and old.flags.writeable:
        old[...] = new
    else:
        return False
    return True


def differences(before: Any, after: Any, array: Array, name: str = "") -> Iterator[str]:
    """Yield a clause for each leaf that differs, with its path; values equal in every bit do not differ."""
    a, b = array(before), array(after)
    if a is not None and b is not None:
        if not _same_array(a, b):
            yield f"{name or 'value'}: {_arrays(a, b)}"
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_mappings(before, after, array, name)
    elif isinstance(before, (list, tuple, deque)) and isinstance(after, (list, tuple, deque)):
        if len(before) != len(after):
            yield f"{name or 'value'}: {len(before)} entries, then {len(after)}"
            return
        for index, (one, two) in enumerate(zip(before, after)):  # noqa: B905 - Python 3.9
            yield from differences(one, two, array, f"{name}.{index}" if name else str(index))
    elif not _same_scalar(a if a is not None else before, b if b is not None else after):
        yield f"{name or 'value'}: {_shown(before)}, then {_shown(after)}"


def digest(value: Any, array: Array) -> str:
    """Return a text that is equal for equal values."""
    found = hashlib.sha256()
    for part in _bytes(value, array):
        found.update(part)
    return found.hexdigest()


def _of_mappings(before: Mapping[Any, Any], after: Mapping[Any, Any], array: Array, name: str) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        path = f"{name}.{key}" if name else str(key)
        if key not in after:
            yield f"{path} is missing"
        elif key not in before:
            yield f"{path} is new"
        else:
            yield from differences(before[key], after[key], array, path)


def _bytes(value: Any, array: Array) -> Iterator[bytes]:
    found = array(value)
    if found is not None:
        yield f"{found.dtype.str}{found.shape}".encode()
        yield np.ascontiguousarray(found).tobytes()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            yield repr(key).encode()
            yield from _bytes(value[key], array)
    elif isinstance(value, (list, tuple, deque)):
        yield f"[{len(value)}]".encode()
        for each in value:
            yield from _bytes(each, array)
    elif isinstance(value, (set, frozenset)):
        yield repr(sorted(map(repr, value))).encode()
    else:
        yield _other(value)


def _other(value: Any) -> bytes:
    """Anything else: what it says of itself may hold an address, which is another one in every process."""
    if isinstance(value, (*_SCALARS, np.generic)):
        return repr(value).encode()
    try:
        return pickle.dumps(value)
    except Exception:  # anybody's __reduce__
        return type(value).__qualname__.encode()


def _same_form(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def _same_array(a: Any, b: Any) -> bool:
    return _same_form(a, b) and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _same_scalar(a: Any, b: Any) -> bool:
    a, b = _number(a), _number(b)
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    try:
        return bool(a == b) or pickle.dumps(a) == pickle.dumps(b)
    except Exception:  # anybody's __eq__ or __reduce__: nothing says that they are equal
        return False


def _number(value: Any) -> Any:
    """A number, whether it stands in an array or not: 3 and tensor(3) do the same."""
    single = isinstance(value, (np.ndarray, np.generic)) and value.size == 1 and value.dtype.kind in "biufc"
    return value.item() if single else value


def _arrays(a: Any, b: Any) -> str:
    if not _same_form(a, b):
        return f"{a.dtype}{list(a.shape)}, then {b.dtype}{list(b.shape)}"
    if a.size == 1:
        return f"{_shown(a.item())}, then {_shown(b.item())}"
    apart = int((a != b).sum())
    return f"{apart} of {a.size} elements differ"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
