"""Keras models as `Model`: how their inputs are named and called, and how they are read from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from tensoraudit.probes.calls import Argument, Signature, signature_of
from tensoraudit.probes.keras_files import NOT_INPUTS, check_h5, declared_inputs
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.tensorflow.model import Leaves, Model, require_names, specs_of
from tensoraudit.probes.user_code import import_file

_UNKNOWN_CLASS = re.compile(r"(Could not locate \w+|Unknown (?:layer|object|\w+ function)):? '([^']+)'")
"""How Keras says that a file names a class which nothing has registered."""


def is_keras(value: Any) -> bool:
    """Whether a value is a model or layer, or a class of them, of Keras 3 or of the older tf_keras."""
    kind = value if isinstance(value, type) else type(value)
    return any(
        base.__name__ == "Layer" and base.__module__.partition(".")[0] in {"keras", "tf_keras"} for base in kind.__mro__
    )


def keras_model(model: Any, **more: Any) -> Model:
    """Wrap a Keras model: one with declared inputs by their names, any other by the arguments of its `call`."""
    inputs = declared_inputs(model, tf.nest.flatten)
    training = {"training": False} if "training" in {each.name for each in signature_of(model.call).arguments} else {}
    if inputs is None:
        return _subclassed(model, training, **more)
    names = [str(each.name) for each in tf.nest.flatten(inputs)]
    known = Signature(tuple(Argument(name, True, "") for name in names))

    def call(leaves: Leaves) -> Any:
        require_names(names, leaves)
        return model(tf.nest.pack_sequence_as(inputs, [leaves[name] for name in names]), **training)

    return Model(call, model, known, specs_of(list(zip(names, tf.nest.flatten(inputs)))), is_keras=True, **more)  # noqa: B905 - Python 3.9


def _subclassed(model: Any, training: Mapping[str, Any], **more: Any) -> Model:
    full = signature_of(model.call)
    signature = Signature(tuple(each for each in full.arguments if each.name not in NOT_INPUTS))

    def call(leaves: Leaves) -> Any:
        bound = signature.bind(leaves)
        return model(*bound.args, **bound.kwargs, **training)

    return Model(call, model, signature, is_keras=True, **more)


def load_keras(spec: Mapping[str, Any]) -> Model:
    """Load a `.keras` or `.h5` file. Raises JobFailed; code that an HDF5 file stores needs trust.

    (The archive's configuration was read before any worker started; that of HDF5 can only be read here.)
    """
    path = str(spec["path"])
    for code in spec.get("code") or ():
        if Path(code).is_file():
            import_file(code, "tensorflow")  # its decorators register the classes that the file names
    if spec["format"] == "keras_h5" and not spec.get("trust"):
        check_h5(path)
    return keras_model(_reading(path, _reader(bool(spec.get("trust")))))


def _reader(trust: bool) -> Callable[[str], Any]:
    import keras

    return lambda path: keras.saving.load_model(path, compile=False, safe_mode=not trust)


def _reading(path: str, read: Callable[[str], Any]) -> Any:
    name = Path(path).name
    try:
        return read(path)
    except Exception as problem:
        text = " ".join(str(problem).split())
        if found := _UNKNOWN_CLASS.search(text):
            raise JobFailed(
                f"{name} names {found[2]!r}, which is not Keras's own and which nothing has registered",
                remedy="Give the file that registers it (keras.saving.register_keras_serializable): --code FILE.py.",
            ) from problem
        raise JobFailed(
            f"{name} cannot be loaded: {type(problem).__name__}: {text[:300]}",
            remedy=f"It may be damaged, or written by another version of Keras than TensorFlow {tf.__version__} has.",
        ) from problem
