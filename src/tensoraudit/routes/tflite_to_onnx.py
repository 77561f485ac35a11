"""TensorFlow Lite to ONNX by tf2onnx, which reads the file itself, operation by operation.

Quantised tensors become QuantizeLinear and DequantizeLinear around operations in float32: the arithmetic is another
than the interpreter's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensoraudit.artifacts.tflite import TFLite, chosen, named, parse
from tensoraudit.routes.request import Request

UNKNOWN = "TFL_"
"""tf2onnx leaves an operation that it cannot translate in the file, under a name that begins so."""


MEMORY = frozenset(("VAR_HANDLE", "CALL_ONCE", "READ_VARIABLE", "ASSIGN_VARIABLE", "HASHTABLE"))
"""Operators of variables and tables, which an ONNX graph does not have; tf2onnx stops at them with an IndexError."""
_NOT_KNOWN = "no translation of the TensorFlow Lite operator {names}"


class NoTranslationError(ValueError):
    """The file has operations that tf2onnx does not know."""


def parse_file(path: str) -> TFLite:
    """Return a file's own description. Raises FlatBufferError."""
    return parse(memoryview(Path(path).read_bytes()))


def export(request: Request) -> dict[str, Any]:
    """Write the ONNX file and return the options used; `request.model` is the path of the `.tflite` file.

    Inputs and outputs get the names of the file's signature in place of its tensors'. Raises NoTranslationError, and
    whatever tf2onnx raises.
    """
    import onnx
    from tf2onnx import convert

    options: dict[str, Any] = {"opset": request.opset}
    model = parse_file(request.model)
    if remembered := MEMORY.intersection(each.name for graph in model.graphs for each in graph.operators):
        raise NoTranslationError(_NOT_KNOWN.format(names=", ".join(sorted(remembered))))
    key = chosen(model.signatures)
    if key is not None and model.signatures[key]["graph"]:
        raise NoTranslationError(f"tf2onnx reads the first graph of the file only, and signature {key} is another")
    proto, _ = convert.from_tflite(request.model, output_path=None, **options)
    if unknown := sorted({node.op_type.removeprefix(UNKNOWN) for node in proto.graph.node if _is_unknown(node)}):
        raise NoTranslationError(_NOT_KNOWN.format(names=", ".join(unknown)))
    _rename(proto.graph, dict(_names(model)))
    onnx.save(proto, request.path)
    return options


def _is_unknown(node: Any) -> bool:
    return bool(node.op_type.startswith(UNKNOWN))


def _names(model: TFLite) -> Iterator[tuple[str, str]]:
    for end in ("outputs", "inputs"):
        yield from ((tensor.name, name) for name, tensor in named(model, end))


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Give values other names, in subgraphs too; a name that another value has stays as it is."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    free = {old: new for old, new in names.items() if new == old or new not in taken}
    for each in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        each.name = free.get(each.name, each.name)
    for node in graph.node:
        for ends in (node.input, node.output):
            for place, name in enumerate(ends):
                ends[place] = free.get(name, name)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    _rename(inner, free)


def more(request: Request, problem: BaseException) -> BaseException | None:
    """The converter's own exceptions say all that there is."""
    return None
