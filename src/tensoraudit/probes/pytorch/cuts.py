"""Where a gradient is held back in forward: detach, no_grad, integers. One more run that watches every call.

Each tensor carries on a mark for everything that it was computed from. A call that takes a tensor which requires a
gradient and gives none that does is a *cut*; what its result reaches is marked with the cut too. So, of a parameter
without gradient, it can be said whether no output depends on it, or through which cut one does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.autograd import Function
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from tensoraudit.probes.pytorch.forward import Subject
from tensoraudit.routes.source import is_machinery

UNUSED = "forward does not use it"
UNREACHED = "no output depends on it"
NO_BACKWARD = "it is connected, but a backward function returns None for it"
UNKNOWN = "the reason could not be told"
LEAVES = "it leaves torch as a Python value"

_DETACHING = frozenset(("detach", "detach_", "data", "detach_copy"))
_LEAVING = frozenset(("item", "tolist", "numpy", "__array__", "__float__", "__int__"))
"""Calls whose result is no tensor any more."""

Sources = Callable[[Subject, Mapping[str, Any]], Mapping[str, Sequence[torch.Tensor]]]


def why_missing(
    subject: Subject, leaves: Mapping[str, Any], sources: Sources, lacking: Sequence[str] | None, seed: int
) -> dict[str, str]:
    """Return the reason for each gradient that is missing; with `lacking` None all cuts that lie on a way to an output.

    `sources` gives the tensors behind the names of gradients.
    """
    wanted = sources(subject, leaves)
    if any(isinstance(each, torch.jit.ScriptModule) for each in subject.module.modules()):
        return dict.fromkeys(lacking or (), f"{UNKNOWN}: the code of a TorchScript model cannot be watched")
    watch = _Watch(wanted)
    given = {name: wanted.get(f"input:{name}", [leaf])[0] for name, leaf in leaves.items()}
    try:
        with torch.enable_grad(), _functions_watched(watch), watch:
            outputs = list(subject.call(given, seed).values())
    except Exception:
        return dict.fromkeys(lacking or (), UNKNOWN)
    if lacking is None:
        return {key: text for key in wanted if (text := watch.cuts_of(key, outputs))}
    return {key: watch.reason(key, outputs) for key in lacking}


class _Watch(TorchFunctionMode):  # type: ignore[misc]
    """Marks: the names of sources, and the numbers of cuts."""

    def __init__(self, wanted: Mapping[str, Sequence[torch.Tensor]]) -> None:
        super().__init__()
        self.inside = 0
        self._marks = WeakIdKeyDictionary()
        self._used: set[str] = set()
        self._cuts: list[tuple[str, frozenset[str]]] = []
        for key, group in wanted.items():
            for each in group:
                self._marks[each] = self._marks.get(each, frozenset()) | {key}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _tensors((args, kwargs))
        live = self.live(given)
        result = func(*args, **(kwargs or {}))
        self.passed(_name(func), given, live, result)
        return result

    def live(self, tensors: Sequence[torch.Tensor]) -> frozenset[str]:
        """The sources whose gradient could still come through these tensors."""
        marks = [self._marks.get(each, frozenset()) for each in tensors if each.requires_grad]
        return frozenset(mark for each in marks for mark in each if isinstance(mark, str))

    def passed(self, name: str, given: Sequence[torch.Tensor], live: frozenset[str], result: Any) -> None:
        """Carry marks on from arguments to results, and note a cut."""
        marks = frozenset().union(*(self._marks.get(each, frozenset()) for each in given))
        if not marks:
            return
        found = _tensors(result)
        if found or name in _LEAVING:
            self._used.update(mark for mark in marks if isinstance(mark, str))
        ends = live and not any(each.requires_grad for each in found) and (found or name in _LEAVING)
        if ends and not self.inside:
            self._cuts.append((_described(name, found), live))
            marks |= {len(self._cuts) - 1}
        for each in found:
            self._marks[each] = self._marks.get(each, frozenset()) | marks

    def cuts_of(self, key: str, outputs: Sequence[torch.Tensor]) -> str:
        """The cuts between a source and the outputs, in words."""
        reached = frozenset().union(*(self._marks.get(each, frozenset()) for each in outputs))
        texts = [text for number, (text, keys) in enumerate(self._cuts) if number in reached and key in keys]
        return "; ".join(list(dict.fromkeys(texts))[:3])

    def reason(self, key: str, outputs: Sequence[torch.Tensor]) -> str:
        """Why a source has no gradient."""
        if cuts := self.cuts_of(key, outputs):
            return cuts
        reached = frozenset().union(*(self._marks.get(each, frozenset()) for each in outputs))
        if key in reached:
            return NO_BACKWARD
        if not self._used:
            return UNKNOWN
        left = [text for text, keys in self._cuts if key in keys and text.startswith(LEAVES)]
        if left:
            return left[0]
        return UNREACHED if key in self._used else UNUSED


def _tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def _name(func: Any) -> str:
    name = str(getattr(func, "__name__", func))
    return str(getattr(getattr(func, "__self__", None), "__name__", name)) if name == "__get__" else name


def _described(name: str, found: Sequence[torch.Tensor]) -> str:
    where = _where()
    if name in _LEAVING:
        return f"{LEAVES} ({name}{where})"
    if name in _DETACHING:
        return f"detached ({name}{where})"
    if not torch.is_grad_enabled():
        return f"computed without gradients, under no_grad or inference_mode ({name}{where})"
    if not any(each.is_floating_point() or each.is_complex() for each in found):
        return f"only its integers or truth values go on ({name}{where})"
    return f"{name} passes no gradient on{where}"


def _where() -> str:
    """The innermost line outside of torch and of this program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f" at {frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def _functions_watched(watch: _Watch) -> Iterator[None]:
    """A hand-written Function runs its forward without gradients and is differentiable all the same."""
    before = Function.__dict__["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        given = _tensors((args, kwargs))
        live = watch.live(given)
        watch.inside += 1
        try:
            result = before.__func__(cls, *args, **kwargs)
        finally:
            watch.inside -= 1
        watch.passed(cls.__name__, given, live, result)
        return result

    Function.apply = classmethod(apply)
    try:
        yield
    finally:
        Function.apply = before
