"""Call a reference as often as needed, each time from the same first state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from tensoraudit.probes.protocol import JobError, remedy_of
from tensoraudit.probes.pytorch.arguments import Signature
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.memory import changed, restore, snapshot
from tensoraudit.probes.pytorch.outputs import left_out, name_outputs
from tensoraudit.routes.onnx_to_torch_onnx2torch import node_place
from tensoraudit.routes.source import error_place, text_place

MAX_MESSAGE = 2000


class Subject:
    """A reference in eval mode on one device.

    A call never sees what an earlier call left behind: when forward changed anything that the module remembers, the
    next call gets a new copy. `state_changed` names what was ever changed, `left_out` the classes of results that are
    no tensors.
    """

    def __init__(
        self,
        loaded: Loaded,
        signature: Signature,
        device: torch.device,
        prepare: Callable[[torch.nn.Module], None] | None = None,
    ) -> None:
        self.state_changed: set[str] = set()
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
        moved = {
            name: leaf.to(self._device) if isinstance(leaf, torch.Tensor) else leaf for name, leaf in leaves.items()
        }
        bound = self._signature.bind(moved)
        seed_everything(seed)
        try:
            with mode or nullcontext():
                # Copies, because a forward may change its inputs in place and the next draw needs them.
                result = self._module(*_copied(bound.args), **_copied(bound.kwargs))
                self.left_out.update(left_out(result))
                return name_outputs(result)
        finally:
            if names := changed(self._before, self._module):
                self.state_changed.update(names)
                if not restore(self._before, self._module, names):
                    self._renew()


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
