"""Which functions of the project a call hands over, and all that runs when they do. No rules here.

What is handed over is known from where an argument comes from (`Call.passes`). An object is known by its class: its
`forward` and `__call__` run, and its `__init__` tells what it is made of. From there the calls lead on, each function
once. A name that may be several functions reaches each of them perhaps, never surely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from tensoraudit.facts import Call, ClassDef, Fact, Name, Scope
from tensoraudit.facts.code_index import CodeIndex

MOST_REACHED: Final = 2_000
"""Functions that one call may lead to; a larger part of a project is not looked through to its end."""

Part = tuple[int, str]
"""A dotted name and the scope it belongs to: the class for `self.block`, the function for `block`."""

_CALLED: Final = ("forward", "__call__")
"""The methods of an object that run when it is called; of one of Keras `call` as well."""

_RUN: Final = (*_CALLED, "__init__")
"""The methods of an object that is handed over: those that run, and the one that makes it."""


@dataclass(slots=True)
class Reach:
    """Code, by scope and by what it makes; the value tells whether surely. `known` is false where something else may
    belong to it. `makers` holds functions that perhaps built the object: they do not run when it is used."""

    scopes: dict[int, bool] = field(default_factory=dict)
    parts: dict[Part, bool] = field(default_factory=dict)
    known: bool = True
    makers: dict[int, bool] = field(default_factory=dict)

    def add(self, other: Reach, surely: bool = True) -> None:
        """Add the scopes of `other`, perhaps or surely."""
        for scope, sure in other.scopes.items():
            self.scopes[scope] = self.scopes.get(scope, False) or (sure and surely)
        self.known = self.known and other.known


class CallGraph:
    """Calls by the scope that they stand in and by what they make; who calls whom is found when somebody asks."""

    def __init__(self, code: CodeIndex, calls: Iterable[Fact]) -> None:
        self._code = code
        self._standing: dict[int, list[Call]] = defaultdict(list)
        self._makers: dict[Part, list[Call]] = defaultdict(list)
        self._nested = code.nested_functions()
        self._applied: dict[str, list[tuple[Call, Scope]]] | None = None
        self._owners: dict[tuple[str | None, int], ClassDef | None] = {}
        self._called: dict[tuple[str, int | str | None], Reach] = {}
        self._edges: dict[int, tuple[tuple[int, bool], ...]] = {}
        self._reached: dict[tuple[tuple[int, bool], ...], tuple[dict[int, bool], bool]] = {}
        for call in calls:
            if isinstance(call, Call):
                self._standing[call.scope].append(call)
                part = self.part(call)
                if part is not None:
                    self._makers[part].append(call)

    def part(self, fact: Fact) -> Part | None:
        """Return what a call helps to make."""
        name = getattr(fact, "part_of", None)
        if name is None or not isinstance(fact, Call):
            return None
        if not name.startswith("self."):
            return fact.scope, name
        owner = self._owner(fact)
        return None if owner is None else (owner.scope, name)

    @property
    def applied(self) -> Mapping[str, list[tuple[Call, Scope]]]:
        """The calls that decorators make, by callee, with what they decorate."""
        if self._applied is None:
            self._applied = defaultdict(list)
            for scope in self._code.decorated():
                for call in scope.applied:
                    self._applied[call.callee].append((call, scope))
        return self._applied

    def defined(self, scope: Scope) -> Reach:
        """Return a function, or the methods of a class that run when its objects are used."""
        owner = self._code.class_of(scope)
        return Reach({scope.id: True}) if owner is None else self._methods([owner], _RUN)

    def handed(self, call: Call, keys: Sequence[int | str]) -> Reach:
        """Return the code of the argument that stands under one of `keys`, and all that it calls."""
        return self.reach(self.given(call, keys))

    def given(self, call: Call, keys: Sequence[int | str]) -> Reach:
        """Return the code of the argument that stands under one of `keys`."""
        key = next((key for key in keys if key in call.args), None)
        if key is None:
            return Reach(known=not call.splat)
        index = next((key for key in keys if call.passes is not None and key in call.passes), None)
        found = Reach()
        if call.passes is not None and index is not None:
            for group in call.passes[index]:
                found.add(self._any_of(group, call))
        else:
            found.known = self._is_plain(call.args[key])
        self._add_parts(found, call.args[key], call)
        return found

    def reach(self, start: Reach) -> Reach:
        """Return `start` with all functions that its own call."""
        roots = tuple(sorted(start.scopes.items()))
        if roots not in self._reached:
            self._reached[roots] = self._closure(start.scopes)
        scopes, complete = self._reached[roots]
        return Reach(scopes, start.parts, start.known and complete, start.makers)

    # what is handed over

    def _is_plain(self, value: object) -> bool:
        """Tell whether an argument whose origin is not known is no code of the project, as far as its value tells."""
        return isinstance(value, str | bytes | int | float | None)

    def _any_of(self, origins: Sequence[str | int], call: Call) -> Reach:
        found = Reach()
        for origin in origins:
            found.add(self._origin(origin, call), len(origins) == 1)
        return found

    def _origin(self, origin: str | int, call: Call) -> Reach:
        if isinstance(origin, int):
            return Reach({origin: True})
        origin = _object_of(origin)
        if origin.endswith("()") and "()" not in origin[:-2]:
            return self._instance(origin[:-2], call)
        classes = self._code.classes_named(origin)
        if classes:
            return self._methods(classes, _RUN)
        return self._function(origin, call)

    def _instance(self, name: str, call: Call) -> Reach:
        classes = self._code.classes_named(name)
        if classes:
            return self._methods(classes, _RUN)
        # A layer of a library holds no code of the project; other objects may have been given some.
        return Reach(known=name.startswith("torch.nn.") and name.rpartition(".")[2] not in _HOLDERS)

    def _function(self, name: str, call: Call) -> Reach:
        """Return the function or method of this name."""
        head, _, last = name.rpartition(".")
        if head == "self":
            owner = self._owner(call)
            return Reach(known=False) if owner is None else self._methods([owner], (last,))
        if head.endswith("()"):
            classes = self._code.classes_named(head[:-2])
            if classes:
                return self._methods(classes, _CALLED if last == "__call__" else (last,))
        scopes = self._code.functions_named(name, call.at.path)
        if scopes:
            return Reach({scope.id: len(scopes) == 1 for scope in scopes})
        return Reach(known=self._code.is_external(name))

    def _methods(self, classes: Sequence[ClassDef], names: Iterable[str]) -> Reach:
        found = Reach(known=False)
        for owner in classes:
            for name in (*names, "call") if "__call__" in names and self._is_keras(owner) else names:
                scopes = self._code.methods(owner, name)
                sure = len(classes) == 1 and len(scopes) == 1
                found.add(Reach({scope.id: sure for scope in scopes}))
        found.known = bool(found.scopes)
        return found

    def _is_keras(self, owner: ClassDef) -> bool:
        return any("keras" in base.split(".") for base in self._code.bases(owner))

    # what an object is made of

    def _add_parts(self, found: Reach, value: object, call: Call) -> None:
        """Add what makes the variable or attribute that is handed over; of the item that a loop takes out of one, all
        that makes the whole, perhaps."""
        if not isinstance(value, Name):
            return
        name = _object_of(value.name)
        parts = self._makers_of(name, call)
        sure = sum(maker.assigned == name for part in parts for maker in self._makers[part]) < 2
        if not parts and "." not in name:
            names = dict.fromkeys(name for block in call.blocks if block.kind == "loop" for name in block.names)
            parts, sure = [part for name in names for part in self._makers_of(name, call)], False
        for part in parts:
            found.parts[part] = sure
            built = [scope for maker in self._makers[part] for scope in self._target(maker).scopes]
            found.makers.update(dict.fromkeys(self.reach(Reach(dict.fromkeys(built, False))).scopes, False))
            if not found.known:
                for maker in self._makers[part]:
                    found.add(self._origin(maker.callee, maker), surely=False)
                found.known = False

    def _makers_of(self, name: str, call: Call) -> list[Part]:
        if name.startswith("self."):
            owner = self._owner(call)
            family = [owner, *self._code.ancestors(owner)] if owner is not None else []
            return [(each.scope, name) for each in family if (each.scope, name) in self._makers]
        around = next((scope for scope in self._code.scopes_around(call) if (scope.id, name) in self._makers), None)
        return [] if around is None else [(around.id, name)]

    # who calls whom

    def _closure(self, roots: dict[int, bool]) -> tuple[dict[int, bool], bool]:
        found: dict[int, bool] = {}
        # What is surely reached first, so that nothing is gone through twice.
        for sure in (True, False):
            waiting = [scope for scope, surely in roots.items() if surely or not sure]
            if not sure:
                waiting += [scope for scope, surely in self._beyond(found) if not surely]
            while waiting:
                scope = waiting.pop()
                if scope in found:
                    continue
                if len(found) >= MOST_REACHED:
                    return found, False
                found[scope] = sure
                waiting += (other for other, surely in self._from(scope) if surely or not sure)
        return found, True

    def _beyond(self, found: dict[int, bool]) -> list[tuple[int, bool]]:
        return [row for scope in found for row in self._from(scope)]

    def _from(self, scope: int) -> Iterable[tuple[int, bool]]:
        """Return the functions inside a function, those that it calls, and perhaps those that it hands on."""
        if scope not in self._edges:
            self._edges[scope] = tuple(dict.fromkeys(self._led_to(scope)))
        return self._edges[scope]

    def _led_to(self, scope: int) -> Iterator[tuple[int, bool]]:
        yield from ((inner, True) for inner in self._nested.get(scope, ()))
        for call in self._standing.get(scope, ()):
            yield from ((other, sure and not call.ambiguous) for other, sure in self._target(call).scopes.items())
            for group in chain.from_iterable((call.passes or {}).values()):
                yield from ((other, False) for other in self._any_of(group, call).scopes)

    def _target(self, call: Call) -> Reach:
        """Return what a call runs; of a class, the method that makes its objects."""
        owner = self._owner(call) if call.callee.startswith("self.") else None
        key = (call.callee, call.at.path if owner is None else owner.scope)
        known = self._called.get(key)
        if known is None:
            classes = self._code.classes_named(call.callee)
            found = self._methods(classes, ("__init__",)) if classes else self._function(call.callee, call)
            known = self._called[key] = found
        return known

    def _owner(self, call: Call) -> ClassDef | None:
        place = (call.at.path, call.scope)
        if place not in self._owners:
            body = self._code.innermost(call, "class")
            self._owners[place] = None if body is None else self._code.class_of(body)
        return self._owners[place]


def _object_of(name: str) -> str:
    """Return the object whose `forward` or `__call__` is named, as that runs what it is made of; else `name`."""
    head, _, last = name.rpartition(".")
    return head if last in _CALLED and head not in ("", "self") else name


_HOLDERS: Final = frozenset({"Sequential", "ModuleList", "ModuleDict", "DataParallel", "DistributedDataParallel"})
"""Classes of torch.nn whose objects run modules that they are given."""
