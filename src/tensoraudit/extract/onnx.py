"""Facts from an ONNX file: the model, its nodes and values (subgraphs and functions too), and where its weights lie.

Reads the file through `artifacts.protobuf`, which says why without the `onnx` package. Weights and external data are
never read. Knows nothing of rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.onnx_external import external_files
from tensoraudit.artifacts.onnx_file import ModelHeader, Span, external_tensors, read_header
from tensoraudit.artifacts.protobuf import WireError
from tensoraudit.collection import without_collection
from tensoraudit.errors import InputError
from tensoraudit.extract.onnx_declarations import GRAPH_NODE, Declarations, read_declarations
from tensoraudit.extract.onnx_graph import GraphReader
from tensoraudit.extract.onnx_schema import UNTYPED
from tensoraudit.extract.onnx_source import OnnxSource
from tensoraudit.facts import ABSENT, Fact, Model, Side, Site, Value

_EXPORT: Final = "Export the model again, or copy the file again."


def read_onnx(path: str | Path, side: Side = "target") -> list[Fact]:
    """Return the facts of an ONNX model: one Model first, then per graph its values, nodes and tensors in file order.

    `Model.metadata` is plain data: `external` (see `artifacts.onnx_external.external_files`), `problems` (at most 100
    rows with `kind` and `graph`: "duplicate" a value defined twice, "undefined" one that nothing defines, "unsorted"
    nodes that stand before their inputs, "size" raw data shorter or longer than its dims), `properties`, `functions`
    (names of their graphs), `producer_version`, `graph_name`, `doc_string`, `domain`, `model_version`, and the counts
    `training` and `quantized`.

    Raises InputError for a file that is no whole ONNX model and for a graph with a cycle.
    """
    path = Path(path)
    source = OnnxSource(map_file(path))
    header, main = _opened(source, path)
    reader = GraphReader(source, str(path), side)
    try:
        with without_collection():
            declared = reader.read_main(main, header.opsets)
            functions = [reader.read_function(span, header.opsets) for span in header.functions]
        external = external_files(path, external_tensors(source.data))
    except WireError as error:
        raise _damaged(path, error) from error
    if reader.cycles:
        raise _cyclic(path, *reader.cycles[0])
    inputs, outputs = _signature(declared, str(path), side)
    metadata: dict[str, Any] = {
        "producer_version": header.producer_version,
        "graph_name": declared.name,
        "doc_string": header.doc,
        "domain": header.domain,
        "model_version": header.model_version,
        "properties": header.properties,
        "functions": functions,
        "training": header.training,
        "quantized": declared.quantized,
        "external": external,
        "problems": reader.problems,
    }
    site = Site(path=str(path))
    model = Model("onnx", header.producer, header.ir_version, header.opsets, inputs, outputs, metadata, site, side)
    return [model, *reader.facts]


def graph_inputs(path: str | Path, side: Side = "target") -> tuple[Value, ...]:
    """Return what a caller must feed: name, dtype and shape of each input that no initializer fills. Reads no node.

    Raises InputError for a file that is no ONNX model.
    """
    path = Path(path)
    source = OnnxSource(map_file(path))
    _, main = _opened(source, path)
    try:
        return _signature(read_declarations(source, main, GRAPH_NODE), str(path), side)[0]
    except WireError as error:
        raise _damaged(path, error) from error


def _opened(source: OnnxSource, path: Path) -> tuple[ModelHeader, Span]:
    try:
        header = read_header(source.data)
    except WireError as error:
        raise _damaged(path, error) from error
    if header.graph is None:
        raise InputError("is an ONNX model without a graph", where=str(path), remedy=_EXPORT)
    return header, header.graph


def _signature(declared: Declarations, path: str, side: Side) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Inputs that also have an initializer are defaults that a caller may leave out (IR version 3 lists all there)."""

    def value(name: str, role: Any) -> Value:
        dtype, shape = declared.types.get(name, UNTYPED)
        return Value(name, dtype, shape, ABSENT, role, "main", side, Site(path=path))

    inputs = tuple(value(name, "input") for name in declared.inputs if name not in declared.initializers)
    return inputs, tuple(value(name, "output") for name in declared.outputs)


def _damaged(path: Path, error: WireError) -> InputError:
    return InputError(f"cannot be read as an ONNX model: {error}", where=str(path), remedy=_EXPORT)


def _cyclic(path: Path, graph: str, nodes: list[str]) -> InputError:
    shown = " -> ".join((*nodes[:8], *(["..."] if len(nodes) > 8 else []), nodes[0]))
    return InputError(
        f"has a cycle in graph {graph!r}, so that no order of its nodes can be run: {shown}",
        where=str(path),
        remedy=_EXPORT,
    )
