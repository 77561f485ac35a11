"""Open ONNX files inside the worker: as structure only, after a check that no tensor points outside the folder.

Nothing here loads weights or creates a session; it must not know samples or results. `onnx` is imported on first use,
so that the module itself loads anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tensoraudit.probes.protocol import JobFailed, Session

CACHE = "onnxruntime.models"
KEPT_MODELS = 2

DTYPES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
"""ONNX names of element types that differ from the common ones by more than case."""


def file_key(path: str) -> tuple[str, int, int]:
    """What identifies a file's content cheaply: path, time of change and size. Raises JobFailed."""
    try:
        status = Path(path).stat()
    except OSError as problem:
        raise JobFailed(f"{path} cannot be read: {problem.strerror}", path=path) from None
    return (str(Path(path).absolute()), status.st_mtime_ns, status.st_size)


def folder_of(path: str) -> str:
    """Return the folder that relative external data of a model file starts from."""
    return str(Path(path).absolute().parent)


def load_structure(path: str, session: Session) -> Any:
    """Return the ModelProto of a file without its external data; callers must not change it.

    Raises JobFailed when the file is no ONNX model, or when external data lies outside its folder or is not there.
    """
    cache = session.cache.setdefault(CACHE, {})
    key = file_key(path)
    if key not in cache:
        model = _parse(path)
        check_external_data(model, path)
        while len(cache) >= KEPT_MODELS:
            cache.pop(next(iter(cache)))
        cache[key] = model
    return cache[key]


def _parse(path: str) -> Any:
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as problem:
        raise JobFailed(f"{path} cannot be read: {problem.strerror}", path=path) from None
    except Exception as problem:
        # protobuf's DecodeError is not importable under one name across its versions
        raise JobFailed(f"{path} is not a readable ONNX model: {_first_line(problem)}", path=path) from None
    if not model.HasField("graph"):
        raise JobFailed(f"{path} holds no ONNX graph", path=path)
    return model


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def check_external_data(model: Any, path: str) -> None:
    """Refuse a model with external data outside its own folder, or in a file that is missing. Raises JobFailed.

    The folder of the file and the folder that the file itself links to both count as its own: model hubs link a model
    and its data into one store.
    """
    folders = {Path(path).parent.resolve(), Path(path).resolve().parent}
    for tensor in all_tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                _check_location(tensor.name, entry.value, path, folders)


def _check_location(tensor: str, location: str, path: str, folders: Iterable[Path]) -> None:
    details = {"tensor": tensor, "location": location, "path": path}
    target = Path(path).parent.joinpath(location)
    try:
        real = target.resolve()
    except (OSError, RuntimeError, ValueError):  # a NUL byte, a loop of links
        raise JobFailed(
            f"External data of tensor {tensor!r} has an unusable location {location!r}", **details
        ) from None
    inside = any(folder in real.parents for folder in folders)
    if Path(location).is_absolute() or ".." in Path(location).parts or not inside:
        raise JobFailed(
            f"External data of tensor {tensor!r} points outside the model's folder: {location!r}. "
            "Keep the data file beside the model",
            **details,
        )
    if not real.is_file():
        raise JobFailed(f"External data of tensor {tensor!r} is missing: there is no file {target}", **details)


def all_tensors(model: Any) -> Iterator[Any]:
    """Yield every TensorProto of a model: initializers and attributes, in subgraphs and functions too."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in subgraphs_of(attribute):
                yield from _graph_tensors(graph)


def all_nodes(model: Any) -> Iterator[Any]:
    """Yield every node of a model, in subgraphs and functions too."""
    for graph in all_graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def all_graphs(model: Any) -> Iterator[Any]:
    """Yield the main graph of a model and every subgraph, those of functions too."""
    waiting = [model.graph]
    waiting += [graph for function in model.functions for graph in _graphs_below(function.node)]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += _graphs_below(graph.node)


def _graphs_below(nodes: Iterable[Any]) -> list[Any]:
    return [graph for node in nodes for attribute in node.attribute for graph in subgraphs_of(attribute)]


def subgraphs_of(attribute: Any) -> Iterator[Any]:
    """Yield the graphs that an attribute holds."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def dtype_name(element_type: int) -> str:
    """Return the common lower-case name of an ONNX element type: `float32`, `bfloat16`, `string`, `undefined`."""
    import onnx

    if element_type not in onnx.TensorProto.DataType.values():
        return "undefined"
    name: str = onnx.TensorProto.DataType.Name(element_type)
    return DTYPES.get(name, name.lower())


def shape_of(type_proto: Any) -> list[int | str | None] | None:
    """Return the dimensions of a tensor type: a size, a symbolic name or None; None when the rank is not known."""
    tensor = type_proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [_dim(dim) for dim in tensor.shape.dim]


def _dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def default_opset(model: Any) -> int | None:
    """Return the version of the standard operator set that a model imports."""
    versions = [entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}]
    return int(versions[0]) if versions else None
