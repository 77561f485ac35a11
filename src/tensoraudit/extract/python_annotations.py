"""The origins of a value whose annotation is known. `Optional[X]` and `X | None` count as X, `list[X]` as a list that
holds X; what says nothing of a class (`Any`, a type variable, `Callable`) is not known."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from tensoraudit.extract.python_origins import NOTHING, UNKNOWN, Origins, each, holding, unite

_LONGEST_TEXT: Final = 500
"""Characters of an annotation written as a string."""

_MOST_NESTED: Final = 8
"""Levels of an annotation that are read: `list[list[...]]`."""

_UNIONS: Final = frozenset({"typing.Optional", "typing.Union", "typing.Annotated", "typing.Final", "typing.ClassVar"})
_OPAQUE: Final = frozenset({"typing.Any", "object", "typing.Self", "type", "None"})

_HOLDERS: Final = {
    "typing.List": "list()", "typing.Set": "set()", "typing.FrozenSet": "frozenset()", "typing.Tuple": "tuple()",
    "typing.Dict": "dict()", "typing.Sequence": "?", "typing.Iterable": "?", "typing.Iterator": "?",
    "typing.Collection": "?", "typing.MutableSequence": "?",
    "list": "list()", "set": "set()", "frozenset": "frozenset()", "tuple": "tuple()", "dict": "dict()",
    "collections.abc.Sequence": "?", "collections.abc.Iterable": "?", "collections.abc.Iterator": "?",
    "collections.abc.Collection": "?", "collections.OrderedDict": "collections.OrderedDict()",
    "typing.OrderedDict": "collections.OrderedDict()", "collections.deque": "collections.deque()",
    "typing.Deque": "collections.deque()",
}  # fmt: skip
"""Generic containers: the class of the container (`?`: any), whose last parameter is what it holds."""

Resolve = Callable[[ast.expr], Origins]


def annotated(node: ast.expr, resolve: Resolve, level: int = 0) -> Origins:
    """Return the origins of a value annotated with `node`, in which `resolve` tells what names stand for."""
    if level > _MOST_NESTED:
        return UNKNOWN
    if isinstance(node, ast.Name | ast.Attribute):
        return instances(resolve(node))
    if isinstance(node, ast.Constant):
        return _written_as_text(node.value, resolve, level)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return unite([annotated(node.left, resolve, level + 1), annotated(node.right, resolve, level + 1)])
    if isinstance(node, ast.Subscript):
        return _generic(node, resolve, level + 1)
    return UNKNOWN


def _written_as_text(value: object, resolve: Resolve, level: int) -> Origins:
    if value is None:
        return NOTHING
    node = _parsed(value) if isinstance(value, str) else None
    return annotated(node, resolve, level + 1) if node is not None else UNKNOWN


@lru_cache(1 << 10)
def _parsed(text: str) -> ast.expr | None:
    if len(text) > _LONGEST_TEXT:
        return None
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def instances(classes: Origins) -> Origins:
    """Return the origins of instances of `classes`."""
    return unite([_instance(path) for path in classes])


@lru_cache(1 << 12)
def _instance(path: str) -> Origins:
    if path in _HOLDERS:
        return (_HOLDERS[path],)
    named = not path.startswith(("?", "self", "typing.", "collections.abc.")) and "()" not in path and "[" not in path
    return (f"{path}()",) if named and path not in _OPAQUE else UNKNOWN


def _generic(node: ast.Subscript, resolve: Resolve, level: int) -> Origins:
    heads = resolve(node.value)
    if len(heads) != 1:
        return UNKNOWN
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if heads[0] in _UNIONS:
        parts = parts[:1] if heads[0] == "typing.Annotated" else parts
        return unite([annotated(part, resolve, level) for part in parts])
    if heads[0] in ("typing.Literal", "typing_extensions.Literal"):
        return unite(
            [(f"{type(part.value).__name__}()",) if isinstance(part, ast.Constant) else UNKNOWN for part in parts]
        )
    head = _HOLDERS.get(heads[0])
    if head is None or not parts:
        return instances(heads)
    if head == "tuple()" and not (isinstance(parts[-1], ast.Constant) and parts[-1].value is ...):
        return (holding(head, [annotated(part, resolve, level) for part in parts]),)
    return (each(head, annotated(parts[0] if head == "tuple()" else parts[-1], resolve, level)),)
