"""tensorflow.operators: the operators of the graph that a model is at a sample, and of the functions that it calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.listing import Listing, Operation, constant
from tensoraudit.probes.protocol import JobFailed, Session
from tensoraudit.probes.tensorflow.frozen_graph import function_of
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.routes.source import Place, is_machinery, place

CONTROL_FLOW = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase")
_VARIABLES = ("VarHandleOp", "VariableV2")


def operators(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Trace the model at a sample and list its operators (see `listing`); functions that it calls are graphs `fn:NAME`.
    `configuration` is that of a Keras model, where it has one.

    Raises JobFailed when the model cannot be loaded or traced, JobUnsupported for more than 50,000 operators.
    """
    model = open_model(session, params["model"]).model
    leaves = read_input(session, params["inputs"])
    arrays = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
    specs = [tf.TensorSpec(array.shape, tf.as_dtype(array.dtype)) for array in arrays.values()]
    state = State(model)
    try:
        traced = tf.function(function_of(model, list(arrays), rest)).get_concrete_function(*specs)
    except Exception as problem:
        text = " ".join(str(problem).split())[:300]
        raise JobFailed(f"the model cannot be traced: {type(problem).__name__}: {text}", stage="trace") from problem
    finally:
        state.restore()
    listing = Listing("tf_function", CONTROL_FLOW)
    names = dict(zip((each.op.name for each in traced.inputs), arrays))  # noqa: B905 - Python 3.9
    _list_graph(listing, traced.graph, "main", names)
    for name, graph in _functions(traced.graph):
        _list_graph(listing, graph, f"fn:{name}", {})
    return {**listing.result(), "configuration": _configuration(model)}


def _configuration(model: Model) -> Any:
    if not model.is_keras:
        return None
    try:
        return json.loads(model.owner.to_json())
    except Exception:  # a model of the user's class has none
        return None


def _functions(graph: Any) -> Iterator[tuple[str, Any]]:
    """The functions that a graph calls, and those that these call, each once."""
    waiting, seen = [graph], set()
    while waiting:
        current = waiting.pop()
        for node in current.get_operations():
            for name in _called(node):
                if name in seen:
                    continue
                seen.add(name)
                found = _graph_of(current, name) or _graph_of(graph, name)
                if found is not None:
                    yield name, found
                    waiting.append(found)


def _called(node: Any) -> list[str]:
    found = []
    for value in node.node_def.attr.values():
        if value.WhichOneof("value") == "func":
            found.append(value.func.name)
        elif value.WhichOneof("value") == "list":
            found += [each.name for each in value.list.func]
    return found


def _graph_of(graph: Any, name: str) -> Any:
    """The body of a function: of those of tf.function as it was traced, with the user's lines."""
    function = graph._functions.get(name) if hasattr(graph, "_functions") else None
    inner = getattr(function, "graph", None)
    if inner is not None:
        return inner
    definition = graph._get_function(name) if hasattr(graph, "_get_function") else None
    if definition is None:
        return None
    from tensorflow.python.framework import function_def_to_graph

    text = getattr(definition, "cached_definition", None) or getattr(definition, "definition", None)
    return None if text is None else function_def_to_graph.function_def_to_graph(text)


def _list_graph(listing: Listing, graph: Any, name: str, inputs: Mapping[str, str]) -> None:
    outputs = {each.name for each in getattr(graph, "outputs", ()) if tf.is_tensor(each)}
    for node in graph.get_operations():
        attributes = {key: _attribute(value) for key, value in node.node_def.attr.items() if not key.startswith("_")}
        for tensor in node.outputs:
            shape = None if tensor.shape.rank is None else tensor.shape.as_list()
            role = _role(node, is_output=tensor.name in outputs)
            row = listing.value(tensor.name, role, name, tensor.dtype.base_dtype.name, shape)
            if node.type == "Const":
                row["constant"] = attributes.get("value", {"unknown": "not told"})
        read, made = ([str(each.name) for each in ends] for ends in (node.inputs, node.outputs))
        label = inputs.get(node.name, node.name)
        listing.node(Operation(node.type, "tf", label, name), read, made, attributes, _source(node))


def _role(node: Any, *, is_output: bool) -> str:
    if node.type == "Const" or node.type in _VARIABLES:
        return "initializer"
    if node.type.startswith("Placeholder"):
        resource = bool(node.outputs) and node.outputs[0].dtype == tf.resource
        return "initializer" if resource else "input"  # a function is given its variables as arguments
    return "output" if is_output else "intermediate"


def _attribute(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "list":
        return [_one(found.name, each) for found, values in value.list.ListFields() for each in values]
    return _one(kind, getattr(value, kind)) if kind else None


def _one(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode("utf-8", "backslashreplace")
    if kind == "type":
        return tf.as_dtype(value).base_dtype.name
    if kind == "shape":
        shape = tf.TensorShape(value)
        return {"unknown": "rank not declared"} if shape.rank is None else shape.as_list()
    if kind == "func":
        return f"fn:{value.name}"
    if kind == "tensor":
        count = int(np.prod([dim.size for dim in value.tensor_shape.dim])) if value.tensor_shape.dim else 1
        return {"unknown": f"a constant of {count:,} elements"} if count > 64 else constant(_array(value))
    return value


def _array(value: Any) -> Any:
    array = tf.make_ndarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _source(node: Any) -> Place | None:
    for frame in reversed(list(node.traceback or ())):
        path = str(getattr(frame, "filename", ""))
        if path and not is_machinery(path):
            return place(path, int(frame.lineno))
    return None
