"""What a training step costs: live bytes of tensors at the peak, floating-point operations, time."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tensoraudit.probes.pytorch.modes import EagerMode
from tensoraudit.probes.pytorch.training_step import Trainee

TURNS = 3
"""Pairs of steps that the time is taken over."""


class Meter(EagerMode):
    """Count what a step makes: the bytes of its tensors (activations, gradients) while they live, and operations.

    What was there before does not count: give it as `known`, since a view of it is a result of an operator too.
    `operations` are the floating-point operations of matrix products, convolutions and attention, as torch counts them.
    """

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        from torch.utils.flop_counter import flop_registry  # slow to import

        super().__init__()
        self.peak = self.live = self.operations = 0
        self._known = {each.untyped_storage()._cdata for each in known if _has_storage(each)}
        self._formulas = flop_registry

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = self._formulas.get(getattr(func, "_overloadpacket", None))
        if formula is not None:
            self.operations += int(formula(*args, **(kwargs or {}), out_val=result))
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor) and _has_storage(each):
                self._see(each.untyped_storage())
        return result

    def _see(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.live += size
            self.peak = max(self.peak, self.live)
            # A storage keeps its Python object for as long as anything in C++ holds it, so this is its true end.
            weakref.finalize(storage, self._gone, key, size).atexit = False

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type != "meta"


def cost_rows(trainee: Trainee, own: Collection[type], turns: int) -> Iterator[tuple[str, str, Any, str]]:
    """Yield with / without of memory, operations and time; nothing of a step that does not bear being measured."""
    with_, without = (_metered(trainee, remove=remove, own=own) for remove in (False, True))
    if with_ is not None and without is not None:
        counts = {
            "peak_memory_ratio": (with_.peak, without.peak, "bytes"),
            "flops_ratio": (with_.operations, without.operations, "operations"),
        }
        for metric, (more, less, unit) in counts.items():
            if less:
                detail = f"{more} {unit} with checkpointing, {less} without"
                yield f"training.{metric}", "model", more / less, detail
    ratios = [_seconds(trainee, own, remove=False) / _seconds(trainee, own, remove=True) for _ in range(turns)]
    yield "training.time_ratio", "model", median(ratios), f"median of {turns}"


def _metered(trainee: Trainee, *, remove: bool, own: Collection[type]) -> Meter | None:
    meters: list[Meter] = []

    def metered(module: torch.nn.Module) -> Meter:
        meters.append(Meter([*module.parameters(), *module.buffers()]))
        return meters[0]

    step = trainee.step(remove=remove, own=own, inside=metered)
    return None if step.error else meters[0]


def _seconds(trainee: Trainee, own: Collection[type], *, remove: bool) -> float:
    return max(trainee.step(remove=remove, own=own, inside=lambda module: nullcontext()).seconds, 1e-9)
