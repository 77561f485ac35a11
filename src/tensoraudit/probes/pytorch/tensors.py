"""Torch tensors to references in the run folder, and back. Widens what numpy has no dtype for, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tensoraudit.probes.protocol import JobUnsupported, Session

Leaf = Any
"""A tensor, a Python number, a string, a bool or None: what is left when containers are taken apart."""

WIDENED = frozenset(
    name
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the common name of a dtype: `float32`, `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def to_array(tensor: torch.Tensor) -> tuple[np.ndarray[Any, Any], str | None]:
    """Return a tensor's values, and the name of its dtype when they had to be widened to float32.

    Raises JobUnsupported for layouts and dtypes that cannot be carried (nested, quantised).
    """
    name = dtype_name(tensor.dtype)
    if tensor.is_nested or tensor.is_quantized:
        raise JobUnsupported(f"a {'nested' if tensor.is_nested else name} tensor cannot be carried between processes")
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().cpu()
    logical = name if name in WIDENED else None
    if logical:
        plain = plain.to(torch.float32)
    try:
        return plain.contiguous().numpy(), logical
    except TypeError as problem:
        raise JobUnsupported(f"a tensor of dtype {name} cannot be carried between processes") from problem


def put(session: Session, tensor: torch.Tensor) -> dict[str, Any]:
    """Write a tensor to the run folder and return its reference."""
    array, logical = to_array(tensor)
    return session.put(array, logical)


def put_all(session: Session, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Write tensors by name."""
    return {name: put(session, tensor) for name, tensor in tensors.items()}


def get(session: Session, reference: Mapping[str, Any]) -> Leaf:
    """Return the leaf that a reference or a `{"value": ...}` stands for; a tensor is a copy of its own on the CPU."""
    if "value" in reference:
        return reference["value"]
    tensor = torch.from_numpy(np.array(session.get(dict(reference)), order="C"))
    logical = reference.get("logical")
    return tensor.to(getattr(torch, logical)) if logical in WIDENED else tensor


def to_leaf(value: Any) -> Leaf:
    """Return a leaf as torch takes it: arrays become tensors, numpy scalars Python numbers.

    Raises TypeError for anything that is no leaf.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value, order="C"))
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} is no tensor, array, number, string or None")


def describe_leaf(session: Session, leaf: Leaf) -> dict[str, Any]:
    """Return a leaf as jobs carry it: a reference, or `{"value": ...}`."""
    return put(session, leaf) if isinstance(leaf, torch.Tensor) else {"value": leaf}
