"""JAX to TensorFlow by jax2tf: the whole model becomes one operation that holds its compiled form.

Since JAX 0.5 jax2tf always writes StableHLO into a single `XlaCallModule`, which TensorFlow hands to XLA: JAX need not
be there, the graph shows no operations, and no other converter can look into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SERVING = "serving_default"


@dataclass(frozen=True)
class Conversion:
    """What to convert. `function` takes (weights by name, arrays by name) and returns named outputs; `weights` become
    variables of these names. `dynamic` maps the name of an input to {axis: dimension}, `bounds` a dimension to its
    largest size: a model may hold for no other (a table of positions that is cut to the length)."""

    function: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
    weights: Mapping[str, Any]
    inputs: Mapping[str, Any]
    names: Mapping[str, str]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)


def convert(conversion: Conversion, folder: str, *, gradient: bool = True) -> dict[str, Any]:
    """Write a SavedModel with named inputs and outputs, and return the options used.

    `gradient` stores the model's own gradient beside it, without which TensorFlow cannot differentiate the operation.
    Raises whatever JAX, jax2tf and TensorFlow raise.
    """
    import tensorflow as tf
    from jax.experimental import jax2tf

    shapes = {name: polymorphic(array.shape, conversion.dynamic.get(name, {})) for name, array in inputs_of(conversion)}
    converted = jax2tf.convert(
        conversion.function,
        polymorphic_shapes=[None, shapes],
        polymorphic_constraints=[f"{name} <= {size}" for name, size in conversion.bounds.items()],
        with_gradient=gradient,
    )
    holder = tf.Module()
    holder.weights = {name: tf.Variable(array, name=name) for name, array in conversion.weights.items()}
    specs = [_spec(conversion, name, array) for name, array in inputs_of(conversion)]
    order = list(conversion.inputs)

    def call(*tensors: Any) -> Any:
        return converted(dict(holder.weights), dict(zip(order, tensors)))  # noqa: B905 - Python 3.9

    function = tf.function(call, input_signature=specs, autograph=False).get_concrete_function()
    holder.served = function
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=gradient)
    tf.saved_model.save(holder, folder, signatures={SERVING: function}, options=options)
    return {"with_gradient": gradient, "native_serialization": True, "platforms": ["cpu"], "polymorphic_shapes": shapes}


def inputs_of(conversion: Conversion) -> Sequence[tuple[str, Any]]:
    """Return the inputs by name, in the order of the call."""
    return list(conversion.inputs.items())


def polymorphic(shape: Sequence[int], axes: Mapping[int, str]) -> str | None:
    """Return the sizes as jax2tf reads them: `(batch, 3)`; None where nothing varies."""
    if not axes:
        return None
    return f"({', '.join(axes.get(axis, str(size)) for axis, size in enumerate(shape))},)"


def _spec(conversion: Conversion, name: str, array: Any) -> Any:
    import tensorflow as tf

    axes = conversion.dynamic.get(name, {})
    shape = [None if axis in axes else size for axis, size in enumerate(array.shape)]
    return tf.TensorSpec(shape, tf.as_dtype(array.dtype), name=conversion.names[name])
