"""Facts from TensorFlow graphs: the GraphDef of a SavedModel and its library of functions, without TensorFlow.

1. The main graph is "main", a function `fn:NAME`. What no signature reaches (savers, traces of other calls) gives no
   facts; `Model.metadata["unreached"]` names such functions.
2. The domain is "tf". A value is called `node:0` in the main graph, `node:output:0` or by the argument in a function.
   Of a node's outputs those are known that something reads. Control inputs stand in `metadata["control"]`.
3. An attribute that is a function is the name of its graph: `{then_branch: "fn:cond_true_12"}`; `If`, `While`, `Case`
   and calls lead to their bodies so. A function may call itself: each is one graph, whoever calls it.
4. The output of a `Const` is an initializer with its value (up to 64 elements), that of a variable one without.
5. Dtypes and shapes are what the file declares. Nothing is inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensoraudit.artifacts.protobuf import WireError
from tensoraudit.extract.tensorflow_nodes import FUNCTION_NODE, GRAPH_NODE, FunctionDef, NodeDef, Source, Span
from tensoraudit.extract.user_source import SourceLine
from tensoraudit.facts import ABSENT, Dim, Fact, Node, Side, Site, Unknown, Value

DOMAIN: Final = "tf"
MAX_FACTS: Final = 3_000_000
"""Facts of one file, about 2 GB: a million nodes. Two bytes can be a node, so a small file could ask for any memory."""

_STORED: Final = Unknown("stored in the variables")
_UNTYPED: Final = Unknown("not declared in the file")
_VARIABLES: Final = frozenset(("VarHandleOp", "VariableV2", "Variable"))
_INPUTS: Final = frozenset(("Placeholder", "PlaceholderWithDefault", "PlaceholderV2"))
_DTYPE_OF: Final = {
    "Cast": "DstT", "ArgMax": "output_type", "ArgMin": "output_type", "Shape": "out_type", "Size": "out_type",
    **dict.fromkeys(("ReadVariableOp", "Placeholder", "PlaceholderWithDefault", "PlaceholderV2"), "dtype"),
    **dict.fromkeys(("StatefulPartitionedCall", "PartitionedCall", "If", "StatelessIf"), "Tout"),
    **dict.fromkeys(("While", "StatelessWhile", "Identity", "IdentityN", "Snapshot", "StopGradient"), "T"),
    **dict.fromkeys(
        (
            "Abs", "Add", "AddV2", "AvgPool", "BatchMatMul", "BatchMatMulV2", "BiasAdd", "Ceil", "ConcatV2", "Conv2D",
            "Conv2DBackpropInput", "Conv3D", "Cos", "DepthwiseConv2dNative", "Elu", "Erf", "Exp", "ExpandDims", "Fill",
            "Floor", "LeakyRelu", "Log", "LogSoftmax", "MatMul", "Max", "MaxPool", "Maximum", "Mean", "Min", "Minimum",
            "Mul", "Neg", "Pack", "Pad", "PadV2", "Pow", "Prod", "RealDiv", "Relu", "Relu6", "Reshape", "Round",
            "Rsqrt", "SelectV2", "Selu", "Sigmoid", "Sin", "Slice", "Softmax", "Softplus", "Split", "SplitV", "Sqrt",
            "Square", "Squeeze", "StridedSlice", "Sub", "Sum", "Tanh", "Tile", "Transpose", "Unpack",
        ),
        "T",
    ),
}  # fmt: skip
"""Which attribute declares the dtype of an operator's outputs, for operators of which that is certain."""
_HIDDEN: Final = frozenset(("_output_shapes", "_has_manual_control_dependencies"))


@dataclass(slots=True)
class GraphFacts:
    """What all facts of one file share; `facts` grows. `line_of` tells the user's source line of (node, function)."""

    source: Source
    path: str
    side: Side
    line_of: Callable[[str, str], SourceLine | None] = lambda node, function: None
    relative: Callable[[str], str] = lambda path: path
    facts: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class Reached:
    """What the outputs that were asked for need: nodes of the main graph, functions by name, and names that are called
    but not there."""

    nodes: list[NodeDef]
    functions: dict[str, FunctionDef]
    unreached: list[str]
    missing: list[str]


def read_graph(file: GraphFacts, graph: Span, wanted: Iterable[str]) -> Reached:
    """Add the facts of a GraphDef and the functions that it reaches. `wanted` are the values (`node:0`) that count;
    without any the whole graph does. Raises WireError, for a graph of more than a million nodes too."""
    library = {each.name: each for each in file.source.functions(graph)}
    outputs = list(wanted)
    nodes = list(_limited(file.source.nodes(graph, GRAPH_NODE)))
    used = _needed(nodes, outputs) if outputs else nodes
    _read_body(file, used, _Names("main", "", {}, dict.fromkeys(outputs, _UNTYPED)))
    waiting, reached = _called(used), dict[str, FunctionDef]()
    missing: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        if name in reached or name in missing:
            continue
        if name not in library:
            missing[name] = None
            continue
        function = reached[name] = library[name]
        body = list(_limited(file.source.nodes(function.span, FUNCTION_NODE)))
        dtypes = {value: function.dtypes.get(key, _UNTYPED) for key, value in function.returns.items()}
        _read_body(file, body, _Names(f"fn:{name}", name, function.inputs, dtypes))
        waiting += _called(body)
    unreached = [name for name in library if name not in reached]
    return Reached(used, reached, unreached, list(missing))


def _limited(nodes: Iterable[NodeDef]) -> Iterable[NodeDef]:
    for count, node in enumerate(nodes):
        if count > MAX_FACTS // 3:
            raise WireError(f"the graph has more than {MAX_FACTS // 3:,} nodes")
        yield node


def _needed(nodes: list[NodeDef], outputs: Iterable[str]) -> list[NodeDef]:
    """The nodes that the outputs depend on, control inputs included, in the order of the file."""
    by_name = {node.name: node for node in nodes}
    waiting = [node_of(name) for name in outputs]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and name in by_name:
            found.add(name)
            waiting += [node_of(each) for each in by_name[name].inputs]
    return [node for node in nodes if node.name in found]


def node_of(value: str) -> str:
    """Return the node that makes a value: of `a:0`, `^a` and `a` the name `a`."""
    return value.lstrip("^").partition(":")[0]


def _called(nodes: Iterable[NodeDef]) -> list[str]:
    return [name for node in nodes for kind, value in node.attributes.values() for name in _functions(kind, value)]


def _functions(kind: str, value: Any) -> tuple[str, ...]:
    if kind != "func" or isinstance(value, Unknown):
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


# One graph


@dataclass(slots=True)
class _Names:
    """A graph's name, its function, its arguments and the values that it returns, both with their dtypes."""

    graph: str
    function: str
    inputs: Mapping[str, str | Unknown]
    outputs: Mapping[str, str | Unknown]


def _read_body(file: GraphFacts, nodes: list[NodeDef], names: _Names) -> None:
    site = Site(path=file.path)
    for name, dtype in names.inputs.items():
        file.facts.append(Value(name, dtype, _UNTYPED, ABSENT, "input", names.graph, file.side, site))
    main = not names.function
    made: dict[str, dict[str, None]] = {}
    for node in nodes:
        for each in node.inputs:
            if not each.startswith("^") and each not in names.inputs:
                made.setdefault(node_of(each), {})[value_name(each, main=main)] = None
    for each in names.outputs:
        made.setdefault(node_of(each), {})[value_name(each, main=main)] = None
    for node in nodes:
        outputs = tuple(sorted(made.get(node.name, ()), key=_position))
        _read_node(file, node, names, outputs)
        if len(file.facts) > MAX_FACTS:
            raise WireError(f"the model has more than {MAX_FACTS:,} nodes and values")


def value_name(reference: str, *, main: bool) -> str:
    """Return the full name of a value: a main graph leaves out the `:0` of first outputs."""
    return f"{reference}:0" if main and ":" not in reference else reference


def _position(name: str) -> tuple[str, int]:
    head, _, last = name.rpartition(":")
    return head, int(last[:9]) if last.isdecimal() and last.isascii() else 0


def _read_node(file: GraphFacts, node: NodeDef, names: _Names, outputs: tuple[str, ...]) -> None:
    main = not names.function
    inputs = tuple(
        each if each in names.inputs else value_name(each, main=main) for each in node.inputs if each[:1] != "^"
    )
    at, metadata = _place(file, node, names.function)
    attributes = {key: _attribute(*value) for key, value in node.attributes.items() if key not in _HIDDEN}
    file.facts.append(
        Node(
            node.op, DOMAIN, None, node.name, attributes, inputs, outputs, names.graph, at, file.side, "",
            metadata or None, file.path,
        )
    )  # fmt: skip
    for name in outputs:
        file.facts.append(_value(file, node, name, names))


def _place(file: GraphFacts, node: NodeDef, function: str) -> tuple[Site, dict[str, str]]:
    metadata = {"device": node.device} if node.device else {}
    control = [each[1:] for each in node.inputs if each[:1] == "^"]
    if control:
        metadata["control"] = " ".join(control)
    line = file.line_of(node.name, function)
    if line is None:
        return Site(path=file.path, node=node.name), metadata
    if line.text:
        metadata["text"] = line.text
    return Site(path=file.relative(line.path), line=line.line, node=node.name), metadata


def _attribute(kind: str, value: Any) -> Any:
    if kind == "func" and not isinstance(value, Unknown):
        return tuple(f"fn:{name}" for name in value) if isinstance(value, tuple) else f"fn:{value}"
    if kind == "tensor":
        return value[2] if isinstance(value[0], (str, Unknown)) else tuple(each[2] for each in value)
    return value


def _value(file: GraphFacts, node: NodeDef, name: str, names: _Names) -> Value:
    index = _position(name)[1]
    dtype, shape, constant = _type(node, index)
    role: Any = "output" if name in names.outputs else "intermediate"
    if node.op == "Const" or node.op in _VARIABLES:
        role = "initializer"
    elif node.op in _INPUTS:
        role = "input"
    if isinstance(dtype, Unknown) and name in names.outputs:
        dtype = names.outputs[name]
    return Value(name, dtype, shape, constant, role, names.graph, file.side, Site(path=file.path))


def _type(node: NodeDef, index: int) -> tuple[str | Unknown, tuple[Dim, ...] | Unknown, Any]:
    """What a node says of its output number `index`: dtype, shape, constant."""
    tensor = node.attributes.get("value", ("", None))
    if node.op == "Const" and tensor[0] == "tensor" and isinstance(tensor[1], tuple) and len(tensor[1]) == 3:
        return tensor[1]
    if node.op in _VARIABLES:
        return "resource", (), _STORED
    return _dtype(node, index), _shape(node, index), ABSENT


def _dtype(node: NodeDef, index: int) -> str | Unknown:
    kind, value = node.attributes.get(_DTYPE_OF.get(node.op, ""), ("", None))
    if kind != "type" or value is None:
        return _UNTYPED
    listed: tuple[str | Unknown, ...] = value if isinstance(value, tuple) else (value,) * (index + 1)
    return listed[index] if index < len(listed) else _UNTYPED


def _shape(node: NodeDef, index: int) -> tuple[Dim, ...] | Unknown:
    kind, shapes = node.attributes.get("_output_shapes", ("", None))
    if kind == "shape" and isinstance(shapes, tuple) and index < len(shapes):
        found: tuple[Dim, ...] | Unknown = shapes[index]
        return found
    kind, shape = node.attributes.get("shape", ("", None))
    return shape if node.op in _INPUTS and kind == "shape" and shape is not None else _UNTYPED
