"""Where source stands: scopes around a fact, classes and their bases, names from outside the project. No rules here."""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from tensoraudit.facts import ClassDef, Fact, Import, Scope

_BUILTINS: Final = frozenset(dir(builtins))
_Place = tuple[str | None, int]


class CodeIndex:
    """Scopes by file and number, classes by their body and by module and name."""

    def __init__(self, scopes: Iterable[Fact], classes: Iterable[Fact], imports: Iterable[Fact]) -> None:
        self._scopes: dict[_Place, Scope] = {
            (scope.at.path, scope.id): scope for scope in scopes if isinstance(scope, Scope)
        }
        self._bodies: dict[_Place, ClassDef] = {}
        self._named: dict[tuple[str | None, str], ClassDef] = {}
        self._in_module: dict[tuple[str, str], list[ClassDef]] = defaultdict(list)
        self._bases: dict[int, tuple[str, ...]] = {}
        self._classes: dict[str, list[ClassDef]] = defaultdict(list)
        for definition in classes:
            if isinstance(definition, ClassDef):
                self._add_class(definition)
        self._outside = _roots(fact.module for fact in imports if isinstance(fact, Import)) - _roots(
            scope.module for scope in self._scopes.values()
        )

    def _add_class(self, definition: ClassDef) -> None:
        place = (definition.at.path, definition.scope)
        self._bodies[place] = definition
        self._named.setdefault((definition.at.path, definition.name), definition)
        if place in self._scopes:
            self._in_module[self._scopes[place].module, definition.name].append(definition)
            self._classes[_qualified(self._scopes[place])].append(definition)

    def scopes_around(self, fact: Any) -> Iterator[Scope]:
        """Yield the scopes around a fact, innermost first. A function or class is not around itself."""
        number = fact.parent if isinstance(fact, Scope) else getattr(fact, "scope", None)
        if number is None:
            return
        path = fact.at.path
        scope = self._scopes.get((path, number))
        if isinstance(fact, ClassDef) and scope is not None:  # a class names its own body as its scope
            scope = self._parent(scope)
        while scope is not None:
            yield scope
            scope = self._parent(scope)

    def _parent(self, scope: Scope) -> Scope | None:
        return None if scope.parent is None else self._scopes.get((scope.at.path, scope.parent))

    def innermost(self, fact: Any, kind: str) -> Scope | None:
        """Return the scope of this kind that a fact stands in; a function or class stands in its own."""
        if isinstance(fact, Scope) and fact.kind == kind:
            return fact
        if isinstance(fact, ClassDef) and kind == "class":
            return self._scopes.get((fact.at.path, fact.scope))
        return next((scope for scope in self.scopes_around(fact) if scope.kind == kind), None)

    def class_of(self, scope: Scope) -> ClassDef | None:
        """Return the class whose body `scope` is."""
        return self._bodies.get((scope.at.path, scope.id))

    def bases(self, definition: ClassDef) -> tuple[str, ...]:
        """Return the names of all bases, through classes of the project."""
        if id(definition) not in self._bases:
            self._bases[id(definition)] = tuple(self._ancestors(definition))
        return self._bases[id(definition)]

    def _ancestors(self, definition: ClassDef) -> dict[str, None]:
        found: dict[str, None] = {}
        waiting = [(definition, base) for base in reversed(definition.bases)]
        while waiting:
            user, base = waiting.pop()
            if base in found:
                continue
            found[base] = None
            parent = self._class_named(base, user)
            if parent is not None:
                waiting.extend((parent, above) for above in reversed(parent.bases))
        return found

    def _class_named(self, name: str, user: ClassDef) -> ClassDef | None:
        """Find a class by the name that `user` gives its base: one of its own file, or of the module that it names."""
        own = self._named.get((user.at.path, name))
        if own is not None:
            return own
        module, _, last = name.rpartition(".")
        return next((found for found in self._in_module.get((module, last), ()) if found.side == user.side), None)

    # definitions by name

    @cached_property
    def _functions(self) -> Mapping[str, list[Scope]]:
        """Functions and methods by their full dotted name."""
        functions: dict[str, list[Scope]] = {}
        for scope in self._scopes.values():
            if scope.kind == "function":
                functions.setdefault(_qualified(scope), []).append(scope)
        return functions

    def nested_functions(self) -> dict[int, list[int]]:
        """Return, for each scope, the functions and lambdas directly in it."""
        nested: dict[int, list[int]] = defaultdict(list)
        for scope in self._scopes.values():
            if scope.parent is not None and scope.kind in ("function", "lambda"):
                nested[scope.parent].append(scope.id)
        return nested

    def decorated(self) -> Iterator[Scope]:
        """Yield the functions and classes that have decorators."""
        return (scope for scope in self._scopes.values() if scope.applied)

    def functions_named(self, name: str, path: str | None) -> list[Scope]:
        """Return the functions and methods at a dotted name; those of the file `path` where it has any."""
        found = self._functions.get(name, [])
        return [scope for scope in found if scope.at.path == path] or found

    def is_defined(self, name: str) -> bool:
        """Tell whether a dotted name is a function or class of the project."""
        return name in self._functions or name in self._classes

    def classes_named(self, name: str) -> list[ClassDef]:
        """Return the classes at a dotted name."""
        return self._classes.get(name, [])

    def ancestors(self, definition: ClassDef) -> list[ClassDef]:
        """Return the bases of a class that are classes of the project, nearest first."""
        found = (self._class_named(base, definition) for base in self.bases(definition))
        return [base for base in found if base is not None]

    def methods(self, definition: ClassDef, name: str) -> list[Scope]:
        """Return the method of a class, its own or the nearest inherited one: several where it is defined twice."""
        for owner in (definition, *self.ancestors(definition)):
            body = self._scopes.get((owner.at.path, owner.scope))
            found = self._functions.get(f"{_qualified(body)}.{name}", ()) if body is not None else ()
            own = [scope for scope in found if scope.at.path == owner.at.path]
            if own:
                return own
        return []

    def is_external(self, name: str) -> bool:
        """Tell whether a dotted name begins with a builtin or a module from outside the project, so that it says which
        object it is. A local variable, or a name of the project, may hold any object."""
        root = name.partition(".")[0].partition("(")[0]
        return root in self._outside or root in _BUILTINS


def _qualified(scope: Scope) -> str:
    return f"{scope.module}.{scope.name}" if scope.module else scope.name


def _roots(modules: Iterable[str]) -> frozenset[str]:
    return frozenset(module.partition(".")[0] for module in modules) - {""}
