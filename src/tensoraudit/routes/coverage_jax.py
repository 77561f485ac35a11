"""What the converters of JAX models know of its primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_INLINED = frozenset(("closed_call", "core_call", "remat", "checkpoint"))


def jax2onnx(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a plugin. Raises ImportError."""
    import logging

    from jax2onnx.plugins import plugin_system

    logging.disable(logging.CRITICAL)  # its examples import packages that nobody needs, with a traceback for each
    try:
        plugin_system.import_all_plugins()
    finally:
        logging.disable(logging.NOTSET)
    return {op for op in operators if op in plugin_system.PLUGIN_REGISTRY or op in _INLINED}


def jax2tf(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """All: the program goes into TensorFlow as StableHLO, in one operator that XLA runs."""
    return set(operators)
