"""What a module remembers between calls: buffers, and tensors and plain values in its attributes."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

MAX_ENTRIES = 64
"""Entries of a container attribute that are looked at; longer ones are tables, not state."""

_MACHINERY = frozenset(vars(torch.nn.Module())) | {"forward", "_is_full_backward_hook"}
_ASSIGNED = re.compile(r"\.(\w+) = ")


def snapshot(module: torch.nn.Module) -> dict[str, Any]:
    """Return what a module remembers now, by dotted name; tensors are copies.

    Sees buffers, and attributes that hold tensors, numbers, bools, strings, None and containers of these; objects of
    other kinds (a cache class) are not seen.
    """
    state: dict[str, Any] = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    for path, inner in module.named_modules():
        for name, value in _attributes(inner):
            for key, leaf in _leaves(value, f"{path}.{name}" if path else name):
                state[key] = leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
    return state


def changed(before: Mapping[str, Any], module: torch.nn.Module) -> list[str]:
    """Return the names of everything that is no longer as it was, sorted."""
    after = snapshot(module)
    names = set(before) | set(after)
    missing = object()
    return sorted(name for name in names if not same_value(before.get(name, missing), after.get(name, missing)))


def restore(before: Mapping[str, Any], module: torch.nn.Module, names: Iterable[str]) -> bool:
    """Put a script's attributes back to a snapshot and say whether that was enough.

    A new copy of a script compiles again, which takes seconds; a module of another kind is cheaper to copy.
    """
    if not isinstance(module, torch.jit.ScriptModule):
        return False
    inner = dict(module.named_modules())
    for name in names:
        path, _, attribute = name.rpartition(".")
        owner = inner.get(path)
        if owner is None or name not in before or not owner._c.hasattr(attribute):
            return False
        value = before[name]
        owner._c.setattr(attribute, value.clone() if isinstance(value, torch.Tensor) else value)
    return not changed(before, module)


def _attributes(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    if isinstance(module, torch.jit.ScriptModule):
        yield from _script_attributes(module)
        return
    for name, value in vars(module).items():
        if name not in _MACHINERY:
            yield name, value


def _script_attributes(module: Any) -> Iterator[tuple[str, Any]]:
    """A script does not list its attributes; those that its own code assigns to are the ones that can change."""
    native = module._c
    names: set[str] = set()
    for method in native._method_names():
        names.update(_ASSIGNED.findall(native._get_method(method).code))
    for name in sorted(names):
        if native.hasattr(name):
            yield name, native.getattr(name)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
        if not isinstance(value, torch.nn.Parameter):
            yield name, value
    elif isinstance(value, Mapping) and len(value) <= MAX_ENTRIES:
        for key, inner in list(value.items()):
            yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, (list, tuple, deque)) and len(value) <= MAX_ENTRIES:
        yield f"{name}.length", len(value)
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{index}")


def same_value(a: Any, b: Any) -> bool:
    """Tell whether two values that a snapshot holds are the same, NaN included."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
            return False
        return bool(torch.equal(a, b)) or _same_with_nan(a, b)
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return False
    return type(a) is type(b) and (a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)))


def _same_with_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not (a.is_floating_point() or a.is_complex()):
        return False
    return bool(((a == b) | (a.isnan() & b.isnan())).all())
