"""Where the tensors of an ONNX model stand: initializers, values of Constant nodes, in subgraphs and functions too.

Exporters differ in which of the two they use for weights; Paddle's and TorchScript's `If` branches keep all of them in
Constant nodes. Knows the messages GraphProto, NodeProto, AttributeProto and FunctionProto as far as that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tensoraudit.artifacts.onnx_file import MAX_GRAPH_DEPTH, ModelHeader, TensorHeader, read_tensor
from tensoraudit.artifacts.protobuf import BYTES, VARINT, Buffer, WireError, fields, text

MAX_TENSORS: Final = 1_000_000
_KERNELS: Final = {"Conv": "OI", "ConvTranspose": "IO"}
_SPACE: Final = ("", "W", "HW", "DHW")


class PlacedTensor(NamedTuple):
    """A tensor, the graphs that it lies within (names of node and attribute, or of a function), and its name there.

    `constant` says that it is the value of a Constant node, which an exporter also makes of shapes and axes.
    """

    path: tuple[str, ...]
    name: str
    tensor: TensorHeader
    constant: bool = False


@dataclass(slots=True)
class OnnxTensors:
    """All tensors of a model that have a name. `roles` has the axes of those that a layer's weight input fixes."""

    tensors: list[PlacedTensor] = field(default_factory=list)
    sparse: list[str] = field(default_factory=list)
    roles: dict[tuple[tuple[str, ...], str], str] = field(default_factory=dict)

    def axes(self, placed: PlacedTensor) -> str:
        """Return the names of its axes, "" where no layer fixes them."""
        role, rank = self.roles.get((placed.path, placed.name), ""), len(placed.tensor.dims)
        if role in ("conv:OI", "conv:IO"):
            return role[5:] + _SPACE[rank - 2] if 3 <= rank <= 5 else ""
        return role if rank == 2 else ""


@dataclass(slots=True)
class _Node:
    operator: str = ""
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attributes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Attribute:
    name: str = ""
    integer: int = 0
    tensor: tuple[int, int] | None = None
    graphs: list[tuple[int, int]] = field(default_factory=list)


def find_tensors(data: Buffer, header: ModelHeader) -> OnnxTensors:
    """Return the tensors of the model's graph and functions. Raises WireError for bytes that are no such messages."""
    found = OnnxTensors()
    if header.graph is not None:
        _graph(data, header.graph, (), found)
    for start, end in header.functions:
        name = next((text(data, at, stop) for number, wire, at, stop in fields(data, start, end) if number == 1), "")
        for number, wire, at, stop in fields(data, start, end):
            if number == 7 and wire == BYTES:
                _read_node(data, (at, stop), (name,), found)
    return found


def _graph(data: Buffer, span: tuple[int, int], path: tuple[str, ...], found: OnnxTensors) -> None:
    if len(path) > 2 * MAX_GRAPH_DEPTH:
        raise WireError("subgraphs nested too deep")
    for number, wire, at, stop in fields(data, *span):
        if wire != BYTES:
            continue
        if number == 5:
            tensor = read_tensor(data, at, stop)
            _add(found, PlacedTensor(path, tensor.name, tensor))
        elif number == 1:
            _read_node(data, (at, stop), path, found)
        elif number == 15:
            found.sparse.append(_sparse_name(data, at, stop))


def _add(found: OnnxTensors, placed: PlacedTensor) -> None:
    found.tensors.append(placed)
    if len(found.tensors) > MAX_TENSORS:
        raise WireError(f"more than {MAX_TENSORS:,} tensors")


def _read_node(data: Buffer, span: tuple[int, int], path: tuple[str, ...], found: OnnxTensors) -> None:
    node = _node(data, span)
    if len(node.inputs) > 1:
        _note_role(data, node, path, found)
    if node.operator != "Constant" and not any(_holds_graph(data, each) for each in node.attributes):
        return
    label = node.name or next(iter(node.outputs), "") or node.operator
    for attribute in (_attribute(data, each) for each in node.attributes):
        if node.operator == "Constant" and attribute.tensor and attribute.name == "value" and node.outputs:
            _add(found, PlacedTensor(path, node.outputs[0], read_tensor(data, *attribute.tensor), constant=True))
        for graph in attribute.graphs:
            _graph(data, graph, (*path, label, attribute.name), found)


def _node(data: Buffer, span: tuple[int, int]) -> _Node:
    node = _Node()
    for number, wire, at, stop in fields(data, *span):
        if wire != BYTES:
            continue
        if number == 1:
            node.inputs.append(text(data, at, stop))
        elif number == 2:
            node.outputs.append(text(data, at, stop))
        elif number == 3:
            node.name = text(data, at, stop)
        elif number == 4:
            node.operator = text(data, at, stop)
        elif number == 5:
            node.attributes.append((at, stop))
    return node


def _holds_graph(data: Buffer, span: tuple[int, int]) -> bool:
    return any(number in (6, 11) for number, _, _, _ in fields(data, *span))


def _attribute(data: Buffer, span: tuple[int, int]) -> _Attribute:
    attribute = _Attribute()
    for number, wire, at, stop in fields(data, *span):
        if number == 3 and wire == VARINT:
            attribute.integer = at
        elif wire == BYTES and number == 1:
            attribute.name = text(data, at, stop)
        elif wire == BYTES and number == 5:
            attribute.tensor = (at, stop)
        elif wire == BYTES and number in (6, 11):
            attribute.graphs.append((at, stop))
    return attribute


def _note_role(data: Buffer, node: _Node, path: tuple[str, ...], found: OnnxTensors) -> None:
    """Note which way round a weight is: convolutions and Gemm fix it, and MatMul by the side it stands on."""
    weight = (path, node.inputs[1])
    if node.operator in _KERNELS:
        found.roles[weight] = f"conv:{_KERNELS[node.operator]}"
    elif node.operator == "MatMul":
        found.roles[weight] = "IO"
    elif node.operator == "Gemm":
        attributes = (_attribute(data, each) for each in node.attributes)
        turned = any(each.integer for each in attributes if each.name == "transB")
        found.roles[weight] = "OI" if turned else "IO"


def _sparse_name(data: Buffer, start: int, end: int) -> str:
    """A sparse initializer has the name of its values."""
    return next(
        (read_tensor(data, at, stop).name for number, _, at, stop in fields(data, start, end) if number == 1), ""
    )
