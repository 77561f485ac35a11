"""Save what goes into each module of one run and what comes out, and the user's line that calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tensoraudit.probes.protocol import Session
from tensoraudit.probes.pytorch.tensors import put
from tensoraudit.routes.source import frame_place

Row = dict[str, Any]


class Listener:
    """`listed` are the rows of all modules by path, of which those that are called are extended; `budget` are bytes."""

    def __init__(self, session: Session, budget: int, listed: Mapping[str, Row]) -> None:
        self._session, self._left, self._listed = session, budget, listed
        self._called: dict[str, Row] = {}
        self._last: dict[str, Any] = {}

    def watch(self, module: torch.nn.Module) -> None:
        """Follow the calls of all modules; a script takes no hooks."""
        for path, each in module.named_modules():
            if not isinstance(each, torch.jit.ScriptModule):
                each.register_forward_pre_hook(self._before(path))
                each.register_forward_hook(self._after(path))

    def _before(self, path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: Any) -> None:
            row = self._called.setdefault(path, {**self._listed[path], "calls": 0, "inputs": [], "outputs": []})
            row["calls"] += 1
            if row["calls"] == 1:
                row["source"] = frame_place() or row["source"]
                row["inputs"] = self._save(args)

        return hook

    def _after(self, path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: Any, output: Any) -> None:
            self._last[path] = output

        return hook

    def finish(self) -> dict[str, Row]:
        """Save the last outputs, and return the modules as they were called, then those that never were."""
        for path, output in self._last.items():
            self._called[path]["outputs"] = self._save(output)
        silent: Row = {"calls": 0, "inputs": [], "outputs": []}
        rest = {path: {**row, **silent} for path, row in self._listed.items() if path not in self._called}
        return {**self._called, **rest}

    def _save(self, value: Any) -> list[Row]:
        saved = []
        for each in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(each, (tuple, list)):
                saved += self._save(each)
            elif isinstance(each, torch.Tensor) and self._left >= each.numel() * each.element_size():
                self._left -= each.numel() * each.element_size()
                saved.append(put(self._session, each))
        return saved
