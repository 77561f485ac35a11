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
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch
from torch.autograd import Function
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils import checkpoint as torch_checkpoint

from tensoraudit.probes.pytorch.arguments import flatten
from tensoraudit.probes.pytorch.tensors import dtype_name

OPTIONS = frozenset(
    {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop", "metadata_fn"}
)
"""Keywords that `checkpoint` keeps for itself; others go to the region's function."""


class Regions:
    """What a step did with its checkpoints.

    `entered` counts regions in forward, `recomputed` their repetitions in backward. `own` holds hand-written Functions
    that recompute. `calls` and `dtypes` tell for each module, by name, its runs in forward (`False`) and in backward
    (`True`), and the dtypes of the floating outputs in each.
    """

    def __init__(self, module: torch.nn.Module, own: Collection[type] = ()) -> None:
        self.own: set[type] = set(own)
        self.calls: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        self.dtypes: dict[bool, dict[str, set[str]]] = {False: {}, True: {}}
        self._regions = self._repeats = self._depth = 0
        self._applied: Counter[type] = Counter()
        self._nodes: set[int] = set()  # the graph, and so every node, lives until the end of the step
        self._names = {id(each): name or "model" for name, each in module.named_modules()}

    @property
    def entered(self) -> int:
        """Regions in forward, hand-written ones included."""
        return self._regions + sum(self._applied[cls] for cls in self.own)

    @property
    def recomputed(self) -> int:
        """Repetitions of regions in backward."""
        return self._repeats + len(self._nodes)

    def enter(self) -> None:
        """Count a region, unless it lies inside one that is being recomputed, or nothing is to be differentiated."""
        if torch.is_grad_enabled() and not in_backward():
            self._regions += 1

    @contextmanager
    def refusals_counted(self) -> Iterator[None]:
        """Count a region also where `checkpoint` objects to its arguments before it begins."""
        before = self._regions
        try:
            yield
        except Exception:
            if self._regions == before:
                self.enter()
            raise

    def apply(self, cls: type) -> None:
        """Count the use of an autograd.Function in forward."""
        if torch.is_grad_enabled() and not in_backward():
            self._applied[cls] += 1

    def counted(self, function: Callable[..., Any], *, skip: int) -> Callable[..., Any]:
        """Return a region's function so that all its calls but the first `skip` count as recomputations."""
        calls = 0

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls <= skip:
                return function(*args, **kwargs)
            self._repeats += 1
            self._depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1

        return run

    def before(self, module: torch.nn.Module, _: Any) -> None:
        """Hook: a module begins to run."""
        backward = in_backward()
        if backward and not self._depth:
            self._find_own()
        if id(module) in self._names:
            self.calls[backward][self._names[id(module)]] += 1

    def after(self, module: torch.nn.Module, _: Any, output: Any) -> None:
        """Hook: a module has run."""
        if id(module) in self._names:
            found = self.dtypes[in_backward()].setdefault(self._names[id(module)], set())
            leaves = (leaf for _, leaf in flatten(output, "") if isinstance(leaf, torch.Tensor))
            found.update(dtype_name(leaf.dtype) for leaf in leaves if leaf.is_floating_point())

    def _find_own(self) -> None:
        node = torch._C._current_autograd_node()
        cls = getattr(type(node), "_forward_cls", None)
        if cls is not None:
            self.own.add(cls)
            self._nodes.add(id(node))


def in_backward() -> bool:
    """Tell whether autograd is running a backward pass in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


@contextmanager
def watched(module: torch.nn.Module) -> Iterator[Regions]:
    """Leave checkpointing as it is and count."""
    regions = Regions(module)

    def checkpoint(original: Any, *args: Any, **kwargs: Any) -> Any:
        with regions.refusals_counted():
            return original(*args, **kwargs)

    def generator(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        regions.enter()
        return original(regions.counted(function, skip=0), *args, **kwargs)

    def apply(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is torch_checkpoint.CheckpointFunction:
            regions.enter()
            return original(cls, regions.counted(args[0], skip=1), *args[1:], **kwargs)
        regions.apply(cls)
        return original(cls, *args, **kwargs)

    with _patched(checkpoint, generator, apply), _hooked(regions):
        yield regions


@contextmanager
def removed(module: torch.nn.Module, own: Collection[type] = ()) -> Iterator[Regions]:
    """Run every region's function directly; also the forward of the hand-written Functions in `own`."""
    regions = Regions(module, own)

    def checkpoint(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **{name: value for name, value in kwargs.items() if name not in OPTIONS})

    def generator(*_: Any, **__: Any) -> Any:
        yield

    def apply(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is torch_checkpoint.CheckpointFunction:
            return args[0](*args[2:])
        return _plainly(cls, args, kwargs) if cls in own else original(cls, *args, **kwargs)

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
