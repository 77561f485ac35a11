"""Keras 3 files on another backend: the file names layers, and the backend computes them. Nothing is written."""

from __future__ import annotations

import os
import sys
from typing import Any


class BackendTakenError(RuntimeError):
    """Keras runs on another backend in this process already; it takes one only, when it is imported."""


def keras_on(backend: str) -> Any:
    """Return Keras with this backend (`torch`, `jax`). Raises BackendTakenError, ImportError."""
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = backend
    import keras

    found = keras.backend.backend() if hasattr(keras, "backend") else "tensorflow"
    if found != backend:
        raise BackendTakenError(f"keras was imported with the backend {found}, not {backend}")
    keras.config.disable_traceback_filtering()  # its filter hides the layer that failed
    return keras


def layer_of(problem: BaseException) -> str:
    """Return the class and name of the innermost layer in whose code an exception was raised; "" without one."""
    found = ""
    trace = problem.__traceback__
    while trace is not None:
        owner: Any = trace.tb_frame.f_locals.get("self")
        kinds = type(owner).__mro__
        if any(kind.__name__ == "Layer" and kind.__module__.startswith("keras.") for kind in kinds):
            found = f"{type(owner).__name__} {owner.name}"
        trace = trace.tb_next
    return found
