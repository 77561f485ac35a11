"""Audit a model before it moves between PyTorch, TensorFlow/Keras, JAX and ONNX Runtime.

The public names are loaded on first use, so that importing the package costs nothing and a worker in an interpreter
without our dependencies can load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensoraudit.version import __version__

if TYPE_CHECKING:
    from tensoraudit.api import compare, scan
    from tensoraudit.checkpoints.loader import LoadedCheckpoint, load_checkpoint
    from tensoraudit.checkpoints.tensor_spec import TensorSpec
    from tensoraudit.equivalence.comparison import Comparison, compare_arrays

__all__ = [
    "Comparison",
    "LoadedCheckpoint",
    "TensorSpec",
    "__version__",
    "compare",
    "compare_arrays",
    "load_checkpoint",
    "scan",
]

_HOMES = {
    "compare_arrays": "tensoraudit.equivalence.comparison",
    "Comparison": "tensoraudit.equivalence.comparison",
    "load_checkpoint": "tensoraudit.checkpoints.loader",
    "LoadedCheckpoint": "tensoraudit.checkpoints.loader",
    "TensorSpec": "tensoraudit.checkpoints.tensor_spec",
    "scan": "tensoraudit.api",
    "compare": "tensoraudit.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tensoraudit' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
