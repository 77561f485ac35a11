"""Call a reference as often as needed: compiled by jit, or operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from tensoraudit.probes.calls import Signature
from tensoraudit.probes.jax.devices import seed_everything
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.tensors import is_array
from tensoraudit.probes.protocol import JobError, JobFailed, remedy_of
from tensoraudit.routes.source import error_place

MAX_MESSAGE = 2000
ROOT = "output"

NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.UnexpectedTracerError,
)
"""What JAX raises when Python looks at a value that is not known while a function is traced."""

Apply = Callable[..., Any]


class Subject:
    """A reference that was traced once per set of shapes; what it reads outside of its arguments is frozen there.

    With `jit` off every operation runs by itself, and the function's Python runs at every call.
    """

    def __init__(self, apply: Apply, parameters: Any, signature: Signature, *, jit: bool = True) -> None:
        self.parameters = parameters
        self._apply, self._signature, self._jit = apply, signature, jit
        self._compiled: dict[str, Any] = {}

    def call(self, leaves: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Run once on flat leaves and return the named outputs as JAX arrays. Raises whatever the model raises."""
        seed_everything(seed)
        function, arrays = self.function(leaves)
        result = function(self.parameters, arrays)
        return name_outputs(jax.block_until_ready(result))

    def function(self, leaves: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the function of (parameters, arrays by name), and the arrays among the leaves.

        Numbers, strings and None stay Python's values: they belong to the function.
        """
        arrays = {name: leaf for name, leaf in leaves.items() if is_array(leaf)}
        fixed = {name: leaf for name, leaf in leaves.items() if name not in arrays}
        key = repr(fixed)
        if key not in self._compiled:

            def compute(parameters: Any, given: Mapping[str, Any]) -> Any:
                bound = self._signature.bind({**fixed, **given})
                return self._apply(parameters, *bound.args, **bound.kwargs)

            self._compiled[key] = jax.jit(compute) if self._jit else _eager(compute)
        return self._compiled[key], arrays


def _eager(compute: Apply) -> Apply:
    """JAX arrays go in, as they do under jit: numpy's own arithmetic follows other rules of promotion."""
    return lambda parameters, given: compute(parameters, {name: jnp.asarray(array) for name, array in given.items()})


def name_outputs(value: Any) -> dict[str, Any]:
    """Return the arrays of a result by name: `output` for one array, `output.0`, `output.logits` in containers.

    Raises JobFailed when there is no array at all.
    """
    found = {name: jnp.asarray(leaf) for name, leaf in named_leaves(value, ROOT, ".").items()}
    if not found:
        raise JobFailed(
            f"the model returns a {type(value).__name__} without any array, so there is nothing to compare",
            remedy="Return arrays, alone or in tuples, lists, dicts or other pytrees.",
        )
    return found


def forward_error(problem: Exception) -> dict[str, Any]:
    """Return an exception of the model as data: type, message, and the user's line."""
    message = problem.message if isinstance(problem, JobError) else str(problem)
    kind = "ValueError" if isinstance(problem, JobFailed) else type(problem).__name__
    return {"type": kind, "message": _readable(message), "source": error_place(problem), **remedy_of(problem)}


def _readable(message: str) -> str:
    """JAX and Flax add pages and links to their messages; the first paragraph says it."""
    return message.strip().split("\n\n", maxsplit=1)[0][:MAX_MESSAGE]
