"""Facts from a TensorFlow Lite file: Model, Node and Value of every subgraph.

1. The first subgraph is "main", any other `fn:NAME` (by its number where two share a name or have none). `IF` and
   `WHILE` name them in `then_branch`, `else_branch`, `cond` and `body`.
2. The domain is "tflite", `op` the schema's own name (`CONV_2D`). A custom operator has its own name and the domain
   "tflite.custom", one of TensorFlow's (`FlexErf`) "tflite.flex".
3. A value is a tensor, called by its name; of two with one name the second is `name#7`. What a buffer fills is an
   initializer, with its value up to 64 elements.
4. A node has no name: it is called by its operator and place, `CONV_2D_12`. Scales and zero points of quantised values
   stand in `Model.metadata["quantised"]` by value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.flatbuffers import FlatBufferError, Reader, Table
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.tflite import FLEX, Graph, Operator, Tensor, TFLite, named, read_tflite
from tensoraudit.errors import InputError
from tensoraudit.extract.onnx_schema import MAX_CONSTANT, plain
from tensoraudit.extract.tflite_options import GRAPHS, read_options
from tensoraudit.facts import ABSENT, Dim, Fact, Model, Node, Side, Site, Unknown, Value

DOMAIN: Final = "tflite"
_AGAIN: Final = "Copy or download the file again, or convert the model again."
_ANY_SIZE: Final = Unknown("any size")
_NO_RANK: Final = Unknown("rank not declared in the file")
_NUMPY: Final = {
    "float32": "<f4", "float16": "<f2", "float64": "<f8", "int8": "i1", "uint8": "u1", "int16": "<i2", "uint16": "<u2",
    "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8", "bool": "?",
}  # fmt: skip
_LISTED: Final = 1_000


def read_tflite_graph(path: Path, side: Side = "source") -> list[Fact]:
    """Read a `.tflite` file. Raises InputError for a damaged one."""
    view = map_file(path)
    model = read_tflite(view, str(path))
    try:
        raw = Reader(view).root()
        reader = _Reader(path.as_posix(), side, _graph_names(model), list(raw.tables(4)))
        facts = [
            fact
            for number, (graph, table) in enumerate(zip(model.graphs, raw.tables(2), strict=True))
            for fact in reader.read(graph, table, number)
        ]
    except FlatBufferError as error:
        message = f"is a damaged or truncated TensorFlow Lite model ({error})"
        raise InputError(message, where=str(path), remedy=_AGAIN) from error
    return [_model(model, path.as_posix(), side), *facts]


def _graph_names(model: TFLite) -> list[str]:
    shared = Counter(graph.name for graph in model.graphs)
    rest = [
        f"fn:{graph.name}" if graph.name and shared[graph.name] == 1 else f"fn:{number}"
        for number, graph in enumerate(model.graphs)
    ]
    return ["main", *rest[1:]]


def _model(model: TFLite, path: str, side: Side) -> Model:
    site = Site(path=path)

    def ends(end: str, role: Any) -> tuple[Value, ...]:
        return tuple(
            Value(name, tensor.dtype, shape_of(tensor), ABSENT, role, "main", side, site)
            for name, tensor in named(model, end)
        )

    main = model.graphs[0]
    quantised = {
        name: {"scale": tensor.scales, "zero_point": tensor.zero_points, "axis": tensor.axis}
        for name, tensor in list(zip(tensor_names(main), main.tensors, strict=True))[: 100 * _LISTED]
        if tensor.scales
    }
    metadata: dict[str, Any] = {
        "description": model.description,
        "signatures": sorted(model.signatures),
        "graphs": len(model.graphs),
        "quantised": quantised,
    }
    return Model(
        DOMAIN, "", model.version, {}, ends("inputs", "input"), ends("outputs", "output"), metadata, site, side
    )


def shape_of(tensor: Tensor) -> tuple[Dim, ...] | Unknown:
    """Return a tensor's shape, with what may vary unknown."""
    if tensor.signature is None:
        return _NO_RANK
    return tuple(_ANY_SIZE if size is None else size for size in tensor.signature)


def tensor_names(graph: Graph) -> list[str]:
    """Return what the tensors of a graph are called, each by a name of its own."""
    seen: set[str] = set()
    names = []
    for number, tensor in enumerate(graph.tensors):
        name = tensor.name if tensor.name and tensor.name not in seen else f"{tensor.name}#{number}"
        seen.add(name)
        names.append(name)
    return names


@dataclass(slots=True)
class _Reader:
    """What all graphs of one file share. `graphs` are their names, `buffers` the tables of the file's data."""

    path: str
    side: Side
    graphs: list[str]
    buffers: list[Table]

    def read(self, graph: Graph, table: Table, number: int) -> Iterator[Fact]:
        """Yield the values and nodes of one graph."""
        names, place = tensor_names(graph), self.graphs[number]
        inputs, outputs = set(graph.inputs), set(graph.outputs)
        made = {index for operator in graph.operators for index in operator.outputs}
        for index, tensor in enumerate(graph.tensors):
            role: Any = "input" if index in inputs else "output" if index in outputs else "intermediate"
            constant = ABSENT if role == "input" or index in made else self._constant(tensor)
            role = "initializer" if constant is not ABSENT else role
            yield Value(
                names[index], tensor.dtype, shape_of(tensor), constant, role, place, self.side, Site(path=self.path)
            )
        for index, (operator, raw) in enumerate(zip(graph.operators, table.tables(3), strict=True)):
            yield self._node(operator, raw, index, names, place)

    def _node(self, operator: Operator, raw: Table, index: int, names: list[str], graph: str) -> Node:
        label = f"{operator.name}_{index}"
        attributes = read_options(raw)
        for key in GRAPHS & set(attributes):
            if not 0 <= attributes[key] < len(self.graphs):
                raise FlatBufferError(f"an operation names graph {attributes[key]:,}, of {len(self.graphs):,}")
            attributes[key] = self.graphs[attributes[key]]
        domain = f"{DOMAIN}.{'flex' if operator.name.startswith(FLEX) else 'custom'}" if operator.custom else DOMAIN
        return Node(
            operator.name, domain, None, label, attributes,
            tuple("" if each < 0 else names[each] for each in operator.inputs),
            tuple(names[each] for each in operator.outputs if each >= 0), graph,
            Site(path=self.path, node=label), self.side,
        )  # fmt: skip

    def _constant(self, tensor: Tensor) -> Any:
        """The value of a small tensor that a buffer fills; ABSENT where none does."""
        if tensor.buffer >= len(self.buffers):
            return ABSENT
        start, size = self.buffers[tensor.buffer].span(0, 1)
        if not size:
            offset = self.buffers[tensor.buffer].number(1, "Q")
            return Unknown("stored behind the file's description") if offset > 1 else ABSENT
        count, kind = prod(tensor.shape), _NUMPY.get(tensor.dtype)
        if count > MAX_CONSTANT:
            return Unknown(f"a constant of {count:,} elements")
        if kind is None or np.dtype(kind).itemsize * count != size:
            return Unknown(f"a constant of type {tensor.dtype} in {size:,} bytes")
        raw = self.buffers[tensor.buffer].reader.bytes_at(start, size)
        return _nested(plain(np.frombuffer(raw, dtype=kind)), tensor.shape)


def _nested(numbers: list[Any], sizes: tuple[int, ...]) -> Any:
    if not sizes or not numbers:
        return numbers[0] if numbers else ()
    step = len(numbers) // sizes[0]
    return tuple(_nested(numbers[i * step : (i + 1) * step], sizes[1:]) for i in range(sizes[0]))
