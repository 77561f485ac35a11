"""One NodeProto as a Node fact, with what its caller needs besides: its subgraphs and, for a Constant, its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensoraudit.artifacts.onnx_file import Span, TensorHeader
from tensoraudit.artifacts.protobuf import BYTES, WireError, fields
from tensoraudit.extract.onnx_attributes import Attribute
from tensoraudit.extract.onnx_schema import Type, dtype_name
from tensoraudit.extract.onnx_source import OnnxSource
from tensoraudit.facts import Node, Side, Site, Unknown

_NOTHING: Final[Mapping[str, Any]] = {}
"""The attributes of all nodes that have none."""


@dataclass(slots=True)
class Context:
    """What the nodes of one graph have in common."""

    graph: str
    opsets: Mapping[str, int]
    path: str
    side: Side


@dataclass(slots=True)
class ReadNode:
    """A node and what hangs on it: (span, graph name) of its subgraphs; of a Constant its type, value and tensor."""

    fact: Node
    subgraphs: list[tuple[Span, str]] = field(default_factory=list)
    constant: tuple[Type, Any, TensorHeader | None] | None = None


def node_label(name: str, op: str, index: int) -> str:
    """Return what a node is called: its name, or its operator and its place in its graph (`Conv_12`)."""
    return name or f"{op}_{index}"


def read_node(source: OnnxSource, span: Span, index: int, context: Context) -> ReadNode:
    """Read node number `index` of a graph. Raises WireError."""
    inputs: list[str] = []
    outputs: list[str] = []
    attributes: list[Attribute] = []
    metadata: dict[str, str] = {}
    texts: dict[int, str] = {}
    for number, wire, start, end in fields(source.data, *span):
        if wire != BYTES:
            raise WireError(f"field {number} of node {index} of graph {context.graph!r} has wire type {wire}")
        if number == 1:
            inputs.append(source.string(start, end))
        elif number == 2:
            outputs.append(source.string(start, end))
        elif number == 5:
            attributes.append(source.attribute(start, end))
        elif number == 9:
            key, value = source.pair(start, end)
            metadata[key] = value
        elif number in _TEXTS:
            texts[number] = source.string(start, end)
    if _DOC in texts:
        metadata["doc_string"] = texts[_DOC]
    op, domain = texts.get(_OP, ""), texts.get(_DOMAIN, "")
    domain = "" if domain == "ai.onnx" else domain
    label = node_label(texts.get(_NAME, ""), op, index)
    subgraphs: list[tuple[Span, str]] = []
    fact = Node(
        op,
        domain,
        context.opsets.get(domain),
        label,
        {each.name: _value(each, context.graph, label, subgraphs) for each in attributes} if attributes else _NOTHING,
        tuple(inputs),
        tuple(outputs),
        context.graph,
        Site(path=context.path, node=label),
        context.side,
        texts.get(_OVERLOAD, ""),
        metadata or None,
    )
    return ReadNode(fact, subgraphs, _constant(attributes) if op == "Constant" and domain == "" else None)


_NAME, _OP, _DOC, _DOMAIN, _OVERLOAD = 3, 4, 6, 7, 8
_TEXTS: Final = frozenset({_NAME, _OP, _DOC, _DOMAIN, _OVERLOAD})


def _value(attribute: Attribute, graph: str, label: str, subgraphs: list[tuple[Span, str]]) -> Any:
    """Return the attribute's value; a subgraph stands there by its graph's name, a list of them as a tuple of names."""
    if not attribute.graphs:
        return () if attribute.many else attribute.value
    name = f"{graph}/{label}.{attribute.name}"
    names = [f"{name}[{i}]" if attribute.many else name for i in range(len(attribute.graphs))]
    subgraphs += zip(attribute.graphs, names, strict=True)
    return tuple(names) if attribute.many else name


def _constant(attributes: list[Attribute]) -> tuple[Type, Any, TensorHeader | None] | None:
    """Return (type, value, tensor) of a Constant node's output, from whichever attribute holds the value."""
    for attribute in attributes:
        if attribute.tensor is not None:
            return _tensor_type(attribute.tensor), attribute.value, attribute.tensor
        dtype = _DTYPE_OF_CONSTANT.get(attribute.name)
        if dtype is not None:
            shape = (len(attribute.value),) if isinstance(attribute.value, tuple) else ()
            return (
                (dtype, Unknown("a long list") if isinstance(attribute.value, Unknown) else shape),
                attribute.value,
                None,
            )
    return None


def _tensor_type(tensor: TensorHeader) -> Type:
    return dtype_name(tensor.dtype), tuple(tensor.dims)


_DTYPE_OF_CONSTANT: Final = {
    "value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64",
    "value_string": "string", "value_strings": "string",
}  # fmt: skip
