"""`onnxruntime.values`: every value that a node of the main graph makes, with its type and where it comes from."""

from __future__ import annotations

from typing import Any

from tensoraudit.probes.onnxruntime.graph import infer_types, reads_of, topological
from tensoraudit.probes.onnxruntime.model_file import dtype_name, load_structure, shape_of
from tensoraudit.probes.onnxruntime.provenance import Origin, modules_of, origin_of
from tensoraudit.probes.protocol import Session


def values(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """List the outputs of all nodes in topological order.

    Returns {"values": [{"name", "node", "op", "module", "call", "source", "operator", "traced", "shape", "dtype",
    "inputs", "graph_index"}], "inputs": [names], "outputs": [names], "weights": [names]}. `inputs` of a value are the
    names its node reads, `graph_index` is the node's place in the file. What is not known is None.
    """
    model = load_structure(params["path"], session)
    weights = dict.fromkeys(tensor.name for tensor in model.graph.initializer)
    types = _types(model)
    modules = modules_of(weights)
    listed = []
    for index in topological(model.graph.node):
        node = model.graph.node[index]
        origin = _origin(node, [name for name in node.input if name in weights], modules)
        listed += _values_of(node, index, types, origin)
    return {
        "values": listed,
        "inputs": [value.name for value in model.graph.input if value.name not in weights],
        "outputs": [value.name for value in model.graph.output],
        "weights": list(weights),
    }


def _types(model: Any) -> dict[str, Any]:
    """Types that the file declares, completed by inference where one is missing or has no shape."""
    declared = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}
    made = [name for node in model.graph.node for name in node.output if name]
    if all(name in declared and shape_of(declared[name]) is not None for name in made):
        return declared
    inferred = infer_types(model)
    return {**inferred, **{name: type_ for name, type_ in declared.items() if shape_of(type_) is not None}}


def _origin(node: Any, weights: list[str], modules: frozenset[str]) -> Origin:
    # Nodes have metadata since onnx 1.16 (IR version 10).
    metadata = {entry.key: entry.value for entry in getattr(node, "metadata_props", ())}
    return origin_of(node.name, metadata, node.doc_string, weights, modules)


def _values_of(node: Any, index: int, types: dict[str, Any], origin: Origin) -> list[dict[str, Any]]:
    shared = {
        "node": node.name,
        "op": f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
        **origin._asdict(),
        "inputs": sorted(reads_of(node)),
        "graph_index": index,
    }
    return [{"name": name, **shared, **_type(types.get(name))} for name in node.output if name]


def _type(type_proto: Any) -> dict[str, Any]:
    if type_proto is None or not type_proto.HasField("tensor_type"):
        return {"shape": None, "dtype": None}
    element = type_proto.tensor_type.elem_type
    return {"shape": shape_of(type_proto), "dtype": dtype_name(element) if element else None}
