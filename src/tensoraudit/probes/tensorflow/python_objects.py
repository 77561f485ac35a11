"""Models from the user's Python: a Keras model, a tf.Module, a tf.function, a class of them, or a function that returns
one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from tensoraudit.probes.calls import Signature, flatten, signature_of
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.tensorflow.keras_models import is_keras, keras_model
from tensoraudit.probes.tensorflow.model import Leaves, Model, specs_of
from tensoraudit.probes.tensorflow.settings import seed_everything
from tensoraudit.probes.user_code import find, import_file, import_module, user_error

FUNCTION = tf.types.experimental.GenericFunction


def load_python_object(spec: Mapping[str, Any]) -> Model:
    """Load `file.py:name` or `package.module:name`. Raises JobFailed for code that fails or gives no model."""
    path = spec.get("path")
    home = import_file(path, "tensorflow") if path else import_module(str(spec.get("module")), "tensorflow")
    what = Path(path).name if path else str(spec.get("module"))
    attribute = str(spec.get("attribute") or "")
    factory = find(home, attribute, what, is_model)

    def make() -> Model:
        seed_everything(int(spec.get("seed") or 0))
        return wrap(_build(factory, f"{what}:{attribute}"), rebuild=make, home=home, factory=factory)

    return make()


def is_model(value: Any) -> bool:
    """Whether a value is a model or a class of models."""
    return is_keras(value) or (issubclass(value, tf.Module) if isinstance(value, type) else _is_instance(value))


def _is_instance(value: Any) -> bool:
    return isinstance(value, (tf.Module, FUNCTION))


def wrap(value: Any, **more: Any) -> Model:
    """Return what can be run as a model. Raises JobFailed for anything else."""
    if is_keras(value):
        return keras_model(value, **more)
    if isinstance(value, FUNCTION):
        return _function(value, value, **more)
    if not callable(value):
        raise JobFailed(
            f"the {type(value).__name__} cannot be called",
            remedy="Give the module a __call__, which takes tensors and returns tensors.",
        )
    return _function(value.__call__ if isinstance(value.__call__, FUNCTION) else value, value, **more)


def _function(function: Any, owner: Any, **more: Any) -> Model:
    """A callable: by its tf.function's input signature where it has one."""
    known = signature_of(getattr(function, "python_function", None) or function).arguments
    arguments = known[1:] if known and known[0].name == "self" else known
    signature = Signature(tuple(each for each in arguments if each.name != "training"))
    training = {"training": False} if len(signature.arguments) < len(arguments) else {}
    declared = getattr(function, "input_signature", None) or ()
    pairs = zip((each.name for each in signature.arguments), declared)  # noqa: B905 - Python 3.9
    tensors = [pair for name, spec in pairs for pair in flatten(spec, name)]

    def call(leaves: Leaves) -> Any:
        bound = signature.bind(leaves)
        return function(*bound.args, **bound.kwargs, **training)

    return Model(call, owner, signature, specs_of(tensors), **more)


def _build(factory: Any, what: str) -> Any:
    if not isinstance(factory, type) and is_model(factory):
        return factory
    if not callable(factory):
        raise JobFailed(
            f"{what} is a {type(factory).__name__}, not a model, a class of models or a function that returns one",
            remedy="Name one of these after the colon.",
        )
    try:
        made = factory()
    except (Exception, SystemExit) as problem:
        if needs := [each.name for each in signature_of(factory).arguments if each.required]:
            raise JobFailed(
                f"{what} needs arguments: {', '.join(needs)}",
                remedy="Write a function without arguments that builds the model with the right ones, and name it.",
            ) from problem
        raise user_error(problem, f"{what} cannot build the model", "tensorflow") from problem
    if is_model(made) and not isinstance(made, type):
        return made
    raise JobFailed(
        f"{what} returns a {type(made).__name__}, not a Keras model, a tf.Module or a tf.function",
        remedy="Return the model itself from it; a model of another framework needs --framework.",
    )
