"""Evaluate a traced function in double precision: the same operations, constants and random numbers, wider floats.

Turning 64-bit types on and tracing anew is not enough: code casts (`astype`, Flax's `dtype=`), and random numbers of
another width are other numbers. So the trace itself is run again, operation by operation, and every narrower float in
its constants, literals and parameters becomes float64 (complex64: complex128). Needs 64-bit types on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tensoraudit.probes.jax.tensors import is_key

Values = list[Any]

CALLS = frozenset(
    (
        *("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    )
)
"""Operations that only run an inner function; what they say of its derivative does not matter here."""


class NotAnOracle(Exception):  # noqa: N818 - a state of knowledge, not a fault
    """Double precision would not mean the same here, or is not kept; the text says why."""


def evaluate(closed: Any, arguments: Sequence[Any]) -> Values:
    """Run a closed jaxpr on flat arguments in double precision and return its flat results.

    Raises NotAnOracle for operations that look at bits or hold a function of their own, and whatever JAX raises.
    """
    return _run(closed, [widened(each) for each in arguments])


def widened(value: Any) -> Any:
    """Return floats as float64, complex numbers as complex128, anything else as it is."""
    if is_key(value) or not hasattr(value, "dtype"):
        return value
    dtype = _wide(value.dtype)
    return value if dtype == value.dtype else value.astype(dtype)


def _wide(dtype: Any) -> Any:
    if jax.dtypes.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if jax.dtypes.issubdtype(dtype, jnp.complexfloating) else dtype


def _run(function: Any, arguments: Values) -> Values:
    jaxpr, constants = (function.jaxpr, function.consts) if hasattr(function, "consts") else (function, ())
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(widened, constants)))  # noqa: B905 - Python 3.9
    known.update(zip(jaxpr.invars, arguments))  # noqa: B905

    def read(variable: Any) -> Any:
        return widened(np.asarray(variable.val, variable.aval.dtype)) if hasattr(variable, "val") else known[variable]

    for operation in jaxpr.eqns:
        results = run_widened(operation, [read(each) for each in operation.invars])
        known.update(zip(operation.outvars, results))  # noqa: B905
    return [read(each) for each in jaxpr.outvars]


def called(parameters: Any) -> Any:
    """Return the inner function of an operation that is one of CALLS."""
    return next(parameters[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in parameters)


def run_widened(operation: Any, values: Values) -> Values:
    """Run one operation of a jaxpr on widened values and return its widened results. Raises like `evaluate`."""
    name, parameters = operation.primitive.name, operation.params
    if name in CALLS:
        return _run(called(parameters), values)
    if name in _CONTROL:
        return _CONTROL[name](parameters, values)
    if any(hasattr(each, "eqns") or hasattr(each, "jaxpr") for each in parameters.values()):
        raise NotAnOracle(f"{name} holds a function of its own")
    if name == "bitcast_convert_type":
        return _bits(operation, values)
    wide = {key: _wide(each) if isinstance(each, np.dtype) else each for key, each in parameters.items()}
    found = operation.primitive.bind(*values, **wide)
    results = list(found) if operation.primitive.multiple_results else [found]
    narrow = [each.dtype for each in results if not is_key(each) and _wide(each.dtype) != each.dtype]
    if narrow:
        raise NotAnOracle(f"{name} gives {narrow[0]}")
    return results


def _bits(operation: Any, values: Values) -> Values:
    """Integers that become a float of the same bits (random numbers are made so) keep their value; the other way there
    is no float of these bits any more."""
    if jax.dtypes.issubdtype(values[0].dtype, jnp.inexact):
        raise NotAnOracle("the model looks at the bits of a float")
    return [widened(operation.primitive.bind(*values, **operation.params))]


def _precision(parameters: Any, values: Values) -> Values:
    """`reduce_precision` rounds on purpose, to the width that the oracle does without."""
    return values


def _scan(parameters: Any, values: Values) -> Values:
    constants, carried = parameters["num_consts"], parameters["num_carry"]
    fixed, start, rows = values[:constants], values[constants : constants + carried], values[constants + carried :]

    def step(state: Values, row: Values) -> tuple[Values, Values]:
        results = _run(parameters["jaxpr"], [*fixed, *state, *row])
        return results[:carried], results[carried:]

    end, stacked = lax.scan(step, start, rows, length=parameters["length"], reverse=parameters["reverse"])
    return [*end, *stacked]


def _while(parameters: Any, values: Values) -> Values:
    first, second = parameters["cond_nconsts"], parameters["body_nconsts"]
    asking, doing, start = values[:first], values[first : first + second], values[first + second :]
    return list(
        lax.while_loop(
            lambda state: _run(parameters["cond_jaxpr"], [*asking, *state])[0],
            lambda state: _run(parameters["body_jaxpr"], [*doing, *state]),
            start,
        )
    )


def _cond(parameters: Any, values: Values) -> Values:
    def branch(function: Any) -> Callable[..., Values]:
        return lambda *operands: _run(function, list(operands))

    return list(lax.switch(values[0], [branch(each) for each in parameters["branches"]], *values[1:]))


def _scatter(again: Callable[..., Any]) -> Callable[[Any, Values], Values]:
    """Scatter holds the function that combines two numbers, of the narrow type: it is made anew."""

    def run(parameters: Any, values: Values) -> Values:
        inner = parameters["update_jaxpr"]
        if again is lax.scatter and inner is not None:  # `x.at[i].apply(f)`
            raise NotAnOracle("scatter holds a function of its own")
        kept = {key: parameters[key] for key in ("indices_are_sorted", "unique_indices", "mode")}
        return [again(*values, parameters["dimension_numbers"], **kept)]

    return run


_CONTROL: dict[str, Callable[[Any, Values], Values]] = {
    "reduce_precision": _precision,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "scatter": _scatter(lax.scatter),
    "scatter-add": _scatter(lax.scatter_add),
    "scatter-mul": _scatter(lax.scatter_mul),
    "scatter-min": _scatter(lax.scatter_min),
    "scatter-max": _scatter(lax.scatter_max),
}
if hasattr(lax, "scatter_sub"):  # JAX before 0.5 adds the negative
    _CONTROL["scatter-sub"] = _scatter(lax.scatter_sub)
