"""Regions of activation checkpointing in one training step: count them, or make them transparent.

`torch.utils.checkpoint.checkpoint` is bound under many names (from-imports, partials, wrappers), so replacing the name
would miss most of them. Here the function object itself gets another body, and so does the generator of its
non-reentrant variant, which torch's composable API imports by name. `apply` of every autograd.Function is watched as
well: the reentrant variant goes through it, and so do hand-written checkpoints. Those are known by what they do: their
backward runs modules forward again.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch
from torch.autograd import Function
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils import checkpoint as torch_checkpoint

from tensoraudit.probes.pytorch.training_watch import Place, Regions, calling_place

OPTIONS = frozenset(
    {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop", "metadata_fn"}
)
"""Keywords that `checkpoint` keeps for itself; others go to the region's function."""


@contextmanager
def watched(module: torch.nn.Module) -> Iterator[Regions]:
    """Leave checkpointing as it is and count."""
    with _redirected_regions(Regions(module), lambda place: True) as regions:
        yield regions


@contextmanager
def removed(module: torch.nn.Module, own: Collection[type] = (), keep: Place | None = None) -> Iterator[Regions]:
    """Run every region's function directly; also the forward of the hand-written Functions in `own`.

    Regions that begin at the line `keep` stay as they are, and are counted.
    """
    with _redirected_regions(Regions(module, own), lambda place: place == keep) as regions:
        yield regions


@contextmanager
def _redirected_regions(regions: Regions, stays: Callable[[Place], bool]) -> Iterator[Regions]:
    def checkpoint(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        place = calling_place()
        if not stays(place):
            return function(*args, **{name: value for name, value in kwargs.items() if name not in OPTIONS})
        with regions.refusals_counted(place):
            return original(function, *args, **kwargs)

    def generator(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        place = calling_place()
        if not stays(place):
            return iter((None,))
        regions.enter(place)
        return original(regions.counted(function, place, skip=0), *args, **kwargs)

    def apply(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        place = calling_place()
        if cls is torch_checkpoint.CheckpointFunction:
            if not stays(place):
                return args[0](*args[2:])
            regions.enter(place)
            return original(cls, regions.counted(args[0], place, skip=1), *args[1:], **kwargs)
        if cls in regions.own and not stays(place):
            return _plainly(cls, args, kwargs)
        return regions.applied(cls, place, original(cls, *args, **kwargs))

    with _patched(checkpoint, generator, apply), _hooked(regions):
        yield regions


@contextmanager
def _hooked(regions: Regions) -> Iterator[None]:
    hooks = register_module_forward_pre_hook(regions.before), register_module_forward_hook(regions.after)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _patched(checkpoint: Any, generator: Any, apply: Any) -> Iterator[None]:
    before = Function.__dict__["apply"]
    watched_apply = classmethod(lambda cls, *args, **kwargs: apply(before.__func__, cls, *args, **kwargs))
    with ExitStack() as stack:
        stack.enter_context(_redirected(inspect.unwrap(torch_checkpoint.checkpoint), checkpoint))
        stack.enter_context(_redirected(torch_checkpoint._checkpoint_without_reentrant_generator, generator))
        stack.enter_context(_set(Function, "apply", watched_apply, before))
        yield


@contextmanager
def _redirected(function: FunctionType, hook: Any) -> Iterator[None]:
    """Let a function, by whatever name it is called, run `hook(original, ...)` instead of its own body."""
    body, name = function.__code__, f"_redirected_{function.__name__}"
    original = FunctionType(body, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    function.__globals__[name] = functools.partial(hook, original)
    function.__code__ = _redirect.__code__.replace(co_names=(name,))
    try:
        yield
    finally:
        function.__code__ = body
        del function.__globals__[name]


def _redirect(*args: Any, **kwargs: Any) -> Any:
    return _a_name_in_the_globals_of_the_redirected_function(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


@contextmanager
def _set(owner: Any, name: str, value: Any, before: Any) -> Iterator[None]:
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _plainly(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a Function's forward as part of the graph: its own `torch.no_grad()` then keeps the graph, nobody else's."""
    code, no_grad = inspect.unwrap(cls.forward).__code__, torch.no_grad

    def transparent(*given: Any) -> Any:
        own = sys._getframe(1).f_code is code
        return torch.enable_grad() if own else no_grad(*given)

    # A Function with a setup_context of its own gets no context in forward.
    context = () if cls.setup_context is not Function.setup_context else (_Context(args),)
    with _set(torch, "no_grad", transparent, no_grad):
        return cls.forward(*context, *args, **kwargs)


class _Context:
    """Stands in for the context of a Function whose backward will not run."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(each, torch.Tensor) and each.requires_grad for each in args)
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def _nothing(self, *_: Any) -> None:
        pass

    mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_forward = _nothing
