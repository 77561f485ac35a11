"""What a step did with its checkpoints: regions by the line that begins them, and what ran again in backward."""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tensoraudit.probes.pytorch.arguments import flatten
from tensoraudit.probes.pytorch.tensors import dtype_name

Place = tuple[str, int]
"""A file, by its real path, and a line in it."""

NOWHERE: Place = ("", 0)
"""The place of a region that no code of the user begins."""

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_OWN = f"{Path(__file__).parent}{os.sep}"
_HOOKS = frozenset({__file__, _OWN + "checkpointing.py"})
_real: dict[str, str] = {}


@dataclass
class Region:
    """All regions that begin at one line: how many in forward, and what of them ran again.

    `functions` names the hand-written Functions that they are made of, by file and qualified name.
    """

    entered: int = 0
    recomputed: int = 0
    modules: dict[str, None] = field(default_factory=dict)
    functions: set[tuple[str, str]] = field(default_factory=set)


class Regions:
    """What a step did with its checkpoints.

    `own` holds hand-written Functions that recompute. `calls` and `dtypes` tell for each module, by name, its runs in
    forward (`False`) and in backward (`True`), and the dtypes of the floating outputs in each. `ran` holds the watched
    lines that ran in forward, `again` those that ran in a recomputation, with the places of its regions.
    """

    def __init__(self, module: torch.nn.Module, own: Collection[type] = ()) -> None:
        self.own: set[type] = set(own)
        self.calls: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        self.dtypes: dict[bool, dict[str, set[str]]] = {False: {}, True: {}}
        self.ran: set[Place] = set()
        self.again: dict[Place, set[Place]] = {}
        self.tracer: Any = None
        self._regions: dict[Place, Region] = {}
        self._inside: list[Place] = []
        self._applied: Counter[tuple[type, Place]] = Counter()
        # By their id: the graph, and so every node, lives until the end of the step.
        self._made: dict[int, Place] = {}
        self._nodes: dict[int, Place] = {}
        self._names = {id(each): name or "model" for name, each in module.named_modules()}

    def places(self) -> dict[Place, Region]:
        """Return what began at each line, hand-written regions included."""
        found = {
            place: Region(each.entered, each.recomputed, dict(each.modules)) for place, each in self._regions.items()
        }
        for (cls, place), count in self._applied.items():
            if cls in self.own:
                region = found.setdefault(place, Region())
                region.entered += count
                region.functions.add((real(_file_of(cls)), cls.__qualname__))
        for place in self._nodes.values():
            found.setdefault(place, Region()).recomputed += 1
        return {place: region for place, region in found.items() if region.entered or region.recomputed}

    @property
    def entered(self) -> int:
        """Regions in forward, hand-written ones included."""
        return sum(region.entered for region in self.places().values())

    @property
    def recomputed(self) -> int:
        """Repetitions of regions in backward."""
        return sum(region.recomputed for region in self.places().values())

    def enter(self, place: Place) -> None:
        """Count a region, unless it lies inside one that is being recomputed, or nothing is to be differentiated."""
        if torch.is_grad_enabled() and not in_backward():
            self._at(place).entered += 1

    @contextmanager
    def refusals_counted(self, place: Place) -> Iterator[None]:
        """Count a region also where `checkpoint` objects to its arguments before it begins."""
        before = self._at(place).entered
        try:
            yield
        except Exception:
            if self._at(place).entered == before:
                self.enter(place)
            raise

    def applied(self, cls: type, place: Place, output: Any) -> Any:
        """Count the use of an autograd.Function in forward, and return its output."""
        if torch.is_grad_enabled() and not in_backward():
            self._applied[cls, place] += 1
            for leaf in tree_leaves(output):
                if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
                    self._made[id(leaf.grad_fn)] = place
        return output

    def counted(self, function: Callable[..., Any], place: Place, *, skip: int) -> Callable[..., Any]:
        """Return a region's function so that all its calls but the first `skip` count as recomputations."""
        calls = 0

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls <= skip:
                return function(*args, **kwargs)
            self._at(place).recomputed += 1
            self._inside.append(place)
            # On CUDA autograd runs backward in a thread of its own, which no tracer follows.
            elsewhere = self.tracer is not None and sys.gettrace() is None
            if elsewhere:
                sys.settrace(self.tracer)
            try:
                return function(*args, **kwargs)
            finally:
                self._inside.pop()
                if elsewhere:
                    sys.settrace(None)

        return run

    def before(self, module: torch.nn.Module, _: Any) -> None:
        """Hook: a module begins to run."""
        backward = in_backward()
        place = self._recomputing() if backward else None
        if id(module) in self._names:
            name = self._names[id(module)]
            self.calls[backward][name] += 1
            if place is not None:
                self._at(place).modules[name] = None

    def after(self, module: torch.nn.Module, _: Any, output: Any) -> None:
        """Hook: a module has run."""
        if id(module) in self._names:
            found = self.dtypes[in_backward()].setdefault(self._names[id(module)], set())
            leaves = (leaf for _, leaf in flatten(output, "") if isinstance(leaf, torch.Tensor))
            found.update(dtype_name(leaf.dtype) for leaf in leaves if leaf.is_floating_point())

    def line(self, place: Place) -> None:
        """A watched line begins to run."""
        if not in_backward():
            self.ran.add(place)
            return
        node = torch._C._current_autograd_node()
        region = self._inside[-1] if self._inside else self._made.get(id(node))
        if region is not None:
            self.again.setdefault(place, set()).add(region)

    def _at(self, place: Place) -> Region:
        return self._regions.setdefault(place, Region())

    def _recomputing(self) -> Place | None:
        """Return the region that backward is in; a Function whose backward runs modules is one of the hand-written."""
        if self._inside:
            return self._inside[-1]
        node = torch._C._current_autograd_node()
        cls = getattr(type(node), "_forward_cls", None)
        if cls is None:
            return None
        self.own.add(cls)
        return self._nodes.setdefault(id(node), self._made.get(id(node), NOWHERE))


def _file_of(cls: Any) -> str:
    code = getattr(inspect.unwrap(cls.forward), "__code__", None)
    return code.co_filename if code is not None else ""


def in_backward() -> bool:
    """Tell whether autograd is running a backward pass in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


def calling_place() -> Place:
    """Return the innermost line outside of torch that is running: NOWHERE when that is the step itself."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_TORCH) and name not in _HOOKS:
            return NOWHERE if name.startswith(_OWN) else (real(name), frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return NOWHERE


def real(name: str) -> str:
    """Return the real path of a file; the names of generated code as they are."""
    if name not in _real:
        _real[name] = os.path.realpath(name) if name and not name.startswith("<") else name
    return _real[name]


@contextmanager
def lines_watched(regions: Regions, lines: Collection[Place]) -> Iterator[None]:
    """Tell `regions` of each of these lines when it begins to run in this thread."""
    if not lines:
        yield
        return
    wanted = {(real(path), line) for path, line in lines}
    files = {path for path, _ in wanted}

    def called(frame: Any, event: str, arg: Any) -> Any:
        return running if real(frame.f_code.co_filename) in files else None

    def running(frame: Any, event: str, arg: Any) -> Any:
        here = real(frame.f_code.co_filename), frame.f_lineno
        if event == "line" and here in wanted:
            regions.line(here)
        return running

    before, regions.tracer = sys.gettrace(), called
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        regions.tracer = None
