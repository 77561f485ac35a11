"""What the JAX worker says of itself when it starts."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

PACKAGES = (
    *("jax", "jaxlib", "flax", "jax2onnx", "onnx", "onnx-ir", "ml_dtypes", "numpy", "equinox", "orbax-checkpoint"),
    *("torch", "torchax", "tensorflow", "tensorflow-cpu", "keras"),
)


def hello() -> dict[str, Any]:
    """Import JAX and return its version, the devices that it sees, its 64-bit state, and the packages that jobs use.

    Raises ImportError when JAX is missing.
    """
    limit()
    import jax

    from tensoraudit.probes.jax.devices import devices

    active, inactive = devices()
    return {
        "framework": "jax",
        "version": str(jax.__version__),
        "devices": active,
        "inactive": inactive,
        "x64": bool(jax.config.jax_enable_x64),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def limit() -> None:
    """Set what XLA reads once, when it is loaded: its threads, and no reserve of the whole memory of a GPU.

    XLA takes the size of its pool from NPROC; with one thread a sum is split the same way on every machine.
    """
    asked = os.environ.get("TENSORAUDIT_THREADS", "")
    count = max(1, int(asked)) if asked.isdigit() else 1
    flags = os.environ.get("XLA_FLAGS", "")
    if count == 1 and "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["NPROC"] = str(count)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
