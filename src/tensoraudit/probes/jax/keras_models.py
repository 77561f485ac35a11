"""A Keras file as a JAX model, with JAX as Keras's backend: its trained weights are the parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensoraudit.probes.jax.loaded import PARAMETERS, Loaded, Spec
from tensoraudit.probes.jax.names import in_order
from tensoraudit.probes.keras_files import read

STATE = "state"
"""The collection of what is not trained: statistics, states of generators."""


def load_keras(spec: Spec) -> Loaded:
    """Load a `.keras` or `.h5` file. Inputs are called as the Keras model calls them, weights by Keras's paths.

    `made` is what the file declares. Raises JobFailed.
    """
    file = read(spec, "jax", "jax")
    model, names = file.model, [argument.name for argument in file.signature.arguments]
    trained, state = _by_path(model.trainable_variables), _by_path(model.non_trainable_variables)

    def apply(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args)), **kwargs}  # noqa: B905 - Python 3.9
        values, options = file.arrange([given[name] for name in names if name in given])
        weights = [parameters[PARAMETERS][name] for name in trained], [parameters[STATE][name] for name in state]
        outputs, _ = model.stateless_call(*weights, *values, **options)
        return in_order(file.in_order(outputs))

    groups = {PARAMETERS: trained, STATE: state}
    named = {group: {f"{group}/{name}": each for name, each in found.items()} for group, found in groups.items()}
    weights = {name: str(each.dtype) for found in named.values() for name, each in found.items()}
    layers = model._flatten_layers() if hasattr(model, "_flatten_layers") else ()
    return Loaded(
        "keras",
        type(model).__qualname__,
        apply,
        {group: {name: each.value for name, each in found.items()} for group, found in groups.items()},
        file.signature,
        {group: {name: each.value for name, each in found.items()} for group, found in named.items()},
        modules=tuple((str(layer.path), type(layer).__qualname__) for layer in layers),
        made=replace(file.declared, weights=weights),
    )


def _by_path(variables: Any) -> dict[str, Any]:
    """The variables by their paths; one that stands in several places gets a number from the second on."""
    found: dict[str, Any] = {}
    for each in variables:
        name, count = str(each.path), 1
        while name in found:
            count += 1
            name = f"{each.path}_{count}"
        found[name] = each
    return found
