"""What names, attributes and calls of a file stand for, whatever the order of its statements.

Flow-insensitive: a name has the origins of all its bindings. The second pass (`python_flow`) is sharper for the locals
of the function it is in and falls back on this for everything bound elsewhere. Each binding is looked at once; cycles
and long chains end in `?`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from tensoraudit.extract import known_results
from tensoraudit.extract.python_annotations import annotated
from tensoraudit.extract.python_containers import PARTIAL, PARTIAL_MAKER, grown, made_of, may_make, partially
from tensoraudit.extract.python_kinds import KINDS, display_origin
from tensoraudit.extract.python_origins import (
    UNKNOWN,
    Bound,
    Origins,
    any_item,
    bare,
    callee,
    each,
    is_path,
    unite,
)
from tensoraudit.extract.python_outline import settled
from tensoraudit.extract.python_project import ancestry
from tensoraudit.extract.python_scopes import Binding, ClassTable, FunctionTable, Growth, ModuleTable, Table
from tensoraudit.extract.python_summary import relative_to
from tensoraudit.extract.python_values import literal
from tensoraudit.extract.python_written import target_text

BUILTINS = frozenset(dir(builtins))
UNBOUND = Bound(UNKNOWN)
_BUILTIN = {name: Bound((name,)) for name in BUILTINS}

_DEEPEST = 40
"""Steps from one binding to the next before giving up: a longer chain `b = a; c = b; ...` is generated code."""

_MOST_TOLD = 64
"""Items of a display that are looked at; a longer one is data."""

_MODULE = "torch.nn.Module"
_CONSTANT_OWNERS = frozenset({"object", "typing.NamedTuple", "typing.Protocol", "abc.ABC", _MODULE})


class Inference:
    """Answers for one file."""

    def __init__(self, module: ModuleTable) -> None:
        self.module = module
        self.world = module.world
        self._depth = 0
        self._positionals: dict[str, tuple[str, ...]] = {}
        self._parameters: dict[FunctionTable, tuple[str, ...] | None] = {}

    # names

    def look_up(self, name: str, table: Table) -> Bound:
        """Return what `name` stands for when it is read in `table`."""
        known = table.known.get(name)  # most names are asked for again and again
        if known is not None:
            return known
        scope: Table | None = table
        while scope is not None:
            if name in scope.bindings and (scope is table or not isinstance(scope, ClassTable)):
                found = self.bound(name, scope)
                if scope.known[name] is found:  # not while it is being worked out further up
                    table.known[name] = found
                return found
            scope = scope.parent
        if name in BUILTINS:
            table.known[name] = found = _BUILTIN[name]
            return found
        if not self.module.stars:
            return UNBOUND
        return self.world.starred(self.module.path, tuple(self.module.stars), name)

    def bound(self, name: str, table: Table) -> Bound:
        """Return what the bindings of `name` in `table` itself come to."""
        known = table.known.get(name)
        if known is not None:
            return known
        if name in table.known:  # being worked out further up: `x = x.relu()` adds nothing to what x may be
            return Bound(())
        table.known[name] = None
        bindings = table.bindings[name]
        origins = self._grown(unite([self.binding(binding) for binding in bindings]), name, table.growth)
        found = Bound(origins, self._literal(name, table, bindings))
        table.known[name] = found
        return found

    def binding(self, binding: Binding) -> Origins:
        """Return the origins that one binding gives."""
        if binding.origins is not None:
            return self.world.canonical(binding.origins) if binding.imported else binding.origins
        if binding.annotation is not None:
            origins = self.annotation(binding.annotation, binding.table)
            if origins != UNKNOWN or binding.expression is None:
                return origins
        if binding.expression is None:
            return UNKNOWN
        origins = self.expression(binding.expression, binding.table)
        for step in binding.steps:
            origins = self.item(origins, step)
        return origins

    def _grown(self, origins: Origins, name: str, growth: Growth) -> Origins:
        """Return the origins of a variable with all that is put into it; where anything may happen to it, it may hold
        anything."""
        if name not in growth or not any("<" in origin for origin in origins):
            return origins
        changes = growth[name]
        if changes is None or len(changes) > _MOST_TOLD:
            return unite([(bare(origin),) for origin in origins])
        for change in changes:
            added = self.expression(change.value, change.table)
            origins = unite([(grown(origin, change.method, added) or origin,) for origin in origins])
        return origins

    def _literal(self, name: str, table: Table, bindings: Sequence[Binding]) -> object:
        if len(bindings) != 1 or name in table.mutated:
            return None
        binding = bindings[0]
        if binding.imported and binding.origins is not None:
            return self.world.constant(binding.origins[0])
        if binding.expression is None or binding.steps:
            return None
        return literal(binding.expression, lambda node: self.constant(node, binding.table))

    def constant(self, node: ast.expr, table: Table) -> object:
        """Return the value of a name that stands for a constant everywhere, or None."""
        if self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            if isinstance(node, ast.Name):
                return self.look_up(node.id, table).literal
            path = target_text(node)
            return self.dotted_constant(path.split("."), table) if path is not None else None
        finally:
            self._depth -= 1

    def dotted_constant(self, names: Sequence[str], table: Table) -> object:
        """Return the value of a constant of a module or class of the project that `names` lead to, or None."""
        origins = self.look_up(names[0], table).origins
        for name in names[1:-1]:
            origins = self.member(origins, name, table)
        return self.constant_of(origins[0], names[-1]) if len(origins) == 1 and is_path(origins[0]) else None

    def constant_of(self, path: str, name: str) -> object:
        """Return the value of a constant of the module or class at `path`, or None."""
        owner = self.module.classes.get(path)
        if owner is None:
            return self.world.constant(f"{path}.{name}")
        plain = name in owner.bindings and name not in owner.attributes and self.keeps_constants(owner)
        return self.bound(name, owner).literal if plain and not self.world.changes(f"{path}.{name}") else None

    def keeps_constants(self, owner: ClassTable) -> bool:
        """Tell whether the constants of a class are what its body says: those of an `Enum` become members."""
        return all(base in _CONSTANT_OWNERS for base in self.direct_bases(owner))

    # classes

    def lineage(self, owner: ClassTable) -> tuple[str, ...]:
        """Return the dotted names of all known ancestors of a class, nearest first."""
        if owner.lineage is not None:
            return owner.lineage
        owner.lineage = ()  # a class that inherits from itself is no program, but must not hang the reader
        owner.lineage = ancestry(self.direct_bases(owner), self._lineage_of)
        return owner.lineage

    def _lineage_of(self, path: str) -> tuple[str, ...]:
        own = self.module.classes.get(path)
        if own is None:
            return self.world.lineage(path)
        if self._depth > _DEEPEST:
            return ()
        self._depth += 1
        try:
            return self.lineage(own)
        finally:
            self._depth -= 1

    def direct_bases(self, owner: ClassTable) -> Origins:
        """Return the dotted names of the bases that a class names itself."""
        assert owner.node is not None and owner.parent is not None
        return tuple(origin for base in owner.node.bases for origin in self._base(base, owner.parent))

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
        found = self._attribute_origins(owner, name)
        result = unite([own if origin in ("?", "None") else (origin,) for origin in found or own])
        owner.attribute_origins[name] = result
        return result

    def _attribute_origins(self, owner: ClassTable, name: str) -> Origins | None:
        """Return the origins of an attribute where any class of the family sets it; None for methods too."""
        for table in self._family(owner):
            method = table.methods.get(name)
            if method is not None:
                return self.returned(method) if self.is_property(method) else None
            found = [*table.attributes.get(name, ()), *table.bindings.get(name, ())]
            if found:
                return self._grown(unite([self.binding(one) for one in found]), name, table.attribute_growth)
        return self._inherited(owner, name)

    def _inherited(self, owner: ClassTable, name: str) -> Origins | None:
        """Return the origins of an attribute that ancestors in other files set."""
        for path in self.lineage(owner):
            instance = f"{path}()"
            if path in self.module.classes or path.startswith("torch."):
                continue
            found = self.world.member(instance, name)
            if found != (f"{instance}.{name}",):
                return tuple(
                    f"self{origin[len(instance) :]}" if origin.startswith(f"{instance}.") else origin
                    for origin in found
                )
        return None

    def _family(self, owner: ClassTable) -> list[ClassTable]:
        return [owner, *(self.module.classes[path] for path in self.lineage(owner) if path in self.module.classes)]

    # expressions

    def expression(self, node: ast.expr, table: Table) -> Origins:
        """Return the origins of `node` read in `table`."""
        kind = KINDS.get(type(node))
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

    def made(
        self, functions: Origins, receivers: Origins, arguments: Sequence[Origins], node: ast.Call
    ) -> Origins | None:
        """Return the origins of what a call packs, unpacks or passes on, None for every other call."""
        if not may_make(functions, receivers):
            return None
        starred = any(isinstance(item, ast.Starred) for item in node.args)
        if functions == (PARTIAL_MAKER,):
            return partially(arguments[0], len(arguments) - 1) if arguments and not starred else (PARTIAL,)
        return made_of(functions, receivers, arguments, starred)

    # the algebra, with this file's classes and functions known

    def item(self, origins: Origins, step: str = "") -> Origins:
        """Return the origins of an item: of a tensor a tensor, else as `python_origins.item` says."""
        if len(origins) == 1:
            return self.world.item(origins[0], step)
        return unite([self.world.item(origin, step) for origin in origins])

    def subscript(self, origins: Origins, key: ast.expr) -> Origins:
        """Return the origins of `x[key]`; a slice of a container is such a container."""
        if isinstance(key, ast.Slice):
            return unite([(_slice(origin),) if "<" in origin else self.item((origin,)) for origin in origins])
        return self.item(origins, _position(key))

    def member(self, origins: Origins, name: str, table: Table) -> Origins:
        """Return the origins of attribute `name` of a value with `origins`."""
        if len(origins) == 1:
            return self._member(origins[0], name, table)
        return unite([self._member(origin, name, table) for origin in origins])

    def _member(self, origin: str, name: str, table: Table) -> Origins:
        if origin == "self" and table.owner is not None:
            return self.instance_attribute(table.owner, name)
        if "<" in origin:
            origin = bare(origin)
        if origin.endswith("()"):
            owner = self.module.classes.get(origin[:-2])
            found = self._own_member(owner, name) if owner is not None else None
            if found is not None:
                return found
        return self.world.member(origin, name)

    def _own_member(self, owner: ClassTable, name: str) -> Origins | None:
        """Return the origins of an attribute of an instance of a class of this file, seen from outside its methods."""
        method = self.method(owner, name)
        if method is not None and not self.is_property(method):
            return None
        origins = self.instance_attribute(owner, name)
        if origins != (f"self.{name}",):
            return relative_to(f"{owner.path}()", origins)
        if name in known_results.MODULE_METHODS:
            return (f"{known_results.MODULE}.{name}",) if _MODULE in self.lineage(owner) else None
        return None

    def result(self, functions: Origins, receivers: Origins, table: Table) -> Origins:
        """Return the origins of what `functions` return; `receivers` are those of the object before the dot."""
        if len(functions) == 1:
            return self._result(functions[0], receivers, table)
        return unite([self._result(function, receivers, table) for function in functions])

    def _result(self, function: str, receivers: Origins, table: Table) -> Origins:
        known = settled(function, receivers)
        if known is not None:
            return known
        name = callee(function)
        if name.startswith("self."):
            return self._own_result(name[5:], table)
        local = self.module.functions.get(name)
        if local is not None:
            return self.returned(local)
        if name == "super":
            return self._super(table)
        return self._method_result(name) or self.world.result(function, receivers)

    def _own_result(self, name: str, table: Table) -> Origins:
        """Return the origins of what `self.<name>()` returns."""
        if table.owner is None or "." in name:
            return UNKNOWN
        method = self.method(table.owner, name)
        if method is not None:
            return self.returned(method)
        instance = f"{table.owner.path}()"
        found = self.world.result(f"{instance}.{name}", (instance,))
        return tuple(f"self{origin[len(instance) :]}" if origin.startswith(instance) else origin for origin in found)

    def _method_result(self, name: str) -> Origins | None:
        """Return the origins of what a method of a class of this file returns, called from outside."""
        head, _, last = name.rpartition(".")
        owner = self.module.classes.get(head.removesuffix("()"))
        method = self.method(owner, last) if owner is not None else None
        if owner is not None and method is None and last == "__call__" and _MODULE in self.lineage(owner):
            method = self.method(owner, "forward")
        return relative_to(f"{head.removesuffix('()')}()", self.returned(method)) if method is not None else None

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
        if node is None or function.generator or isinstance(node, ast.AsyncFunctionDef) or not self._is_plain(function):
            return UNKNOWN
        if node.returns is not None:
            function.returned = self.annotation(node.returns, function.parent or self.module)
        if function.returned == UNKNOWN and function.returns:
            function.returned = unite(self.all_of(function.returns, function))
        return function.returned

    def _is_plain(self, function: FunctionTable) -> bool:
        """Tell whether the decorators of a function leave what it takes and returns as it is."""
        assert function.node is not None
        outer = function.parent or self.module
        return all(self._leaves(decorator, outer) for decorator in function.node.decorator_list)

    def _leaves(self, decorator: ast.expr, table: Table) -> bool:
        origins = self.expression(decorator, table)
        if len(origins) != 1:
            return False
        if origins[0].removesuffix("()") in known_results.LEAVING_DECORATORS:
            return True
        own = self.module.functions.get(origins[0])
        if own is not None:
            return self.keeps(own)
        known = self.world.function(origins[0])
        return known is not None and known.keeps

    def keeps(self, function: FunctionTable) -> bool:
        """Tell whether a function returns its first argument, whatever it does with it."""
        node = function.node
        first = next(iter(node.args.args), None) if node is not None else None
        if first is None or not function.returns or function.instance is not None:
            return False
        given = all(isinstance(value, ast.Name) and value.id == first.arg for value in function.returns)
        return given and len(function.bindings[first.arg]) == 1

    def is_property(self, function: FunctionTable) -> bool:
        """Tell whether reading the attribute calls the method."""
        assert function.node is not None
        outer = function.parent or self.module
        decorators = [self.expression(decorator, outer) for decorator in function.node.decorator_list]
        return any(len(origins) == 1 and origins[0] in known_results.PROPERTIES for origins in decorators)

    def parameters(self, function: FunctionTable) -> tuple[str, ...] | None:
        """Return the names of the positional parameters, without the instance or class that a method gets by itself;
        None where a decorator may have changed them."""
        if function not in self._parameters:
            self._parameters[function] = self._written_parameters(function)
        return self._parameters[function]

    def _written_parameters(self, function: FunctionTable) -> tuple[str, ...] | None:
        node = function.node
        if node is None or not self._is_plain(function):
            return None
        names = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))
        static = any(target_text(decorator) == "staticmethod" for decorator in node.decorator_list)
        return names[1:] if isinstance(function.parent, ClassTable) and not static else names

    def positional(self, name: str, table: Table) -> tuple[str, ...]:
        """Return the names of the positional parameters of a callee of this file or of the project."""
        if name.startswith("self."):
            return self._positional(name, table)
        if name not in self._positionals:
            self._positionals[name] = () if name.startswith("?") else self._positional(name, table)
        return self._positionals[name]

    def _positional(self, name: str, table: Table) -> tuple[str, ...]:
        function = self.module.functions.get(name)
        if function is not None:
            return self.parameters(function) or ()
        head, _, last = name.rpartition(".")
        owner = table.owner if head == "self" else self.module.classes.get(head.removesuffix("()"))
        if name in self.module.classes:
            owner, last = self.module.classes[name], "__init__"
        method = self.method(owner, last) if owner is not None else None
        if method is None and owner is not None:
            name = f"{owner.path}().{last}" if last != "__init__" else owner.path
        if method is None:
            return self.world.parameters(name)
        unbound = method.instance is not None and head and not head.endswith("()") and head != "self"
        return () if unbound and last != "__init__" else self.parameters(method) or ()

    # annotations

    def annotation(self, node: ast.expr, table: Table) -> Origins:
        """Return the origins of a value annotated with `node`."""
        return annotated(node, lambda name: self.expression(name, table))


def _slice(origin: str) -> str:
    return each(bare(origin), any_item(origin))


def _position(key: ast.expr) -> str:
    negative = isinstance(key, ast.UnaryOp) and isinstance(key.op, ast.USub)
    node = key.operand if negative else key  # type: ignore[attr-defined]
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return ""
    return f"-{node.value}" if negative else str(node.value)
