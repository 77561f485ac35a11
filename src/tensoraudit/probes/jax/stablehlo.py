"""The StableHLO operators of a program that `jax.export` serialized.

`main` is its public function, every other one a graph `fn:name`; the regions of `while`, `case`, `reduce` and their
like are graphs of their own (`main/while_3.region[0]`). The domain is "stablehlo", or another dialect's ("func" of
`call`), and operators stand without that prefix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.listing import MAX_CONSTANT, Listing, Operation, constant
from tensoraudit.routes.source import Place, is_machinery, place

CONTROL_FLOW = ("case", "if", "while")
_LONGEST = 200
_LOCATION = re.compile(r'"(?P<path>[^"\n]+\.py)":(?P<line>\d+)')
_TYPE = re.compile(r"tensor<(?P<dims>(?:[\d?]+x)*)(?P<dtype>[a-z]\w*)(?:,[^>]*)?>")
_WORD = re.compile(r"#stablehlo<\w+ (\w+)>")
"""An enumeration: `#stablehlo<comparison_direction LT>`."""
_DTYPES = {
    "i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip
_NAMES = frozenset(("sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility"))


def list_module(exported: Any) -> dict[str, Any]:
    """Return the operators of a `jax.export.Exported`. Raises JobUnsupported for more than 50,000."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    listing = Listing("stablehlo", CONTROL_FLOW)
    with mlir.make_ir_context() as context:
        module = ir.Module.parse(exported.mlir_module(), context)
        for function in module.body.operations:
            attributes = function.attributes
            name = str(attributes["sym_name"]).strip('"') if "sym_name" in attributes else ""
            graph = "main" if name == "main" else f"fn:{name}"
            for region in function.regions:
                for block in region.blocks:
                    _Block(listing, graph, {}).read(block)
    return listing.result()


class _Block:
    """One block of operators. `names` are those of the values around it."""

    def __init__(self, listing: Listing, graph: str, names: Mapping[Any, str]) -> None:
        self._listing, self._graph, self._names = listing, graph, dict(names)

    def read(self, block: Any) -> None:
        """List the operators of a block and of those inside it."""
        for number, argument in enumerate(block.arguments):
            self._declare(argument, f"arg{number}", "input")
        rows = list(block.operations)
        returned = [hash(each) for row in rows if _dialect(row)[1] == "return" for each in row.operands]
        for number, row in enumerate(rows):
            if _dialect(row)[1] != "return":
                self._node(row, number, set(returned))

    def _declare(self, value: Any, name: str, role: str, known: Any = None) -> str:
        label = name if "/" not in self._graph else f"{name}@{self._graph}"
        self._names[hash(value)] = label
        found = self._listing.value(label, role, self._graph, *_type(str(value.type)))
        if known is not None:
            found["constant"] = known
        return label

    def _node(self, row: Any, number: int, returned: set[Any]) -> None:
        domain, op = _dialect(row)
        name = f"{op}_{number}"
        inputs = [self._names.get(hash(each), "") for each in row.operands]
        attributes: dict[str, Any] = dict(_attributes(row))
        known = attributes.get("value") if op == "constant" else None
        outputs = []
        for index, each in enumerate(row.results):
            role = "initializer" if op == "constant" else "output" if hash(each) in returned else "intermediate"
            outputs.append(self._declare(each, f"{name}:{index}", role, known))
        places = [f"{self._graph}/{name}.region[{index}]" for index in range(len(row.regions))]
        if places:
            attributes["regions"] = places
        what = Operation(op, domain, name, self._graph)
        self._listing.node(what, inputs, outputs, attributes, _source(str(row.location)))
        for where, region in zip(places, row.regions):  # noqa: B905 - Python 3.9
            for block in region.blocks:
                _Block(self._listing, where, self._names).read(block)


def _dialect(row: Any) -> tuple[str, str]:
    domain, _, op = str(row.operation.name).rpartition(".")
    return domain, op


def _attributes(row: Any) -> Iterator[tuple[str, Any]]:
    for attribute in row.attributes:
        name = attribute.name if hasattr(attribute, "name") else str(attribute)
        value = attribute.attr if hasattr(attribute, "attr") else row.attributes[name]
        if name not in _NAMES:
            yield name, _plain(value)


def _plain(value: Any) -> Any:
    from jax._src.lib.mlir import ir

    if _is(value, ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr):
        return value.value
    if _is(value, ir.DenseElementsAttr):
        return _elements(value, ir)
    if _is(value, ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr):
        return list(value)
    text = str(value)
    if _is(value, ir.FlatSymbolRefAttr):
        return f"fn:{text.lstrip('@')}"
    if word := _WORD.fullmatch(text):
        return word[1]
    return text if len(text) <= _LONGEST else {"unknown": "a long attribute"}


def _elements(value: Any, ir: Any) -> Any:
    count = math.prod(ir.ShapedType(value.type).shape)
    if count > MAX_CONSTANT:
        return {"unknown": f"a constant of {count:,} elements"}
    try:
        return constant(np.array(value))
    except (ValueError, TypeError, NotImplementedError):  # an element type that NumPy lacks
        return {"unknown": f"a constant of type {value.type}"}


def _is(value: Any, *kinds: Any) -> bool:
    """Whether an attribute is of a kind; older bindings have a method for that."""
    return any(kind.isinstance(value) if hasattr(kind, "isinstance") else isinstance(value, kind) for kind in kinds)


def _type(text: str) -> tuple[str | None, list[Any] | None]:
    found = _TYPE.fullmatch(text)
    if found is None:
        return None, None
    dims = [int(each) if each.isdigit() else None for each in found["dims"].split("x")[:-1]]
    return _DTYPES.get(found["dtype"], found["dtype"]), dims


def _source(location: str) -> Place | None:
    for found in _LOCATION.finditer(location):
        if not is_machinery(found["path"]):
            return place(found["path"], int(found["line"]))
    return None
