"""`onnxruntime.parameters`: the initializers of a file, and what each means to the node that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensoraudit.probes.onnxruntime.model_file import dtype_name, folder_of, load_structure
from tensoraudit.probes.protocol import JobUnsupported, Session

SPACE = {3: "w", 4: "hw", 5: "dhw"}
GATES = {"GRU": "zrn", "LSTM": "iofg", "RNN": "o"}
NORMALISED = ("", "gamma", "beta", "mean", "variance")
RECURRENT = {1: ("kernel", "input"), 2: ("kernel", "state"), 3: ("bias", "")}
"""By the place among the inputs of a recurrent node."""
SMALL = 2
"""Constants of fewer elements are settings (a shape, an epsilon), not weights."""


def parameters(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return the floating initializers in the order of the nodes that read them; see `pytorch.parameters` for the rows.

    `module` is the name of that node and `class` its operator. A file has no modules, so that "modules" is empty.
    """
    session.pack()
    model = load_structure(params["path"], session)
    tensors = dict(_tensors(model.graph))
    rows = [_row(name, tensors[name], node, place, model) for name, node, place in _readers(model.graph, tensors)]
    for row in rows if params.get("values") else ():
        row["tensor"] = session.put(_array(tensors[row["name"]], params["path"]))
    return {"parameters": rows, "modules": []}


def _tensors(graph: Any) -> Iterator[tuple[str, Any]]:
    """Initializers, and constants that nodes make."""
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], each.t) for each in node.attribute if each.name == "value")


def _readers(graph: Any, tensors: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Each floating weight once, with the first node that reads it and at which place."""
    seen: set[str] = set()
    for node in graph.node:
        for place, name in enumerate(node.input):
            tensor = tensors.get(name)
            if name in seen or tensor is None or "float" not in dtype_name(tensor.data_type):
                continue
            seen.add(name)
            if _size(tensor) >= SMALL:
                yield name, node, place


def _size(tensor: Any) -> int:
    size = 1
    for each in tensor.dims:
        size *= int(each)
    return size


def _row(name: str, tensor: Any, node: Any, place: int, model: Any) -> dict[str, Any]:
    kind, axes, gates, part = _meaning(node, place, len(tensor.dims))
    return {
        **{"name": name, "shape": [int(size) for size in tensor.dims], "dtype": dtype_name(tensor.data_type)},
        **{"module": node.name or node.output[0], "class": node.op_type},
        **{"kind": kind, "axes": axes, "gates": gates, "part": part, "cell": ""},
    }


def _meaning(node: Any, place: int, rank: int) -> tuple[str, str, str, str]:
    """Kind, axes, gates and part, as the operator's definition says; a fused or plain product leaves them open."""
    op = node.op_type
    if op in {"Conv", "ConvTranspose"} and place in {1, 2}:
        order = "io" if op == "ConvTranspose" else "oi"
        return ("kernel", order + SPACE.get(rank, ""), "", "") if place == 1 else ("bias", "o", "", "")
    if op == "BatchNormalization" and 1 <= place < len(NORMALISED):
        return NORMALISED[place], "c", "", ""
    if op in {"LayerNormalization", "InstanceNormalization", "GroupNormalization"} and place in {1, 2}:
        return NORMALISED[place], "c" if rank == 1 else "", "", ""
    if op == "Gemm" and place in {1, 2}:
        turned = any(each.name == "transB" and each.i for each in node.attribute)
        return ("kernel", "oi" if turned else "io", "", "") if place == 1 else ("bias", "o", "", "")
    if op == "MatMul" and place == 1 and rank == 2:
        return "kernel", "io", "", ""
    if op == "Gather" and place == 0 and rank == 2:
        return "embedding", "vc", "", ""
    if op in GATES and place in RECURRENT:
        return RECURRENT[place][0], "", GATES[op], RECURRENT[place][1]
    return "other", "", "", ""


def _array(tensor: Any, path: str) -> Any:
    import onnx

    try:
        return onnx.numpy_helper.to_array(tensor, base_dir=folder_of(path))
    except (OSError, ValueError) as problem:
        raise JobUnsupported(f"{tensor.name} cannot be read: {problem}") from problem
