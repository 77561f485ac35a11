"""Differentiate a TensorFlow model: by a tape around one call, or its frozen graph in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.projection import INPUT, PARAMETER, weights_of
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.tensorflow.cuts import Ways
from tensoraudit.probes.tensorflow.double import NARROW, NotAnOracle, widened
from tensoraudit.probes.tensorflow.doubled_graph import widen
from tensoraudit.probes.tensorflow.frozen_graph import freeze, function_of
from tensoraudit.probes.tensorflow.model import Model, as_tensor

Gradients = dict[str, Any]
"""By gradient name; None where there is none."""


def variables_of(model: Model) -> dict[str, Any]:
    """Return the trained floating variables by gradient name; a name that several have gets a number."""
    owned = getattr(model.owner, "trainable_variables", None)
    listed = [each for each in model.variables if getattr(each, "trainable", False)] if owned is None else list(owned)
    found: dict[str, Any] = {}
    for each in {id(each): each for each in listed}.values():
        variable = getattr(each, "value", each)  # a Keras variable holds TensorFlow's
        variable = each if callable(variable) else variable
        name = str(getattr(each, "path", None) or each.name)
        if _is_inexact(variable.dtype):
            key = PARAMETER + name
            found[key if key not in found else f"{key}#{len(found)}"] = variable
    return found


def _is_inexact(dtype: Any) -> bool:
    kind = tf.as_dtype(dtype)
    return bool(kind.is_floating or kind.is_complex)


def differentiates(leaf: Any) -> bool:
    """Whether a leaf is an array that can have a gradient."""
    return isinstance(leaf, np.ndarray) and _is_inexact(leaf.dtype)


def differentiate(
    call: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    variables: Mapping[str, Any],
    leaves: Mapping[str, Any],
    projection: Mapping[str, Any],
) -> tuple[float, Gradients]:
    """Run forward and backward once; return the scalar and the gradients as TensorFlow gives them."""
    inputs = {INPUT + name: tf.constant(leaf) for name, leaf in leaves.items() if differentiates(leaf)}
    sources = {**inputs, **variables}
    given = {name: inputs.get(INPUT + name, as_tensor(leaf)) for name, leaf in leaves.items()}
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        for each in sources.values():
            tape.watch(each)
        scalar = project(call(given), projection)
    found = tape.gradient(scalar, list(sources.values()))
    return float(scalar), dict(zip(sources, found))  # noqa: B905 - Python 3.9


def project(outputs: Mapping[str, Any], projection: Mapping[str, Any]) -> Any:
    """Return the scalar: weights are widened to an output in double precision, narrower outputs to float32.

    Raises JobFailed for an output that is no dense tensor.
    """
    odd = [name for name, y in outputs.items() if not isinstance(y, (tf.Tensor, tf.Variable))]
    if odd:
        kind = type(outputs[odd[0]]).__name__
        raise JobFailed(f"output {odd[0]} is a {kind}, which has no gradient here", remedy="Return dense tensors.")
    real = {name: _parts(y) for name, y in outputs.items() if _is_inexact(y.dtype)}
    weights = weights_of({name: tuple(y.shape) for name, y in real.items()}, projection)
    total = tf.zeros((), tf.float64)
    for name, y in real.items():
        wide = y if y.dtype == tf.float64 else tf.cast(y, tf.float32)
        total += tf.cast(tf.reduce_sum(wide * tf.cast(weights[name], wide.dtype)), tf.float64)
    return total


def _parts(value: Any) -> Any:
    return tf.stack([tf.math.real(value), tf.math.imag(value)], axis=-1) if value.dtype.is_complex else value


def is_sparse(gradient: Any) -> bool:
    """Whether a gradient names rows instead of holding them all."""
    return isinstance(gradient, tf.IndexedSlices)


def dense_parts(key: str, gradient: Any) -> list[tuple[str, Any]]:
    """A gradient by name as a dense array; a complex one as two, of its real and of its imaginary part."""
    array = np.asarray(tf.convert_to_tensor(gradient))
    if array.dtype.kind != "c":
        return [(key, array)]
    return [(f"{key}.real", np.ascontiguousarray(array.real)), (f"{key}.imag", np.ascontiguousarray(array.imag))]


class Traced:
    """The model as one function of plain tensors, and where inputs and variables stand in its graph."""

    def __init__(self, model: Model, variables: Mapping[str, Any], leaves: Mapping[str, Any]) -> None:
        arrays = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
        rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays.values()]
        self.function = tf.function(function_of(model, list(arrays), rest)).get_concrete_function(*specs)
        handles = {id(outer): inner.op.name for outer, inner in self.function.graph.captures}
        self.held = {key: handles[id(each.handle)] for key, each in variables.items() if id(each.handle) in handles}
        self.fed = dict(zip(arrays, (each.name for each in self.function.inputs)))  # noqa: B905 - Python 3.9
        self.outputs = {name: each.name for name, each in self.function.structured_outputs.items()}

    def ways(self) -> tuple[Ways, dict[str, str]]:
        """The ways through the graph, and the nodes of inputs and variables by gradient name."""
        from tensorflow.python.framework.convert_to_constants import _run_inline_graph_optimization

        graph = _run_inline_graph_optimization(self.function, False, False)
        inputs = {INPUT + name: tensor.partition(":")[0] for name, tensor in self.fed.items()}
        return Ways(graph, self.outputs.values()), {**inputs, **self.held}


class Frozen:
    """A traced model with inputs and variables as plain tensors that go in, as wide as one wants.

    Raises whatever TensorFlow says of a graph that cannot be frozen, as one that writes to its variables.
    """

    def __init__(self, traced: Traced) -> None:
        self._graph = freeze(traced.function)
        known = {node.name for node in self._graph.node}
        self._held = {key: name for key, name in traced.held.items() if name in known}
        self._fed, self._outputs = traced.fed, traced.outputs

    @property
    def custom(self) -> bool:
        """Whether the graph has derivatives that the user or a library wrote, which do not survive in a frozen one."""
        nodes = [*self._graph.node, *(each for f in self._graph.library.function for each in f.node_def)]
        return any("_gradient_op_type" in node.attr for node in nodes)

    def double(self) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]:
        """Return what runs the graph in double precision on (inputs by name, variables by gradient name)."""
        graph = type(self._graph)()
        graph.CopyFrom(self._graph)
        widen(graph)
        names = [*self._fed.values(), *(f"{name}:0" for name in self._held.values())]

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def run(*tensors: Any) -> Any:
            fed = dict(zip(names, tensors))  # noqa: B905 - Python 3.9
            return tf.graph_util.import_graph_def(graph, input_map=fed, return_elements=list(self._outputs.values()))

        def call(inputs: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, Any]:
            given = [*(inputs[name] for name in self._fed), *(variables[key] for key in self._held)]
            found = run(*(tf.convert_to_tensor(each) for each in given))
            return dict(zip(self._outputs, found))  # noqa: B905 - Python 3.9

        return call

    @property
    def held(self) -> list[str]:
        """The gradient names of the variables that stand in the graph."""
        return list(self._held)


class DoubleGraph:
    """The scalar and its gradients in double precision, of a frozen graph. Its gradients are those of the operators."""

    def __init__(self, frozen: Frozen, leaves: Mapping[str, Any]) -> None:
        self._call, self._frozen = frozen.double(), frozen
        self._leaves = {name: widened(leaf) for name, leaf in leaves.items()}

    def outputs(self, point: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs at a point: arrays by gradient name."""
        inputs = {name: point.get(INPUT + name, leaf) for name, leaf in self._leaves.items()}
        return self._call(inputs, {key: point[key] for key in self._frozen.held})

    def gradients(self, point: Mapping[str, Any], projection: Mapping[str, Any]) -> Gradients:
        """The gradients at a point. Raises NotAnOracle where the graph has custom derivatives."""
        if self._frozen.custom:
            raise NotAnOracle("the graph has a custom gradient, which does not survive in double precision")
        sources = {key: tf.constant(each) for key, each in point.items()}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for each in sources.values():
                tape.watch(each)
            scalar = project(self.outputs(sources), projection)
        return dict(zip(sources, tape.gradient(scalar, list(sources.values()))))  # noqa: B905 - Python 3.9


def check_wide(found: Mapping[str, Any]) -> None:
    """Raise NotAnOracle unless all gradients are in double precision."""
    narrow = [key for key, each in found.items() if each is not None and tf.as_dtype(each.dtype).name in NARROW]
    if narrow:
        raise NotAnOracle(f"not a true oracle: the gradient of {narrow[0]} is {found[narrow[0]].dtype.name}")
