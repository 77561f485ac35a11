"""Plain values and generators outside of a module that its code may change: put back, so that every step starts alike.

A copy of a module brings its own attributes, but shares the globals of its file and the variables that its methods
close over: a counter there, or a `torch.Generator`, would make the second step another one than the first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import torch

from tensoraudit.probes.pytorch.memory import changed, snapshot

MAX_ENTRIES = 64
"""Longer containers are tables, not state."""


class Surroundings:
    """What the code of a module's classes can reach, as it was when this was made."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._back: list[Callable[[], Any]] = []
        for function in _functions(module):
            for name, value in list(function.__globals__.items()):
                self._keep(value, function.__globals__, name)
            for cell in function.__closure__ or ():
                if _filled(cell):
                    self._keep(cell.cell_contents, cell)

    def put_back(self) -> None:
        """Give everything its first value again."""
        for step in self._back:
            step()

    def _keep(self, value: Any, owner: Any, name: str = "") -> None:
        restore = _restorer(value)
        if restore is not None:
            self._back.append(restore)
        elif isinstance(value, (bool, int, float)) and name:
            self._back.append(lambda: owner.__setitem__(name, value))
        elif isinstance(value, (bool, int, float)):
            self._back.append(lambda: setattr(owner, "cell_contents", value))


def watch_original(module: torch.nn.Module) -> Callable[[], bool]:
    """Return a question: has anything in this module changed since, or got a gradient?

    Functions that a module keeps (lambdas, closures) are not copied with it, and may hold on to the original.
    """
    before = snapshot(module)
    versions = {name: (each._version, each.grad is None) for name, each in module.named_parameters()}

    def touched() -> bool:
        now = {name: (each._version, each.grad is None) for name, each in module.named_parameters()}
        return now != versions or bool(changed(before, module))

    return touched


def _functions(module: torch.nn.Module) -> Iterator[FunctionType]:
    classes = {cls for each in module.modules() for cls in type(each).__mro__}
    seen: set[int] = set()
    for cls in classes:
        foreign = cls.__module__.partition(".")[0] in {"torch", "builtins"}
        for function in () if foreign else vars(cls).values():
            # Functions of one file share their globals: one of them stands for all, except for what they close over.
            if isinstance(function, FunctionType) and (function.__closure__ or id(function.__globals__) not in seen):
                seen.add(id(function.__globals__))
                yield function


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _restorer(value: Any) -> Callable[[], Any] | None:
    """Return what puts an object that can be changed in place back to what it holds now."""
    if isinstance(value, torch.Generator):
        state = value.get_state()
        return lambda: value.set_state(state)
    if isinstance(value, np.random.Generator):
        numbers = value.bit_generator.state
        return lambda: setattr(value.bit_generator, "state", numbers)
    if isinstance(value, (random.Random, np.random.RandomState)):
        return _state_of(value)
    if type(value) in (list, dict, set) and len(value) <= MAX_ENTRIES:
        copied = value.copy()
        return lambda: _refill(value, copied)
    return None


def _state_of(generator: Any) -> Callable[[], Any]:
    python = isinstance(generator, random.Random)
    state = generator.getstate() if python else generator.get_state()
    return lambda: generator.setstate(state) if python else generator.set_state(state)


def _refill(container: Any, copied: Any) -> None:
    container.clear()
    container.extend(copied) if isinstance(container, list) else container.update(copied)
