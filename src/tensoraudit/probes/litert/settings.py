"""Settings under which a TensorFlow Lite model runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from tensoraudit.probes.litert.hello import ONLY_CPU
from tensoraudit.probes.protocol import JobUnsupported

THREADS = 1
"""Threads of a run when TENSORAUDIT_THREADS does not say."""


def threads() -> int:
    """Return how many threads a run uses."""
    asked = os.environ.get("TENSORAUDIT_THREADS", "")
    return max(1, int(asked)) if asked.isdigit() else THREADS


def check_device(params: Mapping[str, Any]) -> None:
    """Raise JobUnsupported for a device that this worker does not run on."""
    name = params.get("device", "cpu")
    if name != "cpu":
        raise JobUnsupported(f"no {name} run: {ONLY_CPU}")


def settings(xnnpack: bool) -> dict[str, Any]:
    """Return what a run is made with, as plain JSON. `xnnpack`: whether that delegate computes a part of the model."""
    return {
        "litert": metadata.version("ai-edge-litert"),
        "device": "cpu",
        "xnnpack": xnnpack,
        "threads": threads(),
    }
