"""TensorFlow Lite models (.tflite) from their own description: inputs, outputs, operators, quantisation, buffers.

Field numbers are those of TensorFlow's schema.fbs, version 3. Nothing is run and no weight is read; everything that
one part of the file says of another (an index, an offset) is checked, because the interpreter trusts some of it.

A worker reads it too: Python 3.9, standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tensoraudit.artifacts.flatbuffers import FlatBufferError, Reader, Table
from tensoraudit.artifacts.tflite_operators import CUSTOM, OPERATORS, TYPES

MAGIC: Final = b"TFL3"
FLEX: Final = "Flex"
"""How the names of TensorFlow's own operators begin in a TensorFlow Lite model (`FlexErf`)."""
PREFERRED: Final = "serving_default"
ENDS: Final = ("inputs", "outputs")
_SHOWN: Final = 200
_PLACEHOLDER: Final = 127
"""The old one-byte field of operator codes says this when the number is larger and stands in the new field."""


@dataclass(frozen=True)
class Tensor:
    """One tensor. `shape` is what the file was made with; `signature` has None for a dimension that may vary (None
    when the file does not say, or says that the rank is not known). `scales` and `zero_points` are those of quantised
    values: one for all, or one per entry of `axis`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    signature: tuple[int | None, ...] | None
    buffer: int
    variable: bool
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Operator:
    """One operation: its name (`CONV_2D`, or the text of a custom one) and the numbers of its tensors, -1 for none."""

    name: str
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """One subgraph; the first is the model, the others are branches, loop bodies or further signatures."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


class TFLite:
    """A model's description. Raises FlatBufferError wherever the file contradicts itself."""

    def __init__(self, view: memoryview) -> None:
        self._root = Reader(view).root()
        self.version = self._root.number(0, "I")
        self.description = self._root.text(3)

    @cached_property
    def codes(self) -> list[tuple[str, bool]]:
        """The operators' names, and whether they are custom, by the number that operations use for them."""
        return [_code(each) for each in self._root.tables(1)]

    @cached_property
    def buffers(self) -> list[int]:
        """The size of every buffer in bytes."""
        return [_buffer(each) for each in self._root.tables(4)]

    @cached_property
    def graphs(self) -> list[Graph]:
        """All subgraphs."""
        found = [self._graph(each) for each in self._root.tables(2)]
        if not found:
            raise FlatBufferError("it holds no graph")
        return found

    @cached_property
    def signatures(self) -> dict[str, dict[str, Any]]:
        """By key: {"graph": index, "inputs": {name: tensor index}, "outputs": the same}."""
        found = {}
        for each in self._root.tables(7):
            graph = _index(each.number(4, "I"), len(self.graphs), "a signature", "graph")
            count = len(self.graphs[graph].tensors)
            names = [
                {t.text(0): _index(t.number(1, "I"), count, "a signature") for t in each.tables(n)} for n in (0, 1)
            ]
            found[each.text(2)] = {"graph": graph, "inputs": names[0], "outputs": names[1]}
        return found

    def _graph(self, table: Table) -> Graph:
        tensors = tuple(self._tensor(each) for each in table.tables(0))
        ends = [tuple(_index(n, len(tensors), "a graph") for n in table.numbers(field, "i")) for field in (1, 2)]
        operators = tuple(self._operator(each, len(tensors)) for each in table.tables(3))
        return Graph(table.text(4), tensors, ends[0], ends[1], operators)

    def _tensor(self, table: Table) -> Tensor:
        scales, zero_points, axis = _quantisation(table.table(4))
        return Tensor(
            name=table.text(3),
            dtype=_name(TYPES, table.number(1, "b"), "type"),
            shape=table.numbers(0, "i"),
            signature=_signature(table),
            buffer=_index(table.number(2, "I"), max(1, len(self.buffers)), "a tensor", "buffer"),
            variable=bool(table.number(5, "B")),
            scales=scales,
            zero_points=zero_points,
            axis=axis,
        )

    def _operator(self, table: Table, tensors: int) -> Operator:
        code = _index(table.number(0, "I"), len(self.codes), "an operation", "operator")
        ends = [
            tuple(n if n == -1 else _index(n, tensors, "an operation") for n in table.numbers(field, "i"))
            for field in (1, 2)
        ]
        return Operator(*self.codes[code], *ends)


def _index(value: int, count: int, who: str, what: str = "tensor") -> int:
    if not 0 <= value < count:
        raise FlatBufferError(f"{who} names {what} {value:,}, of {count:,}")
    return value


def _name(names: tuple[str, ...], number: int, what: str) -> str:
    return names[number] if 0 <= number < len(names) else f"{what} {number}"


def _code(table: Table) -> tuple[str, bool]:
    old = table.number(0, "b")
    number = table.number(3, "i") if old == _PLACEHOLDER else max(old, table.number(3, "i"))
    return (table.text(1), True) if number == CUSTOM else (_name(OPERATORS, number, "operator"), False)


def _buffer(table: Table) -> int:
    """The size of a buffer: inside of the FlatBuffer, or (for files of more than 2 GB) behind it."""
    offset, size = table.number(1, "Q"), table.number(2, "Q")
    if offset > 1:
        if offset + size > len(table.reader):
            raise FlatBufferError(f"a buffer of {size:,} bytes at {offset:,} ends behind the file")
        return size
    return table.span(0, 1)[1]


def _signature(table: Table) -> tuple[int | None, ...] | None:
    if not table.at(7):
        return table.numbers(0, "i") if table.at(0) or table.number(8, "B") else None
    return tuple(None if size < 0 else size for size in table.numbers(7, "i"))


def _quantisation(table: Table | None) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    if table is None:
        return (), (), 0
    return table.numbers(2, "f"), table.numbers(3, "q"), table.number(6, "i")


def parse(view: memoryview) -> TFLite:
    """Read a whole description, so that nothing of it raises later. Raises FlatBufferError for a damaged file."""
    model = TFLite(view)
    _ = (model.graphs, model.signatures)
    return model


def read_tflite(view: memoryview, where: str) -> TFLite:
    """Read a whole description in the main process. Raises InputError for a damaged file."""
    from tensoraudit.errors import InputError  # not in a worker, whose Python may be too old for it

    try:
        return parse(view)
    except FlatBufferError as error:
        message = f"is a damaged or truncated TensorFlow Lite model ({error})"
        remedy = "Copy or download the file again, or convert the model again."
        raise InputError(message, where=where, remedy=remedy) from error


def details_of(model: TFLite) -> dict[str, Any]:
    """Return the description as plain JSON."""
    operators = Counter(each.name for graph in model.graphs for each in graph.operators)
    custom = sorted({each.name for graph in model.graphs for each in graph.operators if each.custom})
    main = model.graphs[0]
    return {
        "version": model.version,
        "description": model.description,
        "graphs": len(model.graphs),
        "tensors": len(main.tensors),
        "nodes": operators.total(),
        "operators": dict(operators.most_common(_SHOWN)),
        "custom": [name for name in custom if not name.startswith(FLEX)],
        "flex": [name.removeprefix(FLEX) for name in custom if name.startswith(FLEX)],
        "signature": chosen(model.signatures),
        "signatures": {key: {end: list(each[end]) for end in ENDS} for key, each in model.signatures.items()},
        **{end: [_described(name, tensor) for name, tensor in named(model, end)] for end in ENDS},
        "variables": sum(tensor.variable for tensor in main.tensors),
        "weight_bytes": sum(model.buffers),
    }


def chosen(signatures: Mapping[str, Any]) -> str | None:
    """Return the signature that is run: the one that servers call, else the first by name, None without any."""
    return PREFERRED if PREFERRED in signatures else min(signatures, default=None)


def named(model: TFLite, end: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the inputs or outputs by name: the chosen signature's, else the first graph's under its tensors' names."""
    if (key := chosen(model.signatures)) is not None:
        signature = model.signatures[key]
        tensors = model.graphs[signature["graph"]].tensors
        yield from ((name, tensors[index]) for name, index in signature[end].items())
        return
    graph = model.graphs[0]
    yield from ((graph.tensors[index].name, graph.tensors[index]) for index in getattr(graph, end))


def _described(name: str, tensor: Tensor) -> dict[str, Any]:
    shape = None if tensor.signature is None else list(tensor.signature)
    row: dict[str, Any] = {"name": name, "dtype": tensor.dtype, "shape": shape, "made_with": list(tensor.shape)}
    if tensor.scales:
        row["quantisation"] = {"scale": list(tensor.scales), "zero_point": list(tensor.zero_points)}
    return row
