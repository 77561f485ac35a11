"""First pass over a Python file: what each scope binds, without resolving anything.

Statements alone are read (a name bound by `:=` or a comprehension is met when the second pass comes to it). The tables
keep expressions; `python_inference` turns them into origins when somebody asks. Python's own rules hold: a name bound
anywhere in a function is local to it, a class body is no scope for its methods, `global` and `nonlocal` redirect.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensoraudit.extract.python_origins import UNKNOWN, Origins

_MOST_NESTED_LOOPS = 20
"""CPython compiles no more ("too many statically nested blocks"); what a loop binds is gone through once per level."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.AsyncFor | ast.While


@dataclass(slots=True, eq=False)
class Binding:
    """One way in which a name or attribute gets its value: fixed `origins`, an annotation, or an expression.

    `table` is the scope in which the expression stands; `part` says that the value is an item of the expression
    (unpacking, `for`).
    """

    table: Table
    origins: Origins | None = None
    expression: ast.expr | None = None
    annotation: ast.expr | None = None
    part: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """What a name stands for. `literal` is its value where every reader may rely on it, else None; the value None
    itself is no use to a reader and counts as not relied on."""

    origins: Origins
    literal: object = None


@dataclass(slots=True, eq=False)
class Table:
    """What one scope binds. `name` is dotted from the module; `sequence` lists bound names in source order."""

    name: str
    parent: Table | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    sequence: list[str] = field(default_factory=list)
    mutated: set[str] = field(default_factory=set)
    redirected: dict[str, Table] = field(default_factory=dict)
    known: dict[str, Bound | None] = field(default_factory=dict)
    owner: ClassTable | None = None

    def bind(self, name: str, binding: Binding) -> None:
        """Add one binding of `name`, in the scope that `global` or `nonlocal` names."""
        self.sequence.append(name)
        table = self.redirected.get(name, self)
        table.bindings.setdefault(name, []).append(binding)


@dataclass(slots=True, eq=False)
class FunctionTable(Table):
    """A function. `instance` is the name of its first parameter in a method, `returns` what it may return."""

    node: FunctionNode | None = None
    instance: str | None = None
    returns: list[ast.expr] = field(default_factory=list)
    generator: bool = False
    returned: Origins | None = None


@dataclass(slots=True, eq=False)
class ClassTable(Table):
    """A class. `attributes` are the assignments to `self.<name>` in its methods."""

    path: str = ""
    node: ast.ClassDef | None = None
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    methods: dict[str, FunctionTable] = field(default_factory=dict)
    attribute_origins: dict[str, Origins | None] = field(default_factory=dict)
    lineage: tuple[str, ...] | None = None


@dataclass(slots=True, eq=False)
class ModuleTable(Table):
    """A file. `path` is its dotted module name ("" for a loose text); `functions` and `classes` hold what it defines
    under its full dotted name; `loops` the part of the enclosing scope's `sequence` that each loop binds."""

    path: str = ""
    package: str = ""
    stars: dict[str, None] = field(default_factory=dict)
    tables: dict[ast.AST, Table] = field(default_factory=dict)
    functions: dict[str, FunctionTable] = field(default_factory=dict)
    classes: dict[str, ClassTable] = field(default_factory=dict)
    loops: dict[ast.AST, tuple[int, int]] = field(default_factory=dict)

    def qualified(self, name: str) -> str:
        """Return the full dotted name of what is called `name` in this file."""
        return f"{self.path}.{name}" if self.path else name


def collect(tree: ast.Module, path: str, *, is_package: bool = False) -> ModuleTable:
    """Read all bindings of `tree`, the module at dotted `path`."""
    package = path if is_package else path.rpartition(".")[0]
    module = ModuleTable("", None, path=path, package=package)
    _Collector(module).body(tree.body, module)
    return module


def release(module: ModuleTable) -> None:
    """Cut the references between the tables of a file, so that they and its syntax tree go at once."""
    for table in (module, *module.tables.values()):
        table.parent = table.owner = None
        table.bindings.clear()
        table.redirected.clear()
        if isinstance(table, ClassTable):
            table.attributes.clear()
            table.methods.clear()


def absolute(module: ModuleTable, name: str | None, level: int) -> str:
    """Return the dotted module that `from <level dots><name> import` means inside `module`. Dots that lead above the
    known package stay in front."""
    if not level:
        return name or ""
    segments = module.package.split(".") if module.package else []
    if level - 1 > len(segments) or not segments:
        return "." * level + (name or "")
    kept = segments[: len(segments) - (level - 1)]
    return ".".join([*kept, name] if name else kept) or "." * level


def target_text(node: ast.expr) -> str | None:
    """Return `a.b.c` when `node` is a plain dotted name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])


class _Collector:
    """One walk over the statements of a module."""

    def __init__(self, module: ModuleTable) -> None:
        self.module = module
        self.loop_depth = 0

    def body(self, statements: Sequence[ast.stmt], table: Table) -> None:
        for statement in statements:
            reader = _READERS.get(type(statement))
            if reader is not None:
                reader(self, statement, table)

    def _import(self, node: ast.Import, table: Table) -> None:
        for alias in node.names:
            if alias.asname:
                table.bind(alias.asname, Binding(table, origins=(alias.name,)))
            else:
                head = alias.name.partition(".")[0]
                table.bind(head, Binding(table, origins=(head,)))

    def _import_from(self, node: ast.ImportFrom, table: Table) -> None:
        source = absolute(self.module, node.module, node.level)
        for alias in node.names:
            if alias.name == "*":
                self.module.stars[source] = None
            else:
                table.bind(alias.asname or alias.name, Binding(table, origins=(_join(source, alias.name),)))

    def _assign(self, node: ast.Assign, table: Table) -> None:
        for target in node.targets:
            self.target(target, node.value, table)

    def _annotated(self, node: ast.AnnAssign, table: Table) -> None:
        binding = Binding(table, expression=node.value, annotation=node.annotation)
        if isinstance(node.target, ast.Name):
            table.bind(node.target.id, binding)
        elif isinstance(node.target, ast.Attribute):
            self._attribute(node.target, binding, table)

    def _augmented(self, node: ast.AugAssign, table: Table) -> None:
        if isinstance(node.target, ast.Name):
            table.bind(node.target.id, Binding(table, origins=()))
        elif isinstance(node.target, ast.Subscript) and isinstance(node.target.value, ast.Name):
            table.mutated.add(node.target.value.id)

    def _loop(self, node: ast.For | ast.AsyncFor, table: Table) -> None:
        start = len(table.sequence)
        self.target(node.target, node.iter, table, part=True)
        self.loop_body(node, start, table)

    def _while(self, node: ast.While, table: Table) -> None:
        self.loop_body(node, len(table.sequence), table)

    def loop_body(self, node: LoopNode, start: int, table: Table) -> None:
        self.loop_depth += 1
        if self.loop_depth > _MOST_NESTED_LOOPS:
            raise RecursionError
        self.body(node.body, table)
        self.loop_depth -= 1
        self.module.loops[node] = (start, len(table.sequence))
        self.body(node.orelse, table)

    def _if(self, node: ast.If, table: Table) -> None:
        self.body(node.body, table)
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):  # a long elif chain is no deep nesting
            node = node.orelse[0]
            self.body(node.body, table)
        self.body(node.orelse, table)

    def _with(self, node: ast.With | ast.AsyncWith, table: Table) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self.target(item.optional_vars, item.context_expr, table)
        self.body(node.body, table)

    def _try(self, node: ast.Try, table: Table) -> None:
        self.body(node.body, table)
        for handler in node.handlers:
            if handler.name:
                table.bind(handler.name, Binding(table, origins=UNKNOWN))
            self.body(handler.body, table)
        self.body(node.orelse, table)
        self.body(node.finalbody, table)

    def _match(self, node: ast.Match, table: Table) -> None:
        for case in node.cases:
            for name in pattern_names(case.pattern):
                table.bind(name, Binding(table, origins=UNKNOWN))
            self.body(case.body, table)

    def _global(self, node: ast.Global, table: Table) -> None:
        table.redirected.update(dict.fromkeys(node.names, self.module))

    def _nonlocal(self, node: ast.Nonlocal, table: Table) -> None:
        for name in node.names:
            outer = table.parent
            while outer is not None and (name not in outer.bindings or isinstance(outer, ClassTable)):
                outer = outer.parent
            table.redirected[name] = outer or table.parent or self.module

    def _return(self, node: ast.Return, table: Table) -> None:
        if isinstance(table, FunctionTable) and node.value is not None:
            table.returns.append(node.value)

    def _expression(self, node: ast.Expr, table: Table) -> None:
        value = node.value
        if isinstance(value, ast.Yield | ast.YieldFrom) and isinstance(table, FunctionTable):
            table.generator = True
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            receiver = value.func.value
            table.mutated.update([receiver.id] if isinstance(receiver, ast.Name) else [])

    def _class(self, node: ast.ClassDef, table: Table) -> None:
        name = _join(table.name, node.name)
        path = self.module.qualified(name)
        inner = ClassTable(name, table, path=path, node=node)
        self.module.tables[node] = inner
        self.module.classes[path] = inner
        table.bind(node.name, Binding(table, origins=(path,)))
        self.body(node.body, inner)

    def _function(self, node: FunctionNode, table: Table) -> None:
        name = _join(table.name, node.name)
        path = self.module.qualified(name)
        inner = FunctionTable(name, table, node=node)
        inner.owner = table.owner
        self.module.tables[node] = inner
        if isinstance(table, ClassTable):
            inner.owner = table
            table.methods[node.name] = inner
        else:
            self.module.functions[path] = inner
        table.bind(node.name, Binding(table, origins=(path,)))
        self.parameters(node, inner, table)
        depth, self.loop_depth = self.loop_depth, 0
        self.body(node.body, inner)
        self.loop_depth = depth

    def parameters(self, node: FunctionNode, inner: FunctionTable, outer: Table) -> None:
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for position, argument in enumerate(named):
            binding = Binding(outer, origins=UNKNOWN)
            if position == 0 and isinstance(outer, ClassTable):
                binding = self.first_parameter(node, inner, outer, argument)
            elif argument.annotation is not None:
                binding = Binding(outer, annotation=argument.annotation)
            inner.bind(argument.arg, binding)
        if arguments.vararg:
            inner.bind(arguments.vararg.arg, Binding(outer, origins=("tuple()",)))
        if arguments.kwarg:
            inner.bind(arguments.kwarg.arg, Binding(outer, origins=("dict()",)))

    def first_parameter(
        self, node: FunctionNode, inner: FunctionTable, outer: ClassTable, argument: ast.arg
    ) -> Binding:
        decorators = {target_text(decorator) for decorator in node.decorator_list}
        if "staticmethod" in decorators:
            return Binding(outer, annotation=argument.annotation, origins=None if argument.annotation else UNKNOWN)
        if "classmethod" in decorators or node.name in _CLASS_METHODS:
            return Binding(outer, origins=(outer.path,))
        inner.instance = argument.arg
        return Binding(outer, origins=("self",))

    def target(self, target: ast.expr, value: ast.expr, table: Table, *, part: bool = False) -> None:
        """Bind whatever `target` names to `value`, or to an item of it."""
        if isinstance(target, ast.Name):
            table.bind(target.id, Binding(table, expression=value, part=part))
        elif isinstance(target, ast.Attribute):
            self._attribute(target, Binding(table, expression=value, part=part), table)
        elif isinstance(target, ast.Subscript):
            if isinstance(target.value, ast.Name):
                table.mutated.add(target.value.id)
        elif isinstance(target, ast.Starred):
            if isinstance(target.value, ast.Name):
                table.bind(target.value.id, Binding(table, origins=("list()",)))
        elif isinstance(target, ast.Tuple | ast.List):
            for item, source in pairs(target, value, part):
                self.target(item, source, table, part=source is value)

    def _attribute(self, target: ast.Attribute, binding: Binding, table: Table) -> None:
        owner = table.owner
        if owner is None or not isinstance(table, FunctionTable) or not isinstance(target.value, ast.Name):
            return
        if target.value.id == table.instance:
            owner.attributes.setdefault(target.attr, []).append(binding)


def pairs(target: ast.Tuple | ast.List, value: ast.expr, part: bool) -> list[tuple[ast.expr, ast.expr]]:
    """Pair each item of an unpacking target with its own expression where both sides are written out, else with the
    whole `value`."""
    plain = isinstance(value, ast.Tuple | ast.List) and not part and len(value.elts) == len(target.elts)
    if plain and not any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts)):  # type: ignore[attr-defined]
        return list(zip(target.elts, value.elts, strict=True))  # type: ignore[attr-defined]
    return [(item, value) for item in target.elts]


def pattern_names(pattern: ast.pattern) -> list[str]:
    """Return the names that a `case` pattern captures."""
    found = (getattr(node, "name", None) or getattr(node, "rest", None) for node in ast.walk(pattern))
    return [name for name in found if isinstance(name, str)]


def _join(head: str, name: str) -> str:
    return f"{head}{name}" if not head or head.endswith(".") else f"{head}.{name}"


_CLASS_METHODS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})

_READERS: Mapping[type[ast.stmt], Callable[[_Collector, Any, Table], None]] = {
    ast.Import: _Collector._import,
    ast.ImportFrom: _Collector._import_from,
    ast.Assign: _Collector._assign,
    ast.AnnAssign: _Collector._annotated,
    ast.AugAssign: _Collector._augmented,
    ast.For: _Collector._loop,
    ast.AsyncFor: _Collector._loop,
    ast.While: _Collector._while,
    ast.If: _Collector._if,
    ast.With: _Collector._with,
    ast.AsyncWith: _Collector._with,
    ast.Try: _Collector._try,
    ast.TryStar: _Collector._try,
    ast.Match: _Collector._match,
    ast.Global: _Collector._global,
    ast.Nonlocal: _Collector._nonlocal,
    ast.Return: _Collector._return,
    ast.Expr: _Collector._expression,
    ast.ClassDef: _Collector._class,
    ast.FunctionDef: _Collector._function,
    ast.AsyncFunctionDef: _Collector._function,
}
