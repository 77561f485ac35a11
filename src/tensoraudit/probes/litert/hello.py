"""What the TensorFlow Lite worker says of itself when it starts."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

PACKAGES = ("ai-edge-litert", "numpy", "ml_dtypes", "flatbuffers")
ONLY_CPU = "TensorFlow Lite models are audited on the CPU in this version"


def hello() -> dict[str, Any]:
    """Import the interpreter and return its version, devices and packages. Raises ImportError when it is missing."""
    import ai_edge_litert.interpreter  # noqa: F401  (there is nothing to ask it)

    return {
        "framework": "litert",
        "version": _version("ai-edge-litert") or "",
        "devices": [
            {"kind": "cpu", "name": platform.processor() or platform.machine(), "capability": "", "driver": ""}
        ],
        "inactive": {"cuda": ONLY_CPU},
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
