"""Values of arguments and operands as rules see them: constants, tuples and dicts of them, `Name`, `Unknown`.

Lists count as tuples: a rule asks for strides or providers, not for the brackets. Arithmetic on written numbers is done
(`2 * 1024**3`). Nothing here resolves a name.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from tensoraudit.facts import Name, Unknown

MOST_ITEMS: Final = 1000
"""Displays that hold more, nested ones included, are data, not arguments."""

LONGEST_TEXT: Final = 10_000
"""Characters (or bytes) of a constant that a fact keeps."""

_MOST_JOINED: Final = 64
"""Items of a tuple that is put together by `+`: each step walks all of them."""

_LARGEST_EXPONENT: Final = 128
_LARGEST_NUMBER: Final = 2.0**200

_TEXTS: Final = frozenset({str, bytes})
_OPAQUE: Final = frozenset({Name, Unknown})

REASONS: Final[Mapping[type[ast.expr], Unknown]] = {
    node: Unknown(reason)
    for node, reason in {
        ast.JoinedStr: "an f-string",
        ast.IfExp: "a conditional expression",
        ast.BinOp: "arithmetic",
        ast.UnaryOp: "arithmetic",
        ast.BoolOp: "a boolean expression",
        ast.Compare: "a comparison",
        ast.ListComp: "a comprehension",
        ast.SetComp: "a comprehension",
        ast.DictComp: "a comprehension",
        ast.GeneratorExp: "a generator",
        ast.Lambda: "a lambda",
        ast.Slice: "a slice",
        ast.Starred: "an unpacked argument",
        ast.Yield: "a yield",
        ast.YieldFrom: "a yield",
    }.items()
}
OTHER: Final = Unknown("an expression")
TOO_LARGE: Final = Unknown("a literal too large to keep")


def unknown(node: ast.expr) -> Unknown:
    """Return why the value of `node` is not known."""
    return REASONS.get(type(node), OTHER)


def constant(value: Any) -> Any:
    """Return a written constant, unless it is too large to keep. `...` is not a value that a rule compares."""
    if type(value) in _TEXTS and len(value) > LONGEST_TEXT:
        return TOO_LARGE
    return OTHER if value is ... else value


def display(items: Sequence[Any]) -> Any:
    """Return the tuple of `items`."""
    return tuple(items) if _fits(items) else TOO_LARGE


def mapping(keys: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the dict of `keys` and `values`; Unknown when a key is no constant."""
    if not _fits(values):
        return TOO_LARGE
    if not all(isinstance(key, str | int | float | bytes | None) for key in keys):
        return Unknown("a dict with keys that are not constants")
    return dict(zip(keys, values, strict=True))


def _fits(values: Iterable[Any]) -> bool:
    """Tell whether `values` hold at most `MOST_ITEMS` items in all. Variables share what they hold: `b = (a, a)`,
    `c = (b, b)`... is short in the source, and endless for whoever walks it."""
    left = MOST_ITEMS
    waiting = [iter(values)]
    while waiting and left >= 0:
        for value in waiting[-1]:
            left -= 1
            if isinstance(value, tuple | dict):
                waiting.append(iter(value.values() if isinstance(value, dict) else value))
                break
            if left < 0:
                return False
        else:
            waiting.pop()
    return left >= 0


def is_transparent(value: Any) -> bool:
    """Tell whether a variable that holds `value` may be replaced by it: constants and displays, not names."""
    return value is not None and type(value) not in _OPAQUE


named = lru_cache(1 << 14)(Name)
"""The value that is a dotted name: one for all places that write it."""

Named = Callable[[ast.expr], Any]
"""What a name or dotted name stands for, None when that is no constant."""


def literal(node: ast.expr, named: Named = lambda _: None) -> Any:
    """Return the number, text, tuple or dict that `node` writes down, using only names that `named` knows, else
    None."""
    if isinstance(node, ast.Constant):
        value = constant(node.value)
        return None if isinstance(value, Unknown) else value
    if isinstance(node, ast.Name | ast.Attribute):
        return named(node)
    if isinstance(node, ast.UnaryOp):
        return _known(unary(node.op, literal(node.operand, named)))
    if isinstance(node, ast.BinOp):
        return _literal_arithmetic(node, named)
    if isinstance(node, ast.Tuple | ast.List):
        return _literal_items(node.elts, named)
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = _literal_items([key for key in node.keys if key is not None], named)
        values = _literal_items(node.values, named)
        return None if keys is None or values is None else _known(mapping(keys, values))
    return None


def _literal_arithmetic(node: ast.BinOp, named: Named) -> Any:
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):  # 1 + 1 + 1 + ... is long, not deep
        chain.append(chain[-1].left)
    value = literal(chain[-1].left, named)
    for step in reversed(chain):
        value = binary(step.op, value, literal(step.right, named))
    return _known(value)


def _literal_items(nodes: Sequence[ast.expr], named: Named) -> tuple[Any, ...] | None:
    if len(nodes) > MOST_ITEMS:
        return None
    items = []
    for node in nodes:
        value = literal(node, named)
        if value is None and not (isinstance(node, ast.Constant) and node.value is None):
            return None
        items.append(value)
    return tuple(items) if _fits(items) else None


def _known(value: Any) -> Any:
    return None if isinstance(value, Unknown) else value


_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_GROWING: Final = (ast.Pow, ast.LShift)


def binary(op: ast.operator, left: Any, right: Any) -> Any:
    """Return the result of arithmetic on two known numbers, or of putting two texts or tuples together, else
    Unknown."""
    if isinstance(op, ast.Add) and type(left) is type(right) and isinstance(left, str | tuple):
        return _joined(left, right)
    apply = _BINARY.get(type(op))
    if apply is None or not _is_number(left) or not _is_number(right):
        return REASONS[ast.BinOp]
    if isinstance(op, _GROWING) and not (abs(left) <= 2**16 and 0 <= right <= _LARGEST_EXPONENT):
        return REASONS[ast.BinOp]
    try:
        result = apply(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return REASONS[ast.BinOp]
    return result if not isinstance(result, complex) and abs(result) < _LARGEST_NUMBER else REASONS[ast.BinOp]


def _joined(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        return constant(left + right) if len(left) + len(right) <= LONGEST_TEXT else TOO_LARGE
    return display(left + right) if len(left) + len(right) <= _MOST_JOINED else TOO_LARGE


def unary(op: ast.unaryop, operand: Any) -> Any:
    """Return `-x`, `+x` of a known number or `not x` of a known bool, else Unknown."""
    if isinstance(op, ast.Not) and isinstance(operand, bool):
        return not operand
    if isinstance(op, ast.USub) and _is_number(operand):
        return -operand
    return operand if isinstance(op, ast.UAdd) and _is_number(operand) else REASONS[ast.UnaryOp]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


_SPECIAL_FLOATS: Final = {"inf": math.inf, "-inf": -math.inf, "+inf": math.inf, "infinity": math.inf, "nan": math.nan}


def _made_float(args: Mapping[int | str, Any]) -> float | None:
    """Return the value of `float("-inf")` and its like, given the arguments of a call of `float`."""
    text = args.get(0)
    return _SPECIAL_FLOATS.get(text.strip().lower()) if isinstance(text, str) else None


def held_item(held: tuple[Any, ...] | dict[Any, Any], key: Any) -> Any:
    """Return the item of a known display under `key`."""
    absent = Unknown("an item")
    if isinstance(held, dict):
        return held.get(key, absent) if isinstance(key, str | int | float | bytes) else absent
    inside = isinstance(key, int) and not isinstance(key, bool) and -len(held) <= key < len(held)
    return held[key] if inside else absent


def _made_dict(args: Mapping[int | str, Any]) -> Any:
    return dict(args) if len(args) <= MOST_ITEMS and all(isinstance(key, str) for key in args) else None


def _made_tuple(args: Mapping[int | str, Any]) -> Any:
    value = args.get(0) if args else ()
    return value if isinstance(value, tuple) else None


_CONSTRUCTORS: Mapping[str, Callable[[Mapping[int | str, Any]], Any]] = {
    "float": _made_float,
    "dict": _made_dict,
    "list": _made_tuple,
    "tuple": _made_tuple,
}
"""Calls of built-ins whose value is known when that of their arguments is."""


def made_by(callee: str, args: Mapping[int | str, Any]) -> Any:
    """Return the value that a call of the built-in `callee` makes of known arguments, else None."""
    make = _CONSTRUCTORS.get(callee)
    return make(args) if make is not None else None
