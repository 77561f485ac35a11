"""What a Keras file needs of the backend that it is loaded on: its own layers compute on all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MODELS = frozenset(("Functional", "Sequential", "Model", "InputLayer"))


def layers(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """The classes that Keras 3 has itself; a class of the user's computes with whatever it was written in. So does a
    Lambda layer. Raises ImportError."""
    import keras

    known = {op for op in operators if op in _MODELS or isinstance(getattr(keras.layers, op, None), type)}
    return {op for op in known if op not in {"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"}}
