"""What a caller expects of a tensor: read from whatever states it (specs, shapes, arrays, another checkpoint).

Imports no framework: a tensor of torch or TensorFlow is asked for its `shape` and `dtype`, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensoraudit.checkpoints.read import read_checkpoint
from tensoraudit.checkpoints.schema import Entry
from tensoraudit.errors import InputError, did_you_mean

CASTS: Final = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
    )
)
"""Dtypes that values can be cast to."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor as the caller wants it. What is None is not checked.

    `shape` and `dtype` (`"float32"`, `"bfloat16"`...) are those of the result. `stored` is its name in the checkpoint,
    where that is another. `permutation` are the axes as `numpy.transpose` takes them: of `HWIO` to `OIHW` it is
    (3, 2, 0, 1). `cast` converts what is stored in another dtype; without it that is a mismatch. `also` are further
    names of the same tensor, a tied weight, under any of which it may be stored.
    """

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    stored: str | None = None
    permutation: tuple[int, ...] | None = None
    cast: bool = False
    also: tuple[str, ...] = ()


_KEYS: Final = tuple(each.name for each in fields(TensorSpec))


def read_schema(schema: Any) -> dict[str, TensorSpec]:
    """Return the specs of a schema: a mapping of names, or the path of a checkpoint to be like.

    A value may be a TensorSpec, a mapping of its fields, a shape, None (only the name is asked for), or anything with
    `shape` and `dtype`. Raises InputError for what is none of these.
    """
    if isinstance(schema, str | os.PathLike):
        return _specs_of(own_names(read_checkpoint(Path(schema)).entries))
    if not isinstance(schema, Mapping):
        raise InputError(
            f"a {type(schema).__name__} is no schema", where="schema", remedy="Give {name: shape} or a checkpoint."
        )
    return {str(name): _checked(str(name), _spec(str(name), value)) for name, value in schema.items()}


def _specs_of(entries: Mapping[str, Entry]) -> dict[str, TensorSpec]:
    tied: dict[str, list[str]] = {}
    for name, entry in entries.items():
        tied.setdefault(entry.owner, []).append(name)
    others = {name: tuple(each for each in names if each != name) for names in tied.values() for name in names}
    return {name: TensorSpec(entry.shape, entry.dtype, also=others[name]) for name, entry in entries.items()}


def own_names(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the model's tensors under the names that the model has for them.

    Those are the names without the keys that lead to the weights, where these tell no two tensors apart. A checkpoint
    without weights of a model gives all of its tensors.
    """
    known = tuple(entries)
    chosen = [entry for entry in known if entry.group == "model"] or list(known)
    short = {entry.name: entry for entry in chosen}
    return short if len(short) == len(chosen) else {entry.full_name: entry for entry in chosen}


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of any framework: `float32` for `torch.float32`, `np.float32` and `tf.float32`."""
    if isinstance(dtype, str):
        return dtype.removeprefix("torch.")
    if isinstance(dtype, type):  # np.float32, jnp.bfloat16
        return str(getattr(np.dtype(dtype), "name", dtype.__name__))
    return str(getattr(dtype, "name", None) or dtype).removeprefix("torch.")


def _spec(name: str, value: Any) -> TensorSpec:
    if value is None or isinstance(value, TensorSpec):
        return value or TensorSpec()
    if isinstance(value, Mapping):
        return _from_fields(name, value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return TensorSpec(_shape(name, value.shape), dtype_name(value.dtype))
    return TensorSpec(_shape(name, value))


def _from_fields(name: str, given: Mapping[str, Any]) -> TensorSpec:
    for key in given:
        if key not in _KEYS:
            raise _wrong(name, f"{key!r} is no field", f"{did_you_mean(str(key), _KEYS)}Use {', '.join(_KEYS)}.")
    return TensorSpec(**given)


def _checked(name: str, spec: TensorSpec) -> TensorSpec:
    """The spec with plain values, so that they compare with those of headers."""
    permutation = None if spec.permutation is None else _shape(name, spec.permutation)
    if permutation is not None and sorted(permutation) != list(range(len(permutation))):
        raise _wrong(name, f"{permutation} is no permutation of axes", "Write each axis once, as in (3, 2, 0, 1).")
    dtype = None if spec.dtype is None else dtype_name(spec.dtype)
    if spec.cast and dtype not in CASTS:
        told = "a cast needs a dtype" if dtype is None else f"nothing can be cast to {dtype} here"
        raise _wrong(name, told, f"Use one of {', '.join(sorted(CASTS))}.")
    return TensorSpec(
        None if spec.shape is None else _shape(name, spec.shape),
        dtype,
        spec.stored,
        permutation,
        bool(spec.cast),
        tuple(map(str, spec.also)),
    )


def _shape(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _wrong(name, f"{value!r} is no shape", "Write a tuple of sizes, as in (64, 3, 7, 7).")
    try:
        return tuple(int(size) for size in value)
    except (TypeError, ValueError):
        raise _wrong(name, f"{value!r} is no shape", "Write a tuple of sizes, as in (64, 3, 7, 7).") from None


def _wrong(name: str, what: str, remedy: str) -> InputError:
    return InputError(what, where=f"schema[{name!r}]", remedy=remedy)
