"""What of a model runs through torch.compile: a compiler has its own way with checkpoints, which hooks do not see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_CALLS_MODULES = f"{_TORCH}{Path('nn', 'modules', 'module.py')}"


def compiled_modules(module: torch.nn.Module) -> list[str]:
    """Return the names of modules that `torch.compile(module)` made, or that `module.compile()` was called on."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    kind = getattr(frames, "OptimizedModule", ())
    return [
        name or "model"
        for name, each in module.named_modules()
        if isinstance(each, kind) or getattr(each, "_compiled_call_impl", None) is not None
    ]


@contextmanager
def compiled_calls() -> Iterator[list[str]]:
    """Collect what is called through torch.compile meanwhile: functions too, whatever name they are kept under.

    Every compiled call asks torch._dynamo which compiler to use under the stance of the moment, and is overheard there.
    What torch compiles for itself (flex_attention does) is no matter here. Where a torch has no such function, or
    nothing was ever compiled, the list stays empty.
    """
    heard: list[str] = []
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    original = getattr(frames, "_callback_from_stance", None)
    if original is None:
        yield heard
        return

    def asked(callback: Any) -> Any:
        caller = sys._getframe(2).f_code.co_filename
        own = caller.startswith(_TORCH) and caller != _CALLS_MODULES
        if callable(callback) and not own:  # None and False switch the compiler off
            heard.append(caller)
        return original(callback)

    frames._callback_from_stance = asked
    try:
        yield heard
    finally:
        frames._callback_from_stance = original
