"""Differentiate a JAX model: trace it once per set of shapes, then run forward and backward as one function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensoraudit.probes.jax.devices import seed_everything
from tensoraudit.probes.jax.forward import Subject, name_outputs
from tensoraudit.probes.jax.loaded import PARAMETERS, Loaded, is_plain
from tensoraudit.probes.jax.tensors import is_array
from tensoraudit.probes.projection import INPUT, PARAMETER, weights_of


def trained_places(loaded: Loaded) -> dict[str, int]:
    """Return where the trained floating parameters stand among the flat leaves of all parameters, by gradient name.

    A leaf is known by its identity; an array that stands in two places of the tree is two parameters to JAX.
    """
    leaves = jax.tree_util.tree_leaves(loaded.parameters)
    free: dict[int, list[int]] = {}
    for place, leaf in enumerate(leaves):
        free.setdefault(id(leaf), []).append(place)
    found: dict[str, int] = {}
    for group in sorted(loaded.collections):
        for name, leaf in loaded.collections[group].items():
            places = free.get(id(leaf)) or [-1]
            place = places.pop(0)
            if group == PARAMETERS and place >= 0 and differentiates(leaf):
                found[PARAMETER + name] = place
    return found


def differentiates(leaf: Any) -> bool:
    """Whether a leaf is an array that can have a gradient."""
    return is_array(leaf) and is_plain(leaf) and jax.dtypes.issubdtype(leaf.dtype, jnp.inexact)


class Derivative:
    """The scalar of a model on inputs like `leaves`, and its gradients, traced and compiled once.

    Arguments are always (sources, rest): `sources` the arrays to differentiate for by gradient name, `rest` all others.
    """

    def __init__(self, subject: Subject, places: Mapping[str, int], leaves: Mapping[str, Any], *, jit: bool) -> None:
        self._places = places
        self._tree = jax.tree_util.tree_structure(subject.parameters)
        self._function, self._arrays = subject.function(leaves)
        self.both = jax.value_and_grad(self.scalar)
        self._run = jax.jit(self.both) if jit else self.both

    def arguments(
        self, parameters: Any, leaves: Mapping[str, Any], projection: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """Return the arguments for parameters and leaves of the same shapes."""
        flat = jax.tree_util.tree_leaves(parameters)
        inputs = {INPUT + name: jnp.asarray(leaf) for name, leaf in leaves.items() if differentiates(leaf)}
        trained = {key: flat[place] for key, place in self._places.items()}
        exact = {name: leaf for name, leaf in leaves.items() if name in self._arrays and INPUT + name not in inputs}
        return {**inputs, **trained}, (flat, exact, dict(projection))

    def scalar(self, sources: Mapping[str, Any], rest: Any) -> Any:
        """Run the model and project its outputs."""
        flat, exact, projection = rest
        flat = list(flat)
        for key, place in self._places.items():
            flat[place] = sources[key]
        parameters = jax.tree_util.tree_unflatten(self._tree, flat)
        inputs = {key[len(INPUT) :]: each for key, each in sources.items() if key.startswith(INPUT)}
        given = {name: inputs.get(name, exact.get(name)) for name in self._arrays}
        return project(name_outputs(self._function(parameters, given)), projection)

    def call(self, arguments: tuple[dict[str, Any], Any], seed: int) -> tuple[float, dict[str, Any]]:
        """Return the scalar and all gradients. Raises whatever the model raises."""
        seed_everything(seed)
        scalar, found = jax.block_until_ready(self._run(*arguments))
        return float(scalar), {key: conjugated(each) for key, each in found.items()}


def project(outputs: Mapping[str, Any], projection: Mapping[str, Any]) -> Any:
    """Return the scalar: weights are widened to an output in double precision, narrower outputs to float32."""
    real = {name: _parts(y) for name, y in outputs.items() if jax.dtypes.issubdtype(y.dtype, jnp.inexact)}
    weights = weights_of({name: tuple(y.shape) for name, y in real.items()}, projection)
    total = jnp.zeros((), jnp.float32)
    for name, y in real.items():
        wide = y if y.dtype == np.float64 else y.astype(jnp.float32)
        total = total + (wide * jnp.asarray(weights[name]).astype(wide.dtype)).sum()
    return total


def _parts(value: Any) -> Any:
    complex_ = jax.dtypes.issubdtype(value.dtype, jnp.complexfloating)
    return jnp.stack([value.real, value.imag], axis=-1) if complex_ else value


def conjugated(gradient: Any) -> Any:
    """JAX gives dL/dRe - i dL/dIm for a complex argument; the common form has a plus."""
    return jnp.conj(gradient) if jax.dtypes.issubdtype(gradient.dtype, jnp.complexfloating) else gradient


def real_parts(key: str, gradient: Any) -> list[tuple[str, Any]]:
    """A gradient by name; a complex one as two, of its real and of its imaginary part."""
    if not jax.dtypes.issubdtype(gradient.dtype, jnp.complexfloating):
        return [(key, gradient)]
    return [(f"{key}.real", gradient.real), (f"{key}.imag", gradient.imag)]
