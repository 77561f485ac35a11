"""The state of training as parts that can be read, compared and given back one at a time.

Shared by the workers: Python 3.9, no framework. What a framework's objects are is told by its `Kinds`; what belongs to
no kind and is no plain value is opaque: it may hold state, and nobody can give it back.
"""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tensoraudit.probes.resume_tree import Array, copied, is_value, put_in_place

DEPTH = 4
"""How deep objects within objects are looked into."""
OBJECTS = 2_000
"""How many objects are looked into at all."""

ORDER = ("model", "optimizer", "scheduler", "scaler", "stateful", "value", "generator", "rng")
"""In which order parts are given back: a scheduler sets the optimiser's rate, and reading anything may draw numbers."""


@dataclass
class Part:
    """One part of the state. `read` gives a copy of what it holds now, `give` puts such a copy back."""

    name: str
    kind: str
    read: Callable[[], Any]
    give: Callable[[Any], Any]


@dataclass
class Kinds:
    """What a worker's framework knows: its arrays, its own stateful objects, its global generators.

    `part(name, value, put)` returns the part that an object is, None for what it does not know; `put` replaces the
    object in whatever holds it. `clone` copies an array, None for what is none. `shared` tells an array that others
    hold on to (a parameter that an optimiser moves): it is given back in place, wherever it stands. `value(name)` tells
    the kind of a plain value by its name, where the framework keeps weights in such. `save` and `load` keep a state
    with arrays in a file.
    """

    array: Array
    clone: Callable[[Any], Any]
    shared: Callable[[Any], bool]
    part: Callable[[str, Any, Callable[[Any], None]], Part | None]
    value: Callable[[str], str]
    generators: Callable[[], list[Part]]
    save: Callable[[Any, Path], None]
    load: Callable[[Path], Any]


@dataclass
class Found:
    """The parts of a state, and the names of what is opaque."""

    parts: dict[str, Part]
    opaque: list[str]

    def read(self) -> dict[str, Any]:
        """Return copies of all parts."""
        return {name: part.read() for name, part in self.parts.items()}

    def give(self, values: Mapping[str, Any], names: Iterable[str]) -> None:
        """Give parts back, generators last."""
        wanted = [self.parts[name] for name in names if name in self.parts and name in values]
        for part in sorted(wanted, key=lambda each: ORDER.index(each.kind)):
            part.give(values[part.name])


def parts_of(state: Any, kinds: Kinds) -> Found:
    """Find the parts of a state: a dict, an object, or a module whose globals are the state."""
    walk = _Walk(kinds, state)
    walk.into(state, "", 0)
    for part in (*_generators(), *kinds.generators()):
        walk.found.parts[part.name] = part
    return walk.found


class _Walk:
    def __init__(self, kinds: Kinds, root: Any) -> None:
        self.found = Found({}, [])
        self._kinds = kinds
        self._seen = {id(root)}

    def into(self, holder: Any, prefix: str, depth: int) -> None:
        """Look at everything that an object, a dict or a module holds."""
        for key, value, put in _members(holder):
            self._add(f"{prefix}{key}", value, put, depth)

    def _add(self, name: str, value: Any, put: Callable[[Any], None], depth: int) -> None:
        if _is_code(value) or (id(value) in self._seen and not _is_scalar(value)):
            return
        self._seen.add(id(value))
        part = self._kinds.part(name, value, put) or _known(name, value) or self._plain(name, value, put)
        if part is not None:
            self.found.parts[name] = part
        elif _is_holder(value) and depth < DEPTH and len(self._seen) < OBJECTS:
            self.into(value, f"{name}.", depth + 1)
        elif not _is_constant(value):
            self.found.opaque.append(f"{name} ({type(value).__name__})")

    def _plain(self, name: str, value: Any, put: Callable[[Any], None]) -> Part | None:
        clone = self._kinds.clone
        if not is_value(value, self._unshared):
            return None

        def give(new: Any) -> None:
            fresh = copied(new, clone)
            if not put_in_place(value, fresh):
                put(fresh)

        return Part(name, self._kinds.value(name), lambda: copied(value, clone), give)

    def _unshared(self, value: Any) -> Any:
        return None if self._kinds.shared(value) else self._kinds.array(value)


def _members(holder: Any) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Name, value, and what replaces it."""
    if isinstance(holder, Mapping):
        for key, value in list(holder.items()):
            yield str(key), value, _setter(holder, key)
    elif isinstance(holder, (list, tuple)):
        for index, value in enumerate(holder):
            yield str(index), value, _setter(holder, index)
    else:
        for key, value in list(vars(holder).items()):
            if not key.startswith("__"):
                yield key, value, _attribute_setter(holder, key)


def _setter(holder: Any, key: Any) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        holder[key] = value

    return put


def _attribute_setter(holder: Any, name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        object.__setattr__(holder, name, value)  # a frozen dataclass would refuse, as flax's TrainState is one

    return put


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (type(None), bool, int, float, complex, str, bytes))


def _is_code(value: Any) -> bool:
    """Functions, classes and modules: what a program is made of, the same in every process."""
    return inspect.isroutine(value) or isinstance(value, (type, ModuleType)) or type(value).__module__ == "typing"


def _is_constant(value: Any) -> bool:
    """Paths, dtypes, devices, ranges: what is hashed by its value, or has a type that says so, does not change."""
    kind = type(value)
    hashed: Any = kind.__hash__
    by_value = hashed is not None and hashed is not object.__hash__
    return (by_value and not hasattr(value, "__dict__")) or kind.__name__ == "dtype"


def _is_holder(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) or (hasattr(value, "__dict__") and not inspect.isgenerator(value))


def _known(name: str, value: Any) -> Part | None:
    """Generators of Python and numpy, and whatever has `state_dict` and `load_state_dict`."""
    if isinstance(value, random.Random):
        return Part(name, "generator", value.getstate, value.setstate)
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return Part(name, "generator", lambda: copy.deepcopy(bits.state), lambda new: setattr(bits, "state", new))
    if isinstance(value, np.random.RandomState):
        return Part(name, "generator", value.get_state, value.set_state)
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return Part(
            name,
            "stateful",
            lambda: copy.deepcopy(value.state_dict()),
            lambda new: value.load_state_dict(copy.deepcopy(new)),
        )
    return None


def _generators() -> list[Part]:
    return [
        Part("rng.python", "rng", random.getstate, random.setstate),
        Part("rng.numpy", "rng", np.random.get_state, np.random.set_state),
    ]
