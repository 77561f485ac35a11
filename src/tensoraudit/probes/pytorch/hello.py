"""What the PyTorch worker says of itself when it starts."""

from __future__ import annotations

from importlib import metadata
from typing import Any

PACKAGES = (
    *("torch", "onnx", "onnxscript", "onnx-ir", "numpy", "safetensors", "transformers", "torchvision"),
    *("onnx2torch", "keras"),
)


def hello() -> dict[str, Any]:
    """Import torch and return its version, the devices that it sees, and the packages that its jobs use.

    Raises ImportError when torch is missing.
    """
    import torch

    from tensoraudit.probes.pytorch.devices import devices

    return {
        "framework": "pytorch",
        "version": str(torch.__version__),
        "devices": devices(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
