"""Look into a traced function: operations that draw random numbers, and those that fall back to a narrow dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from tensoraudit.routes.source import Place, is_machinery, place

RANDOM = frozenset(("random_bits", "random_gamma", "rng_bit_generator", "rng_uniform", "threefry2x32"))
"""Primitives that make random numbers, of a key or of a hidden state."""

_EXACT = frozenset(
    (
        *(
            "broadcast_in_dim",
            "reshape",
            "transpose",
            "slice",
            "squeeze",
            "concatenate",
            "copy",
            "copy_p",
            "iota",
            "gather",
        ),
        *(
            "dynamic_slice",
            "rev",
            "pad",
            "split",
            "expand_dims",
            "device_put",
            "stop_gradient",
            "max",
            "min",
            "neg",
            "abs",
        ),
    )
)
"""Primitives that only move values, so that a narrow result loses nothing that its operands had."""


def operations(jaxpr: Any, callers: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every operation as the road to it: the calls and loops that it stands in, then itself."""
    for operation in jaxpr.eqns:
        road = (*callers, operation)
        inner = list(_inner(operation.params.values()))
        if not inner:
            yield road
        for each in inner:
            yield from operations(each, road)


def _inner(values: Any) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns"):
            yield value.jaxpr
        elif isinstance(value, (tuple, list)):
            yield from _inner(value)


def random_operations(jaxpr: Any) -> dict[str, Place | None]:
    """Return the names of operations that draw random numbers, each with the user's line."""
    found: dict[str, Place | None] = {}
    for road in operations(jaxpr):
        if road[-1].primitive.name in RANDOM:
            found.setdefault(road[-1].primitive.name, source_of(road))
    return found


def narrow_operations(jaxpr: Any) -> dict[str, Place | None]:
    """Return the operations of a function traced in double precision that compute in less, with the user's line."""
    found: dict[str, Place | None] = {}
    for road in operations(jaxpr):
        operation, name = road[-1], road[-1].primitive.name
        dtypes = [each.aval.dtype for each in operation.outvars if _is_narrow(each)]
        if dtypes and name not in _EXACT and not (name == "convert_element_type" and _gains(operation)):
            found.setdefault(f"{name} gives {dtypes[0]}", source_of(road))
    return found


def _is_narrow(variable: Any) -> bool:
    dtype = getattr(variable.aval, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 64


def _gains(operation: Any) -> bool:
    """Whether a cast loses nothing: from a narrower float, or from bool."""
    before, after = operation.invars[0].aval.dtype, operation.outvars[0].aval.dtype
    floating = jax.dtypes.issubdtype(before, jnp.floating)
    return before.kind == "b" or bool(floating and jnp.finfo(before).bits <= jnp.finfo(after).bits)


def source_of(road: tuple[Any, ...]) -> Place | None:
    """Return the user's line nearest to an operation: JAX's own functions are traced once, wherever they are called."""
    for operation in reversed(road):
        trace = getattr(operation.source_info, "traceback", None)
        for frame in getattr(trace, "frames", ()):
            if not is_machinery(frame.file_name):
                return place(frame.file_name, frame.line_num)
    return None
