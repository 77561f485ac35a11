"""Which devices torch sees here, and the settings under which a reference runs on one."""

from __future__ import annotations

import os
import platform
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tensoraudit.probes.protocol import JobUnsupported

THREADS = 1
"""Threads of a run when TENSORAUDIT_THREADS does not say: sums then split the same way on every machine, and workers
that run side by side do not wait for each other's cores (two threads took five times as long on a busy machine)."""


def devices() -> list[dict[str, str]]:
    """Return every device as {"kind", "name", "capability", "driver"}."""
    found = [{"kind": "cpu", "name": _cpu_name(), "capability": _cpu_capability(), "driver": ""}]
    if torch.cuda.is_available():
        driver = str(torch.version.cuda or torch.version.hip or "")
        for index in range(torch.cuda.device_count()):
            capability = ".".join(map(str, torch.cuda.get_device_capability(index)))
            name = torch.cuda.get_device_name(index)
            found.append({"kind": "cuda", "name": name, "capability": capability, "driver": driver})
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _cpu_capability() -> str:
    capability = getattr(torch.backends.cpu, "get_cpu_capability", None)
    return str(capability()) if capability else ""


def device_of(name: str) -> torch.device:
    """Return the torch device of "cpu" or "cuda". Raises JobUnsupported with the reason when it is not there."""
    if name == "cpu":
        return torch.device("cpu")
    if name != "cuda":
        raise JobUnsupported(f"no device called {name!r}: PyTorch runs here on cpu or cuda")
    if not torch.backends.cuda.is_built() and not torch.version.hip:
        raise JobUnsupported(f"no CUDA device: torch {torch.__version__} is built without CUDA")
    if not torch.cuda.is_available():
        raise JobUnsupported(
            f"no CUDA device: torch {torch.__version__} has CUDA, but the driver shows no usable device"
        )
    return torch.device("cuda")


def seed_everything(seed: int) -> None:
    """Seed every generator that a model may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def threads() -> int:
    """Return how many threads a run uses."""
    asked = os.environ.get("TENSORAUDIT_THREADS", "")
    return max(1, int(asked)) if asked.isdigit() else THREADS


@contextmanager
def pinned(device: str = "cpu") -> Iterator[dict[str, Any]]:
    """Run with the settings that make a reference repeatable, yield them as plain JSON, and put the old ones back.

    No gradients, TF32 off, matmul precision highest, cuDNN deterministic and without benchmarking, threads fixed,
    autocast with its cache of cast weights, which a failed TorchScript export leaves off. What an earlier job drew or
    set does not matter.
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = (cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark, matmul.allow_tf32)
    precision, count, dtype = torch.get_float32_matmul_precision(), torch.get_num_threads(), torch.get_default_dtype()
    cache = torch.is_autocast_cache_enabled()
    state, numbers, arrays = torch.random.get_rng_state(), random.getstate(), np.random.get_state()
    torch.set_float32_matmul_precision("highest")
    cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark, matmul.allow_tf32 = False, True, False, False
    torch.set_num_threads(threads())
    torch.set_autocast_cache_enabled(True)
    try:
        with torch.no_grad():
            yield _settings(device)
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark, matmul.allow_tf32 = before
        torch.set_num_threads(count)
        torch.set_default_dtype(dtype)
        torch.set_autocast_cache_enabled(cache)
        torch.random.set_rng_state(state)
        random.setstate(numbers)
        np.random.set_state(arrays)


def _settings(device: str) -> dict[str, Any]:
    fast_path = getattr(torch.backends.mha, "get_fastpath_enabled", None)
    return {
        "torch": str(torch.__version__),
        "device": device,
        "mode": "eval",
        "gradients": False,
        "threads": torch.get_num_threads(),
        "tf32": False,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_deterministic": True,
        "cudnn_benchmark": False,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": bool(torch.backends.mkldnn.is_available()),
        "attention_fast_path": bool(fast_path()) if fast_path else True,
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
    }
