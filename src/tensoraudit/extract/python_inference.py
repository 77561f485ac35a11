"""What names, attributes and calls of a file stand for, whatever the order of its statements.

Flow-insensitive: a name has the origins of all its bindings. The second pass (`python_flow`) is sharper for the locals
of the function it is in and falls back on this for everything bound elsewhere. Each binding is looked at once; cycles
and long chains end in `?`.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensoraudit.extract import known_results
from tensoraudit.extract.python_origins import (
    MOST_CANDIDATES,
    NOTHING,
    UNKNOWN,
    Origins,
    attribute,
    callee,
    element,
    unite,
)
from tensoraudit.extract.python_scopes import Binding, Bound, ClassTable, FunctionTable, ModuleTable, Table
from tensoraudit.extract.python_values import literal

BUILTINS = frozenset(dir(builtins))
UNBOUND = Bound(UNKNOWN)

_DEEPEST = 40
"""Steps from one binding to the next before giving up: a longer chain `b = a; c = b; ...` is generated code."""

_MOST_ANCESTORS = 40
"""Ancestors that a class keeps. Keeping all would be quadratic in a chain of generated classes."""

_MODULE = "torch.nn.Module"
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OPTIONAL = frozenset({"typing.Optional", "typing.Union", "typing.Annotated", "typing.Final", "typing.ClassVar"})
_OPAQUE = frozenset({"typing.Any", "object", "typing.Self"})


class Inference:
    """Answers for one file."""

    def __init__(self, module: ModuleTable) -> None:
        self.module = module
        self._depth = 0

    # names

    def look_up(self, name: str, table: Table) -> Bound:
        """Return what `name` stands for when it is read in `table`."""
        scope: Table | None = table
        while scope is not None:
            if name in scope.bindings and (scope is table or not isinstance(scope, ClassTable)):
                return self.bound(name, scope)
            scope = scope.parent
        if name in BUILTINS:
            return Bound((name,))
        if not 0 < len(self.module.stars) < MOST_CANDIDATES:
            return UNBOUND
        return Bound(unite([tuple(f"{star}.{name}" for star in self.module.stars), UNKNOWN]))

    def bound(self, name: str, table: Table) -> Bound:
        """Return what the bindings of `name` in `table` itself come to."""
        known = table.known.get(name)
        if known is not None:
            return known
        if name in table.known:  # being worked out further up: `x = x.relu()` adds nothing to what x may be
            return Bound(())
        table.known[name] = None
        bindings = table.bindings[name]
        origins = unite([self.binding(binding) for binding in bindings])
        found = Bound(origins, self._literal(name, table, bindings))
        table.known[name] = found
        return found

    def binding(self, binding: Binding) -> Origins:
        """Return the origins that one binding gives."""
        if binding.origins is not None:
            return binding.origins
        if binding.annotation is not None:
            annotated = self.annotation(binding.annotation, binding.table)
            if annotated != UNKNOWN or binding.expression is None:
                return annotated
        if binding.expression is None:
            return UNKNOWN
        origins = self.expression(binding.expression, binding.table)
        return tuple(map(element, origins)) if binding.part else origins

    def _literal(self, name: str, table: Table, bindings: Sequence[Binding]) -> object:
        if len(bindings) != 1 or bindings[0].part or name in table.mutated or bindings[0].expression is None:
            return None
        return literal(bindings[0].expression)

    # classes

    def lineage(self, owner: ClassTable) -> tuple[str, ...]:
        """Return the dotted names of all known ancestors of a class, nearest first."""
        if owner.lineage is not None:
            return owner.lineage
        owner.lineage = ()  # a class that inherits from itself is no program, but must not hang the reader
        assert owner.node is not None and owner.parent is not None
        direct = [origin for base in owner.node.bases for origin in self._base(base, owner.parent)]
        inherited = [
            ancestor
            for base in direct
            if base in self.module.classes
            for ancestor in self.lineage(self.module.classes[base])
        ]
        ancestors = list(dict.fromkeys([*direct, *inherited]))[:_MOST_ANCESTORS]
        if any(map(known_results.is_module_class, ancestors)) or _MODULE in inherited:
            ancestors.append(_MODULE)
        owner.lineage = tuple(dict.fromkeys(ancestors))
        return owner.lineage

    def _base(self, node: ast.expr, table: Table) -> list[str]:
        if isinstance(node, ast.Subscript):  # Generic[T], Sequence[int]
            node = node.value
        return [origin for origin in self.expression(node, table) if origin not in ("?", "None")]

    def method(self, owner: ClassTable, name: str) -> FunctionTable | None:
        """Return the method `name` of a class of this file, inherited ones included."""
        for table in self._family(owner):
            if name in table.methods:
                return table.methods[name]
        return None

    def instance_attribute(self, owner: ClassTable, name: str) -> Origins:
        """Return the origins of `self.<name>`: what its methods assign, else what the class body does, else
        `self.<name>`."""
        known = owner.attribute_origins.get(name)
        if known is not None:
            return known
        own = (f"self.{name}",)
        if name in owner.attribute_origins:
            return own
        owner.attribute_origins[name] = None
        found = self._attribute_bindings(owner, name)
        origins = unite([self.binding(binding) for binding in found]) if found else own
        result = tuple(own[0] if origin in ("?", "None") else origin for origin in origins)
        owner.attribute_origins[name] = result
        return result

    def _attribute_bindings(self, owner: ClassTable, name: str) -> list[Binding]:
        for table in self._family(owner):
            if name in table.methods:
                return []
            found = [*table.attributes.get(name, ()), *table.bindings.get(name, ())]
            if found:
                return found
        return []

    def _family(self, owner: ClassTable) -> list[ClassTable]:
        return [owner, *(self.module.classes[path] for path in self.lineage(owner) if path in self.module.classes)]

    # expressions

    def expression(self, node: ast.expr, table: Table) -> Origins:
        """Return the origins of `node` read in `table`."""
        kind = _KINDS.get(type(node))
        if kind is None:
            return display_origin(node)
        if self._depth > _DEEPEST:
            return UNKNOWN
        self._depth += 1
        try:
            return kind(self, node, table)
        finally:
            self._depth -= 1

    def all_of(self, nodes: Sequence[ast.expr], table: Table) -> list[Origins]:
        """Return the origins of each of `nodes`."""
        return [self.expression(node, table) for node in nodes]

    def _conditional(self, node: ast.IfExp, table: Table) -> Origins:
        return unite(self.all_of((node.body, node.orelse), table))

    def _boolean(self, node: ast.BoolOp, table: Table) -> Origins:
        return unite(self.all_of(node.values, table))

    def _binary(self, node: ast.BinOp, table: Table) -> Origins:
        return arithmetic(self.all_of((node.left, node.right), table))

    def _unary(self, node: ast.UnaryOp, table: Table) -> Origins:
        return arithmetic((self.expression(node.operand, table),))

    def _inner(self, node: ast.Await | ast.NamedExpr, table: Table) -> Origins:
        return self.expression(node.value, table)

    def _constant(self, node: ast.Constant, _: Table) -> Origins:
        return constant_origin(node)

    def _name(self, node: ast.Name, table: Table) -> Origins:
        return self.look_up(node.id, table).origins

    def _attribute(self, node: ast.Attribute, table: Table) -> Origins:
        return self.member(self.expression(node.value, table), node.attr, table)

    def _subscript(self, node: ast.Subscript, table: Table) -> Origins:
        return self.item(self.expression(node.value, table))

    def _call(self, node: ast.Call, table: Table) -> Origins:
        receivers: Origins = ()
        if isinstance(node.func, ast.Attribute):
            receivers = self.expression(node.func.value, table)
            functions = self.member(receivers, node.func.attr, table)
        else:
            functions = self.expression(node.func, table)
        return self.result(functions, receivers, table)

    # the algebra, with this file's classes and functions known

    def item(self, origins: Origins) -> Origins:
        """Return the origins of an item: of a tensor a tensor, else as `python_origins.element` says."""
        return unite([(origin if origin == known_results.TENSOR else element(origin),) for origin in origins])

    def member(self, origins: Origins, name: str, table: Table) -> Origins:
        """Return the origins of attribute `name` of a value with `origins`."""
        if len(origins) == 1:
            return self._member(origins[0], name, table)
        return unite([self._member(origin, name, table) for origin in origins])

    def _member(self, origin: str, name: str, table: Table) -> Origins:
        if origin == "self" and table.owner is not None:
            return self.instance_attribute(table.owner, name)
        if origin.endswith("()"):
            owner = self.module.classes.get(origin[:-2])
            found = known_results.member(origin, name) if owner is None else self._own_member(owner, name)
            if found is not None:
                return found if isinstance(found, tuple) else (found,)
        return (attribute(origin, name),)

    def _own_member(self, owner: ClassTable, name: str) -> Origins | None:
        """Return the origins of an attribute of an instance of a class of this file, seen from outside its methods."""
        if self.method(owner, name) is not None:
            return None
        origins = self.instance_attribute(owner, name)
        if origins != (f"self.{name}",):
            prefix = f"{owner.path}()"
            return tuple(f"{prefix}{origin[4:]}" if origin.startswith("self.") else origin for origin in origins)
        if name in known_results.MODULE_METHODS:
            return (f"{known_results.MODULE}.{name}",) if _MODULE in self.lineage(owner) else None
        return None

    def result(self, functions: Origins, receivers: Origins, table: Table) -> Origins:
        """Return the origins of what `functions` return; `receivers` are those of the object before the dot."""
        if len(functions) == 1:
            return self._result(functions[0], receivers, table)
        return unite([self._result(function, receivers, table) for function in functions])

    def _result(self, function: str, receivers: Origins, table: Table) -> Origins:
        name = callee(function)
        if name.startswith("?"):
            return UNKNOWN
        known = known_results.result(name)
        if known is not None:
            return (known,)
        if known_results.returns_receiver(name):
            return receivers or UNKNOWN
        if name.startswith("self."):
            method = self.method(table.owner, name[5:]) if table.owner is not None else None
            return self.returned(method) if method is not None else UNKNOWN
        local = self.module.functions.get(name)
        if local is not None:
            return self.returned(local)
        if name == "super":
            return self._super(table)
        return UNKNOWN if "()." in name or "[]" in name else (f"{name}()",)

    def _super(self, table: Table) -> Origins:
        node = table.owner.node if table.owner is not None else None
        if table.owner is None or node is None or len(node.bases) != 1:
            return ("super()",)
        lineage = self.lineage(table.owner)
        return (f"{lineage[0]}()",) if lineage else ("super()",)

    def returned(self, function: FunctionTable) -> Origins:
        """Return the origins of what a function of this file returns. Asked while being worked out: not known."""
        if function.returned is not None:
            return function.returned
        function.returned = UNKNOWN
        node = function.node
        if node is None or function.generator or isinstance(node, ast.AsyncFunctionDef) or node.decorator_list:
            return UNKNOWN
        if node.returns is not None:
            function.returned = self.annotation(node.returns, function.parent or self.module)
        if function.returned == UNKNOWN and function.returns:
            function.returned = unite(self.all_of(function.returns, function))
        return function.returned

    # annotations

    def annotation(self, node: ast.expr, table: Table) -> Origins:
        """Return the origins of a value annotated with `node`: `Optional[X]` and `X | None` count as X."""
        if isinstance(node, ast.Constant):
            return self._text_annotation(node.value, table)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return unite([self.annotation(node.left, table), self.annotation(node.right, table)])
        if isinstance(node, ast.Subscript):
            return self._generic(node, table)
        if not isinstance(node, ast.Name | ast.Attribute):
            return UNKNOWN
        return self._instances(self.expression(node, table))

    def _instances(self, classes: Origins) -> Origins:
        return unite([(f"{path}()",) if _names_class(path) else UNKNOWN for path in classes])

    def _generic(self, node: ast.Subscript, table: Table) -> Origins:
        heads = self.expression(node.value, table)
        if len(heads) == 1 and heads[0] in _OPTIONAL:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            parts = parts[:1] if heads[0] == "typing.Annotated" else parts
            return unite([self.annotation(part, table) for part in parts])
        return self._instances(heads)

    def _text_annotation(self, value: object, table: Table) -> Origins:
        if value is None:
            return NOTHING
        if not isinstance(value, str) or not _DOTTED.fullmatch(value):
            return UNKNOWN
        head, *names = value.split(".")
        origins = self.look_up(head, table).origins
        for name in names:
            origins = self.member(origins, name, table)
        return self._instances(origins)


def _names_class(path: str) -> bool:
    return not (
        path.startswith(("?", "self"))
        or "()" in path
        or path in _OPAQUE
        or path == "None"
        or path.startswith("typing.")
    )


def constant_origin(node: ast.Constant) -> Origins:
    """Return the origin of a written constant: the built-in type that makes it."""
    return NOTHING if node.value is None else (f"{type(node.value).__name__}()",)


_DISPLAYS: dict[type[ast.expr], str] = {
    ast.List: "list()", ast.ListComp: "list()", ast.Tuple: "tuple()", ast.Dict: "dict()", ast.DictComp: "dict()",
    ast.Set: "set()", ast.SetComp: "set()", ast.JoinedStr: "str()", ast.Compare: "?",
}  # fmt: skip


def display_origin(node: ast.expr) -> Origins:
    """Return the origin of a list, dict, set, tuple or f-string as written; `?` for every other expression."""
    return (_DISPLAYS.get(type(node), "?"),)


def arithmetic(operands: Sequence[Origins]) -> Origins:
    """Return the origin of arithmetic: a tensor as soon as one operand surely is one, else not known."""
    if any(origins == (known_results.TENSOR,) for origins in operands):
        return (known_results.TENSOR,)
    return UNKNOWN


_KINDS: Mapping[type[ast.expr], Callable[[Inference, Any, Table], Origins]] = {
    ast.Name: Inference._name,
    ast.Attribute: Inference._attribute,
    ast.Call: Inference._call,
    ast.Subscript: Inference._subscript,
    ast.Constant: Inference._constant,
    ast.IfExp: Inference._conditional,
    ast.BoolOp: Inference._boolean,
    ast.BinOp: Inference._binary,
    ast.UnaryOp: Inference._unary,
    ast.Await: Inference._inner,
    ast.NamedExpr: Inference._inner,
}
