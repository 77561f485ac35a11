"""A GradScaler through an overflow: does the scale take the same course with checkpointing as without?"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from typing import Any

import torch

from tensoraudit.probes.pytorch.checkpointing import removed, watched
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.forward import forward_error
from tensoraudit.probes.pytorch.training_step import NoLoss, Trainee, trained

STEPS = 3
OVERFLOW = 1
"""The step, counted from 0, whose loss is multiplied by infinity."""

FIRST_SCALE = 1024.0
"""Small enough for float16, where twice the scale must not overflow by itself."""


def scaler_row(trainee: Trainee, own: Collection[type]) -> Iterator[tuple[str, str, Any, str]]:
    """Yield one row, or none where a model cannot be trained this way without checkpointing either."""
    with_, without = (_course(trainee, remove=remove, own=own) for remove in (False, True))
    if not without.startswith("error"):
        detail = f"{with_} with checkpointing; {without} without"
        yield "training.scaler_differs", "model", with_ != without, detail


def _course(trainee: Trainee, *, remove: bool, own: Collection[type]) -> str:
    """Return the scales after each step, and which steps were taken: `scales 2048, 1024, 2048, steps 1, 3 taken`."""
    module = trainee.module()
    parameters = list(trained(module).values())
    if not parameters:
        return "error: no parameter is trained"
    optimizer = torch.optim.SGD(parameters, lr=0.0)
    scaler = torch.amp.GradScaler(trainee.device.type, init_scale=FIRST_SCALE, growth_interval=1)
    scales: list[str] = []
    taken: list[int] = []
    optimizer.register_step_post_hook(lambda *_: taken.append(len(scales) + 1))
    try:
        around = removed(module, own) if remove else watched(module)
        with warnings.catch_warnings(), around, torch.enable_grad():
            warnings.simplefilter("ignore")  # the plain steps have listened to them
            for number in range(STEPS):
                seed_everything(trainee.seed + number)
                optimizer.zero_grad()
                loss = trainee.loss(module, trainee.bind())
                scaler.scale(loss * float("inf") if number == OVERFLOW else loss).backward()
                scaler.step(optimizer)
                scaler.update()
                scales.append(f"{scaler.get_scale():g}")
    except NoLoss:
        raise
    except Exception as problem:
        error = forward_error(problem)
        return f"error after {len(scales)} steps: {error['type']}: {error['message']}"
    return f"scales {', '.join(scales)}, steps {', '.join(map(str, taken))} taken"
