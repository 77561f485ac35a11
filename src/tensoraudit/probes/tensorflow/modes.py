"""The ways in which TensorFlow runs one model: as it is called, operation by operation, as a graph, compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.protocol import JobFailed, JobUnsupported
from tensoraudit.probes.tensorflow.frozen_graph import function_of
from tensoraudit.probes.tensorflow.model import Model, as_tensor

Runner = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From flat leaves to named outputs."""

CALLED = "as called"
"""A Keras model runs operation by operation when it is called, a tf.function and a SavedModel as a graph."""


def runner(model: Model, mode: str | None) -> Runner:
    """Return what runs the model in a mode: eager, function or xla; None runs it as it is called.

    Raises JobUnsupported where the model has no such mode, JobFailed for a name that is none.
    """
    if mode in {None, CALLED}:
        return model.run
    if mode not in MODES:
        raise JobFailed(f"Unknown mode {mode!r}; use one of {', '.join(MODES)}")
    return MODES[mode](model)


def _eager(model: Model) -> Runner:
    if not model.is_keras and not _has_python(model):
        raise JobUnsupported("the model is a stored graph, which has no Python to run operation by operation")

    def run(leaves: Mapping[str, Any]) -> Mapping[str, Any]:
        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        try:
            return model.run(leaves)
        finally:
            tf.config.run_functions_eagerly(before)

    return run


def _has_python(model: Model) -> bool:
    """Whether the model comes from the user's code; what a SavedModel stores are graphs."""
    return model.home is not None


def _compiled(model: Model, *, xla: bool) -> Runner:
    known: dict[str, Any] = {}

    def run(leaves: Mapping[str, Any]) -> Mapping[str, Any]:
        arrays = [name for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)]
        rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
        key = repr((arrays, rest))
        if key not in known:
            known[key] = tf.function(function_of(model, arrays, rest), jit_compile=xla or None)
        outputs: Mapping[str, Any] = known[key](*(as_tensor(leaves[name]) for name in arrays))
        return outputs

    return run


MODES: Mapping[str, Callable[[Model], Runner]] = {
    "eager": _eager,
    "function": lambda model: _compiled(model, xla=False),
    "xla": lambda model: _compiled(model, xla=True),
}
