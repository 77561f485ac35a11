"""A model as one graph without variables: traced, frozen, and run again as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensoraudit.probes.tensorflow.model import Model, name_outputs


def function_of(model: Model, names: Sequence[str], bound: Mapping[str, Any]) -> Callable[..., dict[str, Any]]:
    """Return a function of the named tensors, in order, to the named outputs; `bound` are its other arguments."""

    def flat(*tensors: Any) -> dict[str, Any]:
        found = name_outputs(model.call({**dict(zip(names, tensors)), **bound}))  # noqa: B905 - Python 3.9
        return {name: tf.identity(each) for name, each in found.items()}

    return flat


def captured(function: Any) -> dict[str, Any]:
    """Return the plain tensors that a concrete function captures from outside, by the node that stands for each.

    A SavedModel keeps its large constants so; a converter takes them for inputs.
    """
    return {inner.op.name: outer for outer, inner in function.graph.captures if outer.dtype != tf.resource}


def freeze(function: Any) -> Any:
    """Return the GraphDef of a concrete function with its variables and captured tensors as constants."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    graph = convert_variables_to_constants_v2(function, lower_control_flow=False).graph.as_graph_def()
    values = captured(function)
    for node in graph.node:
        if node.name in values:
            value = tf.make_tensor_proto(values[node.name].numpy())
            node.op = "Const"
            node.attr.clear()
            node.attr["dtype"].type = value.dtype
            node.attr["value"].tensor.CopyFrom(value)
    return graph


def thaw(graph: Any, function: Any, count: int) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a graph made by `freeze` of `function`, whose first `count` inputs it takes.

    While another function is traced the graph becomes part of that one: what optimises and converts graphs does not
    follow calls into wrapped ones.
    """
    inputs = [each.name for each in function.inputs[:count]]
    outputs = {name: each.name for name, each in function.structured_outputs.items()}
    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    pruned = wrapped.prune(inputs, outputs)

    def run(*tensors: Any) -> dict[str, Any]:
        if not tf.inside_function():
            result: dict[str, Any] = pruned(*tensors)
            return result
        fed = dict(zip(inputs, tensors))  # noqa: B905 - Python 3.9
        found = tf.graph_util.import_graph_def(graph, input_map=fed, return_elements=list(outputs.values()))
        return dict(zip(outputs, found))  # noqa: B905 - Python 3.9

    return run
