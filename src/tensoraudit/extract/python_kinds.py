"""Origins of expressions by their kind, whatever the order of statements: one function for each kind of syntax node.

What names, attributes and calls stand for is asked of the `Inference` of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tensoraudit.extract import known_results
from tensoraudit.extract.python_containers import may_make, taken
from tensoraudit.extract.python_origins import NOTHING, UNKNOWN, Origins, each, holding, unite
from tensoraudit.extract.python_scopes import Table

if TYPE_CHECKING:
    from tensoraudit.extract.python_inference import Inference

_TENSOR: Final = (known_results.TENSOR,)

_MOST_TOLD: Final = 64
"""Items of a display that are looked at; a longer one is data."""


def _conditional(inference: Inference, node: ast.IfExp, table: Table) -> Origins:
    return unite(inference.all_of((node.body, node.orelse), table))


def _boolean(inference: Inference, node: ast.BoolOp, table: Table) -> Origins:
    return unite(inference.all_of(node.values, table))


def _binary(inference: Inference, node: ast.BinOp, table: Table) -> Origins:
    return arithmetic(inference.all_of((node.left, node.right), table))


def _unary(inference: Inference, node: ast.UnaryOp, table: Table) -> Origins:
    return arithmetic((inference.expression(node.operand, table),))


def _inner(inference: Inference, node: ast.Await | ast.NamedExpr, table: Table) -> Origins:
    return inference.expression(node.value, table)


def _constant(inference: Inference, node: ast.Constant, _: Table) -> Origins:
    return constant_origin(node)


def _name(inference: Inference, node: ast.Name, table: Table) -> Origins:
    return inference.look_up(node.id, table).origins


def _attribute(inference: Inference, node: ast.Attribute, table: Table) -> Origins:
    return inference.member(inference.expression(node.value, table), node.attr, table)


def _subscript(inference: Inference, node: ast.Subscript, table: Table) -> Origins:
    return inference.subscript(inference.expression(node.value, table), node.slice)


def _call(inference: Inference, node: ast.Call, table: Table) -> Origins:
    receivers: Origins = ()
    if isinstance(node.func, ast.Attribute):
        receivers = inference.expression(node.func.value, table)
        functions = inference.member(receivers, node.func.attr, table)
    else:
        functions = inference.expression(node.func, table)
    if may_make(functions, receivers):
        given = [item.value if isinstance(item, ast.Starred) else item for item in node.args]
        made = inference.made(functions, receivers, inference.all_of(given, table), node)
        if made is not None:
            return made
    return inference.result(functions, receivers, table)


def _display(inference: Inference, node: ast.List | ast.Tuple | ast.Set, table: Table) -> Origins:
    head = display_origin(node)[0]
    if len(node.elts) > _MOST_TOLD:
        return (head,)
    return packed(head, node.elts, [_item_of_display(inference, item, table) for item in node.elts])


def _item_of_display(inference: Inference, node: ast.expr, table: Table) -> Origins:
    return inference.expression(node.value if isinstance(node, ast.Starred) else node, table)


def _dict(inference: Inference, node: ast.Dict, table: Table) -> Origins:
    if len(node.values) > _MOST_TOLD or None in node.keys:
        return ("dict()",)
    return (each("dict()", unite(inference.all_of(node.values, table)) if node.values else ()),)


def _comprehension(
    inference: Inference, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, table: Table
) -> Origins:
    """What it binds has no table: only an item made by names from outside, or each item of what it runs over, is
    known."""
    head = display_origin(node)[0]
    made = node.value if isinstance(node, ast.DictComp) else node.elt
    root = made
    while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
        root = root.func if isinstance(root, ast.Call) else root.value
    inner = {name for generator in node.generators for name in target_names(generator.target)}
    if not isinstance(root, ast.Name) or root.id in inner or _passes_on(made):
        return (head,)
    return (each(head, inference.expression(made, table)),)


def packed(head: str, nodes: Sequence[ast.expr], items: Sequence[Origins]) -> Origins:
    """Return the origins of a display; `items` are those of its parts, of a starred one those of what it unpacks."""
    if not any(isinstance(node, ast.Starred) for node in nodes):
        return (holding(head, items),)
    told = [
        taken(item, "*") if isinstance(node, ast.Starred) else item for node, item in zip(nodes, items, strict=True)
    ]
    return (each(head, unite(told)),)


def _passes_on(node: ast.expr) -> bool:
    """Tell whether what a call returns depends on its arguments."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PASSING


_PASSING = frozenset({"copy", "deepcopy", "enumerate", "iter", "list", "next", "partial", "sorted", "tuple", "zip"})


def target_names(target: ast.expr) -> list[str]:
    """Return the plain names that an assignment to `target` binds."""
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def constant_origin(node: ast.Constant) -> Origins:
    """Return the origin of a written constant: the built-in type that makes it."""
    return _CONSTANTS[type(node.value)]


_CONSTANTS: dict[type, Origins] = {
    kind: (f"{kind.__name__}()",) for kind in (str, bytes, int, float, complex, bool, type(...))
} | {type(None): NOTHING}


_DISPLAYS: dict[type[ast.expr], str] = {
    ast.List: "list()", ast.ListComp: "list()", ast.Tuple: "tuple()", ast.Dict: "dict()", ast.DictComp: "dict()",
    ast.Set: "set()", ast.SetComp: "set()", ast.JoinedStr: "str()", ast.GeneratorExp: "generator()",
}  # fmt: skip


def display_origin(node: ast.expr) -> Origins:
    """Return the origin of a list, dict, set, tuple or f-string as written; `?` for every other expression."""
    return (_DISPLAYS.get(type(node), "?"),)


def arithmetic(operands: Sequence[Origins]) -> Origins:
    """Return the origin of arithmetic: a tensor as soon as one operand surely is one, else not known."""
    return _TENSOR if _TENSOR in operands else UNKNOWN


KINDS: Final[Mapping[type[ast.expr], Callable[[Inference, Any, Table], Origins]]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.Constant: _constant,
    ast.IfExp: _conditional,
    ast.BoolOp: _boolean,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Await: _inner,
    ast.List: _display,
    ast.Tuple: _display,
    ast.Set: _display,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _inner,
}
