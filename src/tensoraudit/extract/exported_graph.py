"""From the graph of an ExportedProgram, as the JSON that `torch.export.save` writes, to nodes and values.

Schema 8 of torch 2.13 (torch/_export/serde/schema.py); the schemas 5 to 7 lack fields that are not needed here.
1. `torch.ops.aten.conv2d.default` is the op `aten.conv2d.default`, its overload `default`; `_operator.mul` stays.
2. Arguments that are values become inputs, in order; in a list of optional tensors a missing one is "". All others are
   attributes under the name of their parameter. A list that mixes numbers and symbolic sizes is both.
3. The graphs of `cond`, `map` and their like are graphs of their own: `main/cond.true_graph_0`.
4. A symbolic size is written as an expression over the program's symbols: `s77`, `2*s77`.
What does not follow the schema raises KeyError, TypeError and the like; `exported_program` turns that into words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensoraudit.extract.user_source import SourceLine, choose_line
from tensoraudit.facts import ABSENT, Dim, Fact, Node, Side, Site, Unknown, Value

DTYPES: Final[Mapping[int, str]] = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
_MEMORY_FORMATS: Final = ("unknown", "contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
_LAYOUTS: Final = (
    "unknown",
    "sparse_coo",
    "sparse_csr",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
    "_mkldnn",
    "strided",
)
_FRAME: Final = re.compile(
    r'^\s*File "(?P<path>[^"\n]+)", line (?P<line>\d+), in [^\n]*(?:\n    (?P<text>[^\n]*))?', re.MULTILINE
)
_LONGEST_EXPRESSION: Final = 2000
_LONGEST_STACK: Final = 100_000

Graph = Mapping[str, Any]


@dataclass(slots=True)
class GraphFile:
    """What all facts of one program share. `roles` are those of the main graph's placeholders and results."""

    path: str
    side: Side
    relative: Callable[[str], str]
    roles: Mapping[str, str]
    facts: list[Fact] = field(default_factory=list)


def read_graph(file: GraphFile, graph: Graph, path: str = "main") -> None:
    """Add the values and nodes of one graph and of the graphs inside it to `file.facts`."""
    file.facts.extend(_values(file, graph, path))
    for entry in graph["nodes"]:
        _read_node(file, entry, path)


def _values(file: GraphFile, graph: Graph, path: str) -> Iterator[Value]:
    inputs = {name for argument in graph["inputs"] for name in _names(argument)}
    outputs = {name for argument in graph["outputs"] for name in _names(argument)}
    site = Site(file.path)
    for name, meta in graph["tensor_values"].items():
        dtype, shape = tensor_type(meta)
        role: Any = (file.roles.get(name) if path == "main" else None) or _role(name, inputs, outputs)
        constant = Unknown("stored in the archive") if role == "initializer" else ABSENT
        yield Value(name, dtype, shape, constant, role, path, file.side, site)
    for kind, dtype in (("sym_int_values", "int64"), ("sym_float_values", "float64"), ("sym_bool_values", "bool")):
        for name in graph.get(kind) or {}:
            yield Value(name, dtype, (), ABSENT, _role(name, inputs, outputs), path, file.side, site)  # type: ignore[arg-type]


def _role(name: str, inputs: set[str], outputs: set[str]) -> str:
    return "input" if name in inputs else "output" if name in outputs else "intermediate"


def tensor_type(meta: Mapping[str, Any]) -> tuple[str | Unknown, tuple[Dim, ...]]:
    """Return dtype and shape of a tensor's description."""
    dtype = DTYPES.get(meta["dtype"], Unknown(f"scalar type {meta['dtype']}"))
    return dtype, tuple(map(dimension, meta["sizes"]))


def dimension(size: Mapping[str, Any]) -> Dim:
    """Return a size: a number, the expression over symbols that it is, or Unknown for one too long to show."""
    if size.get("as_int") is not None:
        return int(size["as_int"])
    return expression(size["as_expr"]["expr_str"])


def expression(text: str) -> str | Unknown:
    """Return `2*s77` for `Mul(Integer(2), Symbol('s77', positive=True, integer=True))`."""
    if len(text) > _LONGEST_EXPRESSION:
        return Unknown("a long expression")
    try:
        node = ast.parse(text, mode="eval").body
        return _plain(node) if isinstance(node, ast.Call) else text  # older torch writes `2*s0` itself
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


_INFIX: Final = {"Add": " + ", "Mul": "*", "Pow": "**"}


def _plain(node: ast.expr) -> str:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ast.unparse(node)
    name, parts = node.func.id, node.args
    if name == "Symbol" and parts and isinstance(parts[0], ast.Constant):
        return str(parts[0].value)
    if name == "Integer" and parts:
        return ast.unparse(parts[0])
    inner = [_plain(part) for part in parts]
    if name in _INFIX:
        return _INFIX[name].join(f"({part})" if " " in part else part for part in inner)
    return f"{name}({', '.join(inner)})"


# nodes


def _read_node(file: GraphFile, entry: Mapping[str, Any], path: str) -> None:
    arguments = _Arguments()
    for position, named in enumerate(entry["inputs"]):
        arguments.add(named["name"] or str(position), named["arg"])
    outputs = [name for argument in entry["outputs"] for name in _names(argument)]
    op, overload = _target(str(entry["target"]))
    name = entry.get("name") or (outputs[0] if outputs else op)
    site, metadata = _place(file, entry.get("metadata") or {}, name)
    file.facts.append(
        Node(
            op,
            op.partition(".")[0],
            None,
            name,
            arguments.attributes,
            tuple(arguments.inputs),
            tuple(outputs),
            path,
            site,
            file.side,
            overload,
            metadata,
            file.path,
        )
    )
    for label, graph in arguments.graphs:
        read_graph(file, graph, f"{path}/{name}.{label}")


def _target(target: str) -> tuple[str, str]:
    op = target.removeprefix("torch.ops.")
    parts = op.split(".")
    return op, parts[2] if op != target and len(parts) == 3 else ""


def _place(file: GraphFile, metadata: Mapping[str, Any], name: str) -> tuple[Site, dict[str, str]]:
    kept: dict[str, str] = {}
    module = str(metadata.get("nn_module_stack", "")).rpartition(";")[2].split(",")
    if len(module) == 3 and not module[0].startswith("_empty"):
        kept.update({"module": module[1], "class": module[2]})
    line = choose_line(reversed(list(frames(str(metadata.get("stack_trace") or "")))))
    if line is None:
        return Site(file.path, node=name), kept
    if line.text:
        kept["text"] = line.text
    return Site(file.relative(line.path), line.line, node=name), kept


def frames(stack: str) -> Iterator[SourceLine]:
    """Yield the frames of a Python stack trace, outermost first."""
    for found in _FRAME.finditer(stack[-_LONGEST_STACK:]):
        yield SourceLine(found["path"], int(found["line"][:9]), (found["text"] or "").strip())


class _Arguments:
    """The inputs, attributes and graphs among the arguments of one node."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.attributes: dict[str, Any] = {}
        self.graphs: list[tuple[str, Graph]] = []

    def add(self, name: str, argument: Mapping[str, Any]) -> None:
        kind, value = union(argument)
        if kind == "as_graph":
            self.graphs.append((str(value["name"]), value["graph"]))
            return
        self.inputs.extend(_names(argument))
        constant = _CONSTANTS.get(kind)
        if constant is not None:
            self.attributes[name] = constant(value)


def union(argument: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the one member of a union that is set. Older schemas write the others as null."""
    return next((kind, value) for kind, value in argument.items() if value is not None)


def _names(argument: Mapping[str, Any]) -> list[str]:
    """Return the names of the values that an argument or result is."""
    kind, value = union(argument)
    read = _VALUES.get(kind)
    return read(value) if read is not None else []


def _optional(value: Mapping[str, Any]) -> str:
    kind, inner = union(value)
    return str(inner["name"]) if kind == "as_tensor" else ""


def _symbols(values: list[Mapping[str, Any]]) -> list[str]:
    return [str(value["as_name"]) for value in values if value.get("as_name") is not None]


_VALUES: Final[Mapping[str, Callable[[Any], list[str]]]] = {
    "as_tensor": lambda value: [str(value["name"])],
    "as_tensors": lambda value: [str(item["name"]) for item in value],
    "as_nested_tensors": lambda value: [str(item["name"]) for inner in value for item in inner],
    "as_optional_tensor": lambda value: [_optional(value)],
    "as_optional_tensors": lambda value: [_optional(item) for item in value],
    "as_custom_obj": lambda value: [str(value["name"])],
    **{f"as_sym_{kind}": lambda value: _symbols([value]) for kind in ("int", "float", "bool")},
    **{f"as_sym_{kind}s": _symbols for kind in ("int", "float", "bool")},
}


def _mixed(values: list[Mapping[str, Any]]) -> tuple[Any, ...]:
    return tuple(_symbol(value) for value in values)


def _symbol(value: Mapping[str, Any]) -> Any:
    kind, inner = union(value)
    return Unknown(f"the value {inner}") if kind == "as_name" else inner


def _device(value: Mapping[str, Any]) -> str:
    return str(value["type"]) if value.get("index") is None else f"{value['type']}:{value['index']}"


def _nested(value: Any) -> Any:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


_CONSTANTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "as_none": lambda _: None,
    **{f"as_{kind}": lambda value: value for kind in ("int", "bool", "string", "operator")},
    "as_float": float,  # infinity and nan are written as text
    **{f"as_{kind}": _nested for kind in ("ints", "floats", "bools", "strings", "int_lists", "float_lists")},
    "as_scalar_type": lambda value: DTYPES.get(value, Unknown(f"scalar type {value}")),
    "as_memory_format": lambda value: _MEMORY_FORMATS[value],
    "as_layout": lambda value: _LAYOUTS[value],
    "as_device": _device,
    "as_complex": lambda value: complex(value["real"], value["imag"]),
    **{f"as_sym_{kind}s": _mixed for kind in ("int", "float", "bool")},
    **{f"as_sym_{kind}": _symbol for kind in ("int", "float", "bool")},
}
