"""Call a reference as often as needed, each time from the same first state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from tensoraudit.probes.protocol import JobError, remedy_of
from tensoraudit.probes.pytorch.arguments import Signature
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.memory import changed, restore, same_value, snapshot
from tensoraudit.probes.pytorch.outputs import left_out, name_outputs
from tensoraudit.routes.onnx_to_torch_onnx2torch import node_place
from tensoraudit.routes.source import error_place, text_place

MAX_MESSAGE = 2000


class Subject:
    """A reference in eval mode on one device.

    A call never sees what an earlier call left behind: when forward changed anything that the module remembers, the
    next call gets a new copy. `state_changed` names what was ever changed, `left_out` the classes of results that are
    no tensors. `settled` are names that `set_once` gave: what changes of these may stay.
    """

    def __init__(
        self,
        loaded: Loaded,
        signature: Signature,
        device: torch.device,
        prepare: Callable[[torch.nn.Module], None] | None = None,
        settled: Iterable[str] = (),
    ) -> None:
        self.state_changed: set[str] = set()
        self.settled = frozenset(settled)
        self.left_out: dict[str, str] = {}
        self._loaded, self._signature, self._device, self._prepare = loaded, signature, device, prepare
        self._renew()

    @property
    def module(self) -> torch.nn.Module:
        """The copy that the next call runs."""
        return self._module

    def _renew(self) -> None:
        # A prepared copy has parameters of its own, because preparing changes them.
        self._module = self._loaded.fresh(evaluate=True, share=False if self._prepare else None).to(self._device)
        if self._prepare:
            self._prepare(self._module)
        self._before = snapshot(self._module)

    def call(
        self, leaves: Mapping[str, Any], seed: int, mode: AbstractContextManager[Any] | None = None
    ) -> dict[str, torch.Tensor]:
        """Run once on flat leaves and return the named output tensors. Raises whatever the model raises."""
        try:
            return self._forward(leaves, seed, mode)
        finally:
            names = [name for name in changed(self._before, self._module) if name not in self.settled]
            if names:
                self.state_changed.update(names)
                if not restore(self._before, self._module, names):
                    self._renew()

    def _forward(
        self, leaves: Mapping[str, Any], seed: int, mode: AbstractContextManager[Any] | None = None
    ) -> dict[str, torch.Tensor]:
        moved = {
            name: leaf.to(self._device) if isinstance(leaf, torch.Tensor) else leaf for name, leaf in leaves.items()
        }
        bound = self._signature.bind(moved)
        seed_everything(seed)
        with mode or nullcontext():
            # Copies, because a forward may change its inputs in place and the next draw needs them.
            result = self._module(*_copied(bound.args), **_copied(bound.kwargs))
            self.left_out.update(left_out(result))
            return name_outputs(result)

    def set_once(self, inputs: Sequence[Mapping[str, Any]], seed: int) -> set[str]:
        """Return what the first call changes and no later one, if no result depends on it: a flag or a table that is
        made when it is first needed is no state. Empty where a call after others gives another result than a first one,
        or changes something still.

        The calls run on `inputs` in their order, and on the first of them again at the end.
        """
        alone = [self.call(leaves, seed) for leaves in inputs]
        self._renew()
        try:
            after = [self._forward(inputs[0], seed)]
            first = snapshot(self._module)
            names = set(changed(self._before, self._module))
            after += [self._forward(leaves, seed) for leaves in (*inputs[1:], inputs[0])]
            settled = not changed(first, self._module)
        finally:
            self._renew()
        return names if settled and all(map(_same, [*alone, alone[0]], after)) else set()


def _same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(same_value(one[name], other[name]) for name in one)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(each) for each in value)
    return value


def forward_error(problem: Exception) -> dict[str, Any]:
    """Return an exception of the model as data: type, message, and the user's line."""
    message = problem.message if isinstance(problem, JobError) else str(problem)
    source = text_place(message) or node_place(problem) or error_place(problem)
    return {"type": type(problem).__name__, "message": _readable(message), "source": source, **remedy_of(problem)}


def _readable(message: str) -> str:
    """TorchScript wraps what went wrong in a dump of its code; the last line says it."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    if lines and lines[0].startswith("The following operation failed in the TorchScript interpreter"):
        return lines[-1].removeprefix("RuntimeError: ").strip()
    return message.strip()[:MAX_MESSAGE]
