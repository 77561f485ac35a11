"""A loaded model, and fresh copies of it.

The loaded module itself is never run: forward may change it. Every run, trace and export works on a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

SHARED_ABOVE = 512 << 20
"""Bytes of parameters above which copies share them: a forward that edits parameters in place then goes unseen."""

Spec = Mapping[str, Any]
"""The self-contained description of a model that every job gets (see `loading`)."""


@dataclass(frozen=True)
class Loaded:
    """A model as it was handed over. `program` is set for an ExportedProgram; `home` and `factory` for Python objects.

    `training` is the module's own flag; for an ExportedProgram, whether an operator in its graph is in training mode.
    """

    module: torch.nn.Module
    training: bool
    reload: Callable[[], torch.nn.Module]
    program: Any = None
    home: ModuleType | None = None
    factory: Any = None

    def fresh(self, *, evaluate: bool, share: bool | None = None) -> torch.nn.Module:
        """Return a copy in its first state, in eval mode or in the mode that it was handed over in.

        `share` says whether parameters are shared with other copies; None decides by their size.
        """
        share = self.weight_bytes > SHARED_ABOVE if share is None else share
        module = self._copy(share)
        if self.program is not None:
            # Its mode lies in its operators, and it refuses train() and eval(), which exporters call.
            module.__dict__["train"] = module.__dict__["eval"] = lambda mode=True: module
        elif evaluate:
            module.eval()
        return module

    def _copy(self, share: bool) -> torch.nn.Module:
        memo = {id(parameter): parameter for parameter in self.module.parameters()} if share else {}
        try:
            return copy.deepcopy(self.module, memo)
        except Exception:  # locks, generators, tensors with history: whatever cannot be copied can be made again
            return self.reload()

    @property
    def weight_bytes(self) -> int:
        """The size of parameters and buffers."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def remember(make: Callable[[], torch.nn.Module], **more: Any) -> Loaded:
    """Make a module, and keep the way to make it again."""
    module = make()
    return Loaded(module, training=bool(module.training), reload=make, **more)
