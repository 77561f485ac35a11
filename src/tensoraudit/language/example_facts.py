"""From an example inside a rule to facts, through the same extractors that read real input.

`onnx` (for its text syntax) is imported inside the one function that needs it: an optional package of those who write
rules.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensoraudit.errors import UserError
from tensoraudit.extract.onnx import read_onnx
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import (
    ABSENT,
    Checkpoint,
    Device,
    Fact,
    Measurement,
    Model,
    Node,
    Package,
    Side,
    Site,
    Tensor,
    Unknown,
    Value,
    Variable,
)
from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Items, Table, Tree, plain
from tensoraudit.language.example import Example, without_marks
from tensoraudit.language.metrics import METRICS
from tensoraudit.language.problems import Wrong, nearest
from tensoraudit.language.schema import DTYPES

_TYPED = re.compile(r"\s*(?P<dtype>\w+)?\s*(\[(?P<shape>[^\]]*)\])?\s*(?P<role>\w+)?\s*")
_NODE_KEYS = ("op", "domain", "name", "attributes", "inputs", "outputs", "graph", "opset", "overload", "metadata")
_ONNX_FORMATS = frozenset({"onnx", "onnx_model"})
_STANDARD_OPSET = 18


class CannotBuildError(Exception):
    """An example that is right cannot be read here, because an optional package is missing."""


def example_facts(example: Example) -> list[Fact]:
    """Return the facts of an example. Raises Wrong for a part that is wrong, CannotBuildError without `onnx`."""
    return [
        fact for key, build in _BUILDERS.items() if key in example.parts for fact in build(example, example.parts[key])
    ]


def _side(example: Example, default: Side) -> Side:
    tree = example.parts.get("side")
    return wrong.one_of(tree, ("source", "target"), "side") if tree else default  # type: ignore[return-value]


# Source


def _python(example: Example, tree: Tree) -> Iterator[Fact]:
    file = wrong.text(example.parts["file"], "file") if "file" in example.parts else "example.py"
    read = read_python_text(without_marks(wrong.text(tree, "python")), file, side=_side(example, "source"))
    if read.skipped:
        raise Wrong(tree, f"the example cannot be read: {read.skipped[0].reason}")
    yield from read.facts


# ONNX text


def _onnx(example: Example, tree: Tree) -> Iterator[Fact]:
    lines = without_marks(wrong.text(tree, "onnx"))
    yield from _read_model(_model_text(example, lines, tree), tree, example)


def _onnx_model(example: Example, tree: Tree) -> Iterator[Fact]:
    yield from _read_model(without_marks(wrong.text(tree, "onnx_model")), tree, example)


def _model_text(example: Example, lines: str, tree: Tree) -> str:
    """Write the model around node lines: what no line makes is an input, what no line reads is an output."""
    nodes = parsed_nodes(lines, tree)
    made = dict.fromkeys(name for node in nodes for name in node.output)
    read = dict.fromkeys(name for node in nodes for name in _reads(node) if name)
    constants = [_with_bits(declaration) for declaration in _declared(example, "initializers")]
    known = set(made) | {declaration.split("=")[0].split()[-1] for declaration in constants}
    inputs = _completed(_declared(example, "inputs"), [name for name in read if name not in known])
    outputs = _completed(_declared(example, "outputs"), [name for name in made if name not in read])
    # A list of `values` declares types here; a mapping of values belongs to lists of nodes.
    types = _declared(example, "values") if isinstance(example.parts.get("values"), Items) else []
    declared = f"<{', '.join([*types, *constants])}>" if types or constants else ""
    signature = f"({', '.join(inputs)}) => ({', '.join(outputs)})"
    return f"<{_header(example, nodes)}>\nexample {signature} {declared} {{\n{lines}\n}}"


def _declared(example: Example, key: str) -> list[str]:
    return list(wrong.texts(example.parts[key], key)) if key in example.parts else []


def _with_bits(declaration: str) -> str:
    """Write float16 numbers as the bit patterns that ONNX text wants."""
    head, equals, values = declaration.partition("=")
    if not head.strip().startswith("float16") or "." not in values:
        return declaration
    return head + equals + re.sub(r"[-+.\w]+", lambda found: str(np.float16(found[0]).view(np.uint16)), values)


def _completed(declared: list[str], names: list[str]) -> list[str]:
    known = {declaration.split()[-1] for declaration in declared}
    return [*declared, *(_quoted(name) for name in names if name not in known)]


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f'"{name}"'


def _reads(node: Any) -> Iterator[str]:
    """Yield what a node reads from the graph around it, its subgraphs included."""
    yield from node.input
    for graph in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
        own = {*(value.name for value in graph.input), *(name for inner in graph.node for name in inner.output)}
        yield from (name for inner in graph.node for name in _reads(inner) if name not in own)


def _header(example: Example, nodes: list[Any]) -> str:
    version = plain(example.parts["opset"]) if "opset" in example.parts else _STANDARD_OPSET
    opsets = {"": version, **{node.domain: 1 for node in nodes if node.domain}}
    if "opsets" in example.parts:
        opsets.update(plain(wrong.table(example.parts["opsets"], "opsets")))
    ir_version = plain(example.parts["ir_version"]) if "ir_version" in example.parts else 10
    imports = ", ".join(f'"{domain}" : {number}' for domain, number in opsets.items())
    return f"ir_version: {ir_version}, opset_import: [{imports}]"


def parsed_nodes(lines: str, tree: Tree) -> list[Any]:
    """Return the NodeProto of each line. Raises Wrong with the number of the line that is none."""
    parser = _parser()
    nodes = []
    for number, line in enumerate(lines.splitlines(), 1):
        if line.split("#")[0].strip():
            try:
                nodes.append(parser.parse_node(line))
            except Exception as error:
                raise Wrong(tree, f"line {number} of the example is no node: {_last_line(error)}") from None
    return nodes


def node_lines(lines: str) -> list[int]:
    """Return the line numbers that hold a node, in the order of the nodes."""
    return [number for number, line in enumerate(lines.splitlines(), 1) if line.split("#")[0].strip()]


def _read_model(text: str, tree: Tree, example: Example) -> list[Fact]:
    try:
        model = _parser().parse_model(text)
    except Exception as error:
        raise Wrong(tree, f"the example is no ONNX model: {_last_line(error)}") from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "example.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            return read_onnx(path, _side(example, "target"))
        except UserError as error:
            raise Wrong(tree, f"the example cannot be read: {error.message}") from None


def _parser() -> Any:
    """Return the parser of the package that writes ONNX text. Frameworks live in workers; this one name is looked up
    only to run the examples of rules, which no audit does."""
    try:
        return importlib.import_module("onnx.parser")
    except ImportError as error:
        raise CannotBuildError("the example is ONNX text; install the package onnx to run it") from error


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


# Graphs as lists


def _nodes(domain: str | None) -> Callable[[Example, Tree], Iterator[Fact]]:
    def build(example: Example, tree: Tree) -> Iterator[Fact]:
        if not isinstance(tree, Items):
            raise Wrong(tree, "a list of nodes is expected, such as [{op: Conv, name: c, inputs: [x]}]")
        for number, item in enumerate(tree.items):
            yield _node(wrong.table(item, "a node"), number, domain, _side(example, "source"))

    return build


def _node(rows: Table, number: int, domain: str | None, side: Side) -> Node:
    _check_keys(rows, _NODE_KEYS, "node")
    if "op" not in rows.items:
        raise Wrong(rows, "a node needs 'op'")
    data = plain(rows)
    op, name = data["op"], data.get("name", "")
    own = re.match(r"[A-Za-z_]\w*", op)
    return Node(
        op=op,
        domain=data.get("domain", "" if domain is None or own is None else own[0]),
        opset=data.get("opset"),
        name=name,
        attributes={key: _frozen(value) for key, value in data.get("attributes", {}).items()},
        inputs=tuple(data.get("inputs", ())),
        outputs=tuple(data.get("outputs", (f"{name or number}:0",))),
        graph=data.get("graph", "main"),
        at=Site(path="example", node=name or None),
        side=side,
        overload=data.get("overload", ""),
        metadata=data.get("metadata"),
    )


def _values(example: Example, tree: Tree) -> Iterator[Fact]:
    if isinstance(tree, Items):
        return  # declarations of types beside ONNX text
    for name, row in wrong.table(tree, "values").items.items():
        yield _value(str(name), row, "intermediate", _side(example, "source"))


def _value(name: str, tree: Tree, role: str, side: Side) -> Value:
    data = _typed(tree)
    return Value(
        name,
        data.get("dtype") or Unknown("no dtype is given"),
        data["shape"] if data.get("shape") is not None else Unknown("no shape is given"),
        _frozen(data["constant"]) if "constant" in data else ABSENT,
        data.get("role") or role,  # type: ignore[arg-type]
        data.get("graph", "main"),
        side,
        Site(path="example"),
    )


def _typed(tree: Tree) -> dict[str, Any]:
    """Read `float32[batch,3] input`, or a mapping of the same."""
    if isinstance(tree, Table):
        data: dict[str, Any] = plain(tree)
        return {**data, "shape": tuple(data["shape"])} if "shape" in data else data
    text = wrong.text(tree, "a typed value")
    found = _TYPED.fullmatch(text)
    if found is None:
        raise Wrong(tree, f"'{text}' is no typed value such as 'float32[batch,3] input'")
    if found["dtype"] and found["dtype"] not in DTYPES:
        raise Wrong(tree, f"'{found['dtype']}' is no dtype{nearest(found['dtype'], DTYPES)}")
    shape = (
        None
        if found["shape"] is None
        else tuple(_dimension(part) for part in found["shape"].split(",") if part.strip())
    )
    return {"dtype": found["dtype"], "shape": shape, "role": found["role"]}


def _dimension(text: str) -> int | str | Unknown:
    text = text.strip()
    if text == "?":
        return Unknown("the dimension has no name")
    return int(text) if text.isdigit() else text


def _model(example: Example, tree: Tree) -> Iterator[Fact]:
    rows = wrong.table(tree, "model")
    _check_keys(rows, ("format", "producer", "version", "opsets", "inputs", "outputs", "metadata"), "model")
    data = plain(rows)
    model_format = data.get("format", "onnx")
    side = _side(example, "target" if model_format in _ONNX_FORMATS else "source")

    def ends(key: str, role: str) -> tuple[Value, ...]:
        values = wrong.table(rows.items[key], key).items if key in rows.items else {}
        return tuple(_value(str(name), row, role, side) for name, row in values.items())

    yield Model(
        model_format, data.get("producer", ""), data.get("version"), data.get("opsets", {}), ends("inputs", "input"),
        ends("outputs", "output"), data.get("metadata", {}), Site(path="example"), side,
    )  # fmt: skip


# Weights, environments, measurements


def _tensors(example: Example, tree: Tree) -> Iterator[Fact]:
    for name, row in wrong.table(tree, "tensors").items.items():
        data = _typed(row)
        yield Tensor(
            str(name), data.get("dtype") or "", data.get("shape") or (), data.get("file", "example"), None, 0,
            data.get("location", "inline"), Site(path="example", tensor=str(name)), _side(example, "source"),
        )  # fmt: skip


def _checkpoint(example: Example, tree: Tree) -> Iterator[Fact]:
    rows = wrong.table(tree, "checkpoint")
    _check_keys(rows, ("format", "files", "imports", "metadata"), "checkpoint")
    data = plain(rows)
    files, imports = tuple(data.get("files", ("example",))), tuple(data.get("imports", ()))
    site = Site(path="example")
    yield Checkpoint(data.get("format", ""), files, imports, data.get("metadata", {}), site, _side(example, "source"))


def _environment(example: Example, tree: Tree) -> Iterator[Fact]:
    rows = wrong.table(tree, "environment")
    _check_keys(rows, ("source", "target", "variables", "devices"), "environment")
    for side in ("source", "target"):
        yield from _packages(rows, side)
    for kind, build in (("variables", _variable), ("devices", _device)):
        if kind in rows.items:
            sides = wrong.table(rows.items[kind], kind)
            _check_keys(sides, ("source", "target"), kind)
            for side, inner in sides.items.items():
                yield from build(inner, side)


def _packages(rows: Table, side: Any) -> Iterator[Fact]:
    if side not in rows.items:
        return
    # An environment that is given is known: what it does not name is not installed.
    yield Package("python", "3.11.0", side)
    for name, version in wrong.table(rows.items[side], side).items.items():
        yield Package(re.sub(r"[-_.]+", "-", str(name)).lower(), wrong.text(version, f"the version of {name}"), side)


def _variable(tree: Tree, side: Any) -> Iterator[Fact]:
    for name, value in wrong.table(tree, "variables").items.items():
        yield Variable(str(name), wrong.text(value, f"the value of {name}"), side)


def _device(tree: Tree, side: Any) -> Iterator[Fact]:
    for item in tree.items if isinstance(tree, Items) else (tree,):
        data = plain(item) if isinstance(item, Table) else {"kind": wrong.text(item, "a device")}
        yield Device(data["kind"], data.get("name", ""), data.get("capability", ""), data.get("driver", ""), side)


def _measurements(example: Example, tree: Tree) -> Iterator[Fact]:
    if isinstance(tree, Table):
        for metric, value in tree.items.items():
            yield Measurement(wrong.one_of(tree.keys[metric], METRICS, "metric"), "model", _frozen(plain(value)))
        return
    if not isinstance(tree, Items):
        raise Wrong(tree, "measurements are a mapping of metric to value, or a list")
    for item in tree.items:
        rows = wrong.table(item, "a measurement")
        _check_keys(rows, ("measurement", "subject", "value", "target", "side", "detail"), "measurement")
        data: Mapping[str, Any] = plain(rows)
        if "measurement" not in data:
            raise Wrong(rows, "a measurement needs 'measurement', the metric")
        yield Measurement(
            wrong.one_of(rows.items["measurement"], METRICS, "metric"), data.get("subject", "model"),
            _frozen(data.get("value")),
            side=data.get("side", "both"), target=data.get("target", ""), detail=data.get("detail", ""),
        )  # fmt: skip


def _check_keys(rows: Table, known: tuple[str, ...], what: str) -> None:
    for key in rows.items:
        if key not in known:
            raise Wrong(rows.keys[key], f"a {what} of an example has no '{key}'{nearest(str(key), known)}")


def _frozen(data: Any) -> Any:
    return tuple(_frozen(item) for item in data) if isinstance(data, list) else data


_BUILDERS: Mapping[str, Callable[[Example, Tree], Iterator[Fact]]] = {
    "python": _python,
    "onnx": _onnx,
    "onnx_model": _onnx_model,
    "nodes": _nodes(None),
    "torchscript": _nodes("own"),
    "exported_program": _nodes("own"),
    "values": _values,
    "model": _model,
    "tensors": _tensors,
    "checkpoint": _checkpoint,
    "environment": _environment,
    "measurements": _measurements,
}
