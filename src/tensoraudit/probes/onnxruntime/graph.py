"""Walk the main graph of a model: order, what a node reads (subgraphs included), types and shapes of values.

Takes and gives protobuf messages and plain data; it must not know sessions or files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from tensoraudit.probes.onnxruntime.model_file import subgraphs_of

LARGE = 1024
"""Bytes above which an initializer is left out of shape inference: shapes and axes are far smaller, weights larger."""


def reads_of(node: Any) -> set[str]:
    """Return the names that a node reads from its graph: its inputs, and what its subgraphs take from outside."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in subgraphs_of(attribute):
            names |= _captured(graph)
    return names


def _captured(graph: Any) -> set[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    outside: set[str] = {value.name for value in graph.output}
    for node in graph.node:
        outside |= reads_of(node)
        own.update(node.output)
    return outside - own


def topological(nodes: Iterable[Any]) -> list[int]:
    """Return the indices of nodes in an order in which every value is made before it is read.

    Keeps the file's order where that is one already. Nodes on a cycle come last, as they stand in the file.
    """
    listed = list(nodes)
    made = {name: index for index, node in enumerate(listed) for name in node.output if name}
    waits = [
        {made[name] for name in reads_of(node) if name in made and made[name] != i} for i, node in enumerate(listed)
    ]
    if all(not wait or max(wait) < index for index, wait in enumerate(waits)):
        return list(range(len(listed)))
    return _sorted(waits)


def _sorted(waits: list[set[int]]) -> list[int]:
    readers: dict[int, list[int]] = {}
    for index, wait in enumerate(waits):
        for other in wait:
            readers.setdefault(other, []).append(index)
    missing = [len(wait) for wait in waits]
    ready = deque(index for index, count in enumerate(missing) if not count)
    order: list[int] = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for reader in readers.get(index, ()):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    placed = set(order)
    return order + [index for index in range(len(waits)) if index not in placed]


def light_copy(model: Any, shapes: Mapping[str, Iterable[int]] | None = None) -> Any:
    """Return a copy for shape inference: large weights become typed inputs, and inputs get the sizes in `shapes`."""
    import onnx
    from onnx import helper

    copy = onnx.ModelProto()
    copy.CopyFrom(_without_weights(model))
    for tensor in model.graph.initializer:
        if tensor.external_data or tensor.ByteSize() > LARGE:
            copy.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        else:
            copy.graph.initializer.append(tensor)
    for value in copy.graph.input:
        if shapes is not None and value.name in shapes:
            _fix_shape(value, shapes[value.name])
    return copy


def _without_weights(model: Any) -> Any:
    """A shallow twin of a model without initializers and value_info; nested messages are copied by protobuf."""
    import onnx

    twin = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    twin.graph.CopyFrom(onnx.GraphProto(name=graph.name, node=graph.node, input=graph.input, output=graph.output))
    return twin


def _fix_shape(value: Any, sizes: Iterable[int]) -> None:
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size in sizes:
        shape.dim.add().dim_value = size


def infer_types(model: Any, shapes: Mapping[str, Iterable[int]] | None = None) -> dict[str, Any]:
    """Return the inferred TypeProto of the main graph's values; what cannot be inferred is not in it.

    `shapes` fixes the sizes of inputs, so that symbolic dimensions become numbers.
    """
    from onnx import shape_inference

    copy = light_copy(model, shapes)
    if shapes is not None:
        for value in copy.graph.output:  # declared symbolic sizes would contradict the fixed ones
            value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(copy, data_prop=True)
    except Exception:  # inference is a help: an operator it does not know leaves values without a shape
        return {}
    values = (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input)
    return {value.name: value.type for value in values}
