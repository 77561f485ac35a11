"""Read a Keras file on any backend, and say how the model is called. Shared by the workers that Keras can run in.

Imports Keras only inside functions, because its first import fixes the backend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensoraudit.artifacts.keras_config import stored_code
from tensoraudit.probes.calls import Argument, Signature, flatten, signature_of
from tensoraudit.probes.converted import Declared
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.user_code import import_file
from tensoraudit.routes.conversion_causes import KERAS, refusal
from tensoraudit.routes.keras_backend import keras_on, layer_of

Arranged = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""

NOT_INPUTS = ("training", "mask")
"""Arguments of `call` that Keras fills itself."""
_MAX_CONFIG = 64 << 20


@dataclass(frozen=True)
class KerasFile:
    """A model of a file. `arrange` turns the values of the inputs, in the order of the signature, into (args, kwargs)
    of a call in inference mode."""

    model: Any
    signature: Signature
    arrange: Callable[[Sequence[Any]], Arranged]
    declared: Declared

    def in_order(self, result: Any) -> Any:
        """Return a dict of results in the order in which the file names them; each backend sorts it in its own way."""
        named = _attribute(self.model, "output")
        same = isinstance(result, dict) and isinstance(named, dict) and set(result) == set(named)
        return {key: result[key] for key in named} if same else result


def read(spec: Mapping[str, Any], backend: str, framework: str) -> KerasFile:
    """Load the file of a spec with this backend.

    Raises JobFailed; code that the file stores needs trust, as it does in the TensorFlow worker.
    """
    path, trust = str(spec["path"]), bool(spec.get("trust"))
    try:
        keras = keras_on(backend)
        for code in spec.get("code") or ():
            if Path(code).is_file():
                import_file(code, framework)  # its decorators register the classes that the file names
        if spec["format"] == "keras_h5" and not trust:
            check_h5(path)
        return _described(keras, keras.saving.load_model(path, compile=False, safe_mode=not trust))
    except JobFailed:
        raise
    except Exception as problem:
        cause, details = refusal(problem, KERAS, "load", operator=layer_of(problem))
        raise JobFailed(f"{Path(path).name} cannot run on {backend}: {cause}", **details) from problem


def _described(keras: Any, model: Any) -> KerasFile:
    full = signature_of(model.call)
    training = {"training": False} if any(each.name == "training" for each in full.arguments) else {}
    structure, result = declared_inputs(model, keras.tree.flatten), _attribute(model, "output")
    outputs = {} if result is None else _dtypes(dict(flatten(result, "output")))
    if structure is None:
        signature = Signature(tuple(each for each in full.arguments if each.name not in NOT_INPUTS))
        names = [argument.name for argument in signature.arguments]
        return KerasFile(model, signature, _by_name(names, training), Declared({}, outputs))
    inputs = {str(each.name): each for each in keras.tree.flatten(structure)}

    def arrange(values: Sequence[Any]) -> Arranged:
        return (keras.tree.pack_sequence_as(structure, list(values)),), training

    signature = Signature(tuple(Argument(name, True, "") for name in inputs))
    return KerasFile(model, signature, arrange, Declared(_dtypes(inputs), outputs))


def _by_name(names: Sequence[str], more: Mapping[str, Any]) -> Callable[[Sequence[Any]], Arranged]:
    return lambda values: ((), {**dict(zip(names, values)), **more})  # noqa: B905 - Python 3.9


def _dtypes(tensors: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(each.dtype) for name, each in tensors.items() if hasattr(each, "dtype")}


def declared_inputs(model: Any, leaves: Callable[[Any], Sequence[Any]]) -> Any:
    """The structure of the inputs, None for a model whose code alone knows them. `leaves` flattens it.

    A Sequential has `inputs`, a list of one, but no `input` before it was called.
    """
    inputs = _attribute(model, "input")
    if inputs is None and (several := _attribute(model, "inputs")):
        inputs = several[0] if len(several) == 1 else several
    names = [getattr(each, "name", "") for each in leaves(inputs)]
    return inputs if all(names) and len(set(names)) == len(names) else None


def _attribute(model: Any, name: str) -> Any:
    try:
        return getattr(model, name)
    except Exception:  # not built, or a class of its own: each version of Keras has its own exception
        return None


def check_h5(path: str) -> None:
    """Refuse an HDF5 file that stores code: Keras looks for it in its own archives only. Raises JobFailed."""
    import h5py

    name = Path(path).name
    try:
        with h5py.File(path, "r") as file:
            config = file.attrs.get("model_config")
    except (OSError, KeyError, RuntimeError) as problem:
        raise JobFailed(
            f"{name} is a damaged HDF5 file ({problem})", stage="load", remedy="Copy or save it again."
        ) from problem
    if config is None:
        raise JobFailed(
            f"{name} holds weights only, or no Keras model at all",
            stage="load",
            remedy="Name a function that builds the model and loads the weights: file.py:name.",
        )
    text = config.decode("utf-8", "replace") if isinstance(config, bytes) else str(config)
    try:
        found = stored_code(json.loads(text[:_MAX_CONFIG]))
    except (ValueError, RecursionError) as problem:
        raise JobFailed(
            f"{name} has a configuration that is no JSON", stage="load", remedy="Save the model again."
        ) from problem
    if found:
        raise JobFailed(
            f"{name} is a Keras model that stores code, and loading it would run it: {', '.join(found[:12])}",
            stage="load",
            remedy="If you trust where it comes from, add --trust; else build the model from its source, file.py:name.",
        )
