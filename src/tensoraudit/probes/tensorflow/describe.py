"""tensorflow.describe: what a model is, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.protocol import Session
from tensoraudit.probes.samples import flat
from tensoraudit.probes.tensorflow.loading import Opened, open_model
from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.routes.source import in_package, is_machinery


def describe(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Load the model and describe it: class, arguments with shapes and dtypes where it declares them, weights, own
    samples, source files. Raises JobFailed when the model cannot be loaded."""
    opened = open_model(session, params["model"])
    model = opened.model
    return {
        # What a SavedModel holds is of a class that the loader makes up.
        "class": "SavedModel" if params["model"]["format"] == "saved_model" else type(model.owner).__qualname__,
        "arguments": list(_arguments(model)),
        "parameters": [_tensor(each) for each in model.variables],
        "embedding_sizes": embedding_sizes(model),
        "samples": list(_samples(opened, session)),
        "dynamic": opened.dynamic,
        "source_files": source_files(model),
        "classes": sorted({base.__qualname__ for each in parts(model) for base in type(each).__mro__}),
        "notes": list(model.notes),
    }


def _arguments(model: Model) -> Iterator[dict[str, Any]]:
    if model.specs:
        for name, spec in model.specs.items():
            known = {} if spec.shape is None else {"dtype": spec.dtype, "shape": list(spec.shape)}
            yield {"name": name, "required": True, "annotation": "", **known}
        return
    for each in model.signature.arguments:
        if each.kind in {"positional", "keyword"}:
            yield {"name": each.name, "required": each.required, "annotation": each.annotation}


def _tensor(variable: Any) -> dict[str, Any]:
    name = getattr(variable, "path", None) or variable.name
    dtype = variable.dtype if isinstance(variable.dtype, str) else tf.as_dtype(variable.dtype).name
    return {"name": str(name), "dtype": dtype, "shape": [int(size) for size in variable.shape]}


def _samples(opened: Opened, session: Session) -> Iterator[dict[str, Any]]:
    for index, sample in enumerate(opened.samples):
        leaves = flat(sample)
        arrays = {n: session.put(v) if isinstance(v, np.ndarray) else {"value": v} for n, v in leaves.items()}
        yield {"name": f"sample-{index}", "arrays": arrays}


def parts(model: Model) -> list[Any]:
    """Return the layers and modules that a model is made of, itself first."""
    flatten = getattr(model.owner, "_flatten_layers", None)
    if model.is_keras and flatten is not None:
        return list(flatten())
    modules = getattr(model.owner, "submodules", ())
    return [model.owner, *modules] if isinstance(model.owner, tf.Module) else [model.owner]


def embedding_sizes(model: Model) -> dict[str, int]:
    """Return the number of rows of every Keras embedding, the bound of ids that go into it."""
    found = {}
    for layer in parts(model):
        if type(layer).__name__ == "Embedding" and isinstance(getattr(layer, "input_dim", None), int):
            found[str(layer.name)] = int(layer.input_dim)
    return found


def source_files(model: Model) -> list[str]:
    """Return the user's Python files that define the model: its classes, their bases and the factory."""
    kinds = {kind for each in parts(model) for kind in type(each).__mro__}
    files = {path for kind in kinds if (path := _file(kind)) and not in_package(path)}
    if model.home is not None and getattr(model.home, "__file__", None):
        files.add(str(Path(str(model.home.__file__)).resolve()))
    return sorted(files)


def _file(kind: type) -> str | None:
    try:
        path = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        return None
    return str(Path(path).resolve()) if path and not is_machinery(path) and Path(path).is_file() else None
