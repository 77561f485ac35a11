"""A model's frozen graph with every narrow float in it widened, run as it is.

Constants keep their values, so the weights are the same. An operator without a double-precision kernel makes the graph
fail to load, and that is the reason why there is no oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.tensorflow.frozen_graph import freeze, function_of, thaw
from tensoraudit.probes.tensorflow.model import Model

_NARROW = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum, tf.float32.as_datatype_enum}
_DOUBLE = tf.float64.as_datatype_enum
COMPILED = frozenset(("XlaCallModule",))
"""Operators that hold a program of their own: its outputs can be declared double, and are computed in single all the
same."""


def doubled(model: Model, leaves: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return what runs the widened graph on widened leaves; it is traced again for other sizes.

    Raises whatever TensorFlow says of an operator that has no double-precision kernel.
    """
    known: dict[Any, Callable[[Mapping[str, Any]], dict[str, Any]]] = {}

    def run(wide: Mapping[str, Any]) -> dict[str, Any]:
        narrow = {name: _narrowed(leaf, leaves.get(name)) for name, leaf in wide.items()}
        key = tuple((name, getattr(leaf, "shape", repr(leaf))) for name, leaf in narrow.items())
        if key not in known:
            known[key] = _graph(model, narrow)
        return known[key](wide)

    return run


def _narrowed(leaf: Any, like: Any) -> Any:
    return leaf.astype(like.dtype) if isinstance(leaf, np.ndarray) and isinstance(like, np.ndarray) else leaf


def _graph(model: Model, leaves: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    arrays = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
    specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays.values()]
    function = tf.function(function_of(model, list(arrays), rest)).get_concrete_function(*specs)
    graph = freeze(function)
    if compiled := COMPILED.intersection(node.op for node in _nodes(graph)):
        raise ValueError(f"{min(compiled)} holds a program that was compiled for one precision")
    widen(graph)
    thawed = thaw(graph, function, len(arrays))
    return lambda wide: thawed(*(tf.constant(wide[name]) for name in arrays))


def widen(graph: Any) -> None:
    """Replace every narrow float of a GraphDef, functions included, in place."""
    for node in [each for each in graph.node if _is_fixed_norm(each)]:
        spread_norm(graph, node)
    for node in _nodes(graph):
        for value in node.attr.values():
            _widen_value(value)
    for function in graph.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            if argument.type in _NARROW:
                argument.type = _DOUBLE
        for value in function.attr.values():
            _widen_value(value)
    _rename_functions(graph)


def _rename_functions(graph: Any) -> None:
    """Freezing has registered the narrow bodies of loops and branches: the wide ones need names of their own."""
    names = {each.signature.name: f"{each.signature.name}_wide" for each in graph.library.function}
    for function in graph.library.function:
        function.signature.name = names[function.signature.name]
    for node in _nodes(graph):
        node.op = names.get(node.op, node.op)
        for value in node.attr.values():
            kind = value.WhichOneof("value")  # to look at another one would set it
            for each in [value.func] if kind == "func" else value.list.func if kind == "list" else ():
                each.name = names.get(each.name, each.name)


def _is_fixed_norm(node: Any) -> bool:
    """A fused batch norm with given statistics and channels last; it has no double-precision kernel."""
    fused = node.op in {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}
    return fused and not node.attr["is_training"].b and node.attr["data_format"].s in {b"", b"NHWC", b"NDHWC"}


def spread_norm(graph: Any, node: Any) -> None:
    """Replace a fused batch norm by its arithmetic, `x * k + offset - mean * k` with `k = scale / sqrt(variance + e)`.

    Of its outputs only the first has a use when the statistics are given.
    """
    name, (x, scale, offset, mean, variance) = node.name, [each for each in node.input if not each.startswith("^")]
    epsilon = graph.node.add(name=f"{name}/epsilon", op="Const")
    epsilon.attr["dtype"].type = tf.float32.as_datatype_enum
    epsilon.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.float32(node.attr["epsilon"].f)))
    steps = (
        ("variance", "AddV2", [variance, epsilon.name]),
        ("deviation", "Rsqrt", [f"{name}/variance"]),
        ("factor", "Mul", [scale, f"{name}/deviation"]),
        ("scaled", "Mul", [x, f"{name}/factor"]),
        ("moved", "Mul", [mean, f"{name}/factor"]),
        ("shift", "Sub", [offset, f"{name}/moved"]),
    )
    for part, operator, inputs in steps:
        graph.node.add(name=f"{name}/{part}", op=operator, input=inputs).attr["T"].type = _DOUBLE
    node.op = "AddV2"
    del node.input[:]
    node.input.extend([f"{name}/scaled", f"{name}/shift"])
    node.attr.clear()
    node.attr["T"].type = _DOUBLE


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _widen_value(value: Any) -> None:
    kind = value.WhichOneof("value")
    if kind == "type" and value.type in _NARROW:
        value.type = _DOUBLE
    elif kind == "tensor" and value.tensor.dtype in _NARROW:
        value.tensor.CopyFrom(tf.make_tensor_proto(tf.make_ndarray(value.tensor).astype(np.float64)))
    elif kind == "list":
        for index, each in enumerate(value.list.type):
            if each in _NARROW:
                value.list.type[index] = _DOUBLE
