"""A Keras model to a `.keras` file, with which Keras itself opens it on another backend."""

from __future__ import annotations

from typing import Any


def save_keras(model: Any, path: str) -> None:
    """Write the model without its optimiser, and read back that its configuration makes a model again.

    A class of the user's without `get_config` is written by Keras and fails only when it is read. Raises whatever
    Keras raises.
    """
    model.save(path, include_optimizer=False) if _takes_optimizer(model) else model.save(path)
    type(model).from_config(model.get_config())


def _takes_optimizer(model: Any) -> bool:
    from inspect import signature

    try:
        return "include_optimizer" in signature(model.save).parameters
    except (TypeError, ValueError):
        return False
