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

from tensoraudit.extract.python_containers import GROWS, READS
from tensoraudit.extract.python_origins import UNKNOWN, Bound, Origins
from tensoraudit.extract.python_outline import Outline
from tensoraudit.extract.python_written import target_text

_MOST_NESTED_LOOPS = 20
"""CPython compiles no more ("too many statically nested blocks"); what a loop binds is gone through once per level."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.AsyncFor | ast.While


@dataclass(slots=True, eq=False)
class Binding:
    """One way in which a name or attribute gets its value: fixed `origins`, an annotation, or an expression.

    `table` is the scope in which the expression stands; `steps` lead from its value to the one that is bound: a
    position in an unpacking (`0`), an iteration (`*`). `imported` origins are names that may lead into another file.
    """

    table: Table
    origins: Origins | None = None
    expression: ast.expr | None = None
    annotation: ast.expr | None = None
    steps: tuple[str, ...] = ()
    imported: bool = False


@dataclass(frozen=True, slots=True)
class Addition:
    """A `value`, read in `table`, that `method` puts into a container."""

    method: str
    value: ast.expr
    table: Table


Growth = dict[str, list[Addition] | None]
"""By name, what is put into a container; None where anything may happen to it."""


@dataclass(slots=True, eq=False)
class Table:
    """What one scope binds. `name` is dotted from the module; `sequence` lists bound names in source order, `mutated`
    those whose value changes in place, `growth` how."""

    name: str
    parent: Table | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    sequence: list[str] = field(default_factory=list)
    mutated: set[str] = field(default_factory=set)
    growth: Growth = field(default_factory=dict)
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
    """A class. `attributes` are the assignments to `self.<name>` in its methods, `attribute_growth` what is put into
    them."""

    path: str = ""
    node: ast.ClassDef | None = None
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    attribute_growth: Growth = field(default_factory=dict)
    methods: dict[str, FunctionTable] = field(default_factory=dict)
    attribute_origins: dict[str, Origins | None] = field(default_factory=dict)
    lineage: tuple[str, ...] | None = None


@dataclass(slots=True, eq=False)
class ModuleTable(Table):
    """A file. `path` is its dotted module name ("" for a loose text); `functions` and `classes` hold what it defines
    under its full dotted name; `loops` the part of the enclosing scope's `sequence` that each loop binds; `stores` the
    attributes set on anything but an instance. `world` is everything outside the file."""

    path: str = ""
    package: str = ""
    world: Outline = field(default_factory=Outline)
    stores: list[tuple[ast.Attribute, Table]] = field(default_factory=list)
    stars: dict[str, None] = field(default_factory=dict)
    tables: dict[ast.AST, Table] = field(default_factory=dict)
    functions: dict[str, FunctionTable] = field(default_factory=dict)
    classes: dict[str, ClassTable] = field(default_factory=dict)
    loops: dict[ast.AST, tuple[int, int]] = field(default_factory=dict)

    def qualified(self, name: str) -> str:
        """Return the full dotted name of what is called `name` in this file."""
        return f"{self.path}.{name}" if self.path else name

    def located(self, name: str) -> str:
        """Return the module that an absolute import of `name` means here. In a folder that is no package, scripts
        import the files beside them."""
        return self.world.located(name, "" if self.package in self.world.modules else self.package)


def collect(tree: ast.Module, path: str, *, is_package: bool = False, world: Outline | None = None) -> ModuleTable:
    """Read all bindings of `tree`, the module at dotted `path` in a project `world`."""
    package = path if is_package else path.rpartition(".")[0]
    module = ModuleTable("", None, path=path, package=package, world=world or Outline())
    _Collector(module).body(tree.body, module)
    return module


def release(module: ModuleTable) -> None:
    """Cut the references between the tables of a file, so that they and its syntax tree go at once."""
    for table in (module, *module.tables.values()):
        table.parent = table.owner = None
        table.bindings.clear()
        table.redirected.clear()
        table.growth.clear()
        if isinstance(table, ClassTable):
            table.attributes.clear()
            table.attribute_growth.clear()
            table.methods.clear()
    module.stores.clear()


def enter(module: ModuleTable, world: Outline) -> None:
    """Let what leads out of a file lead into `world`; what was found out before is forgotten."""
    module.world = world
    for table in (module, *module.tables.values()):
        table.known.clear()
        if isinstance(table, FunctionTable):
            table.returned = None
        elif isinstance(table, ClassTable):
            table.attribute_origins.clear()
            table.lineage = None


def absolute(module: ModuleTable, name: str | None, level: int) -> str:
    """Return the dotted module that `from <level dots><name> import` means inside `module`. Dots that lead above the
    known package stay in front."""
    if not level:
        return module.located(name or "")
    segments = module.package.split(".") if module.package else []
    if level - 1 > len(segments) or not segments:
        return "." * level + (name or "")
    kept = segments[: len(segments) - (level - 1)]
    return ".".join([*kept, name] if name else kept) or "." * level


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
            local = alias.asname or alias.name.partition(".")[0]
            name = self.module.located(alias.name if alias.asname else local)
            table.bind(local, Binding(table, origins=(name,), imported=True))

    def _import_from(self, node: ast.ImportFrom, table: Table) -> None:
        source = absolute(self.module, node.module, node.level)
        for alias in node.names:
            if alias.name == "*":
                self.module.stars[source] = None
            else:
                origins = (_join(source, alias.name),)
                table.bind(alias.asname or alias.name, Binding(table, origins=origins, imported=True))

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
        elif isinstance(node.target, ast.Subscript):
            self._change(node.target.value, table, None, None)

    def _loop(self, node: ast.For | ast.AsyncFor, table: Table) -> None:
        start = len(table.sequence)
        self.target(node.target, node.iter, table, ("*",))
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
            argument = value.args[0] if len(value.args) == 1 and not value.keywords else None
            self._change(value.func.value, table, value.func.attr, argument)

    def _change(self, container: ast.expr, table: Table, method: str | None, value: ast.expr | None) -> None:
        """Note that `method` (None: an assignment to an item) changes a container, putting `value` into it."""
        growth = table.growth
        name = container.id if isinstance(container, ast.Name) else None
        if name is not None:
            table.mutated.add(name)
        elif isinstance(container, ast.Attribute) and isinstance(container.value, ast.Name):
            if table.owner is None or not isinstance(table, FunctionTable) or container.value.id != table.instance:
                return
            name, growth = container.attr, table.owner.attribute_growth
        if name is None or method in READS:
            return
        added = growth.setdefault(name, [])
        if value is None or method not in GROWS:
            growth[name] = None
        elif added is not None:
            added.append(Addition(method, value, table))

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
            if not any((target_text(item) or "").endswith(_REPLACED_ACCESSORS) for item in node.decorator_list):
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

    def target(self, target: ast.expr, value: ast.expr, table: Table, steps: tuple[str, ...] = ()) -> None:
        """Bind whatever `target` names to `value`, or to what `steps` take out of it."""
        if isinstance(target, ast.Name):
            table.bind(target.id, Binding(table, expression=value, steps=steps))
        elif isinstance(target, ast.Attribute):
            self._attribute(target, Binding(table, expression=value, steps=steps), table)
        elif isinstance(target, ast.Subscript):
            self._change(target.value, table, "append", None if steps else value)
        elif isinstance(target, ast.Starred):
            if isinstance(target.value, ast.Name):
                table.bind(target.value.id, Binding(table, origins=("list()",)))
        elif isinstance(target, ast.Tuple | ast.List):
            starred = any(isinstance(item, ast.Starred) for item in target.elts)
            for position, (item, source) in enumerate(pairs(target, value, bool(steps))):
                step = "" if starred else str(position)
                self.target(item, source, table, (*steps, step) if source is value else ())

    def _attribute(self, target: ast.Attribute, binding: Binding, table: Table) -> None:
        owner = table.owner
        own = isinstance(table, FunctionTable) and isinstance(target.value, ast.Name)
        if owner is not None and own and target.value.id == table.instance:  # type: ignore[attr-defined]
            owner.attributes.setdefault(target.attr, []).append(binding)
        else:
            self.module.stores.append((target, table))


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


_REPLACED_ACCESSORS = (".setter", ".deleter")
"""Decorators of functions that leave reading the attribute of their name as it was."""

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
