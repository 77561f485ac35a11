"""Which devices JAX sees here, and the settings under which a reference runs on one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import jax
import numpy as np

from tensoraudit.probes.protocol import JobUnsupported

KINDS = ("cpu", "cuda")

INITIAL_X64 = bool(jax.config.jax_enable_x64)
"""Whether 64-bit types were on before any model was loaded (JAX_ENABLE_X64)."""


def devices() -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return every device as {"kind", "name", "capability", "driver"}, and why a kind of device is not there."""
    active, inactive = [], {}
    for kind in KINDS:
        try:
            found = jax.devices(kind)
        except RuntimeError as problem:
            inactive[kind] = f"JAX {jax.__version__} finds no {kind.upper()} device: {_first_line(problem)}"
            continue
        active += [_described(kind, each) for each in found]
    return active, inactive


def _described(kind: str, device: Any) -> dict[str, str]:
    capability = getattr(device, "compute_capability", "")
    version = getattr(device.client, "platform_version", "") if kind == "cuda" else ""
    return {"kind": kind, "name": str(device.device_kind), "capability": str(capability), "driver": str(version)}


def _first_line(problem: BaseException) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)


def device_of(name: str) -> Any:
    """Return the first JAX device of "cpu" or "cuda". Raises JobUnsupported with the reason when it is not there."""
    if name not in KINDS:
        raise JobUnsupported(f"no device called {name!r}: JAX runs here on cpu or cuda")
    try:
        return jax.devices(name)[0]
    except RuntimeError as problem:
        raise JobUnsupported(f"no {name.upper()} device: {_first_line(problem)}") from problem


def seed_everything(seed: int) -> None:
    """Seed every generator with hidden state. JAX has none: its keys are values."""
    random.seed(seed)
    np.random.seed(seed % 2**32)


@contextmanager
def pinned(device: Any) -> Iterator[dict[str, Any]]:
    """Run on one device, with matmuls in full precision, and yield the settings as plain JSON.

    What an earlier job drew does not matter. Whether 64-bit types are on is the model's own choice.
    """
    numbers, arrays = random.getstate(), np.random.get_state()
    try:
        with jax.default_device(device), jax.default_matmul_precision("highest"):
            yield _settings(device)
    finally:
        random.setstate(numbers)
        np.random.set_state(arrays)


def _settings(device: Any) -> dict[str, Any]:
    return {
        "jax": str(jax.__version__),
        "device": "cuda" if device.platform in {"gpu", "cuda"} else str(device.platform),
        "mode": "eval",
        "threads": int(os.environ.get("NPROC", "1")),
        "matmul_precision": "highest",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


@contextmanager
def wide_types() -> Iterator[None]:
    """Turn 64-bit types on, whatever the model chose."""
    enable = getattr(jax, "enable_x64", None)
    if enable is None:  # before JAX 0.8
        enable = import_module("jax.experimental").enable_x64
    with enable(True):
        yield
