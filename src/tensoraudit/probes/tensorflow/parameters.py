"""tensorflow.parameters: every variable with what it means, and every layer with its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.protocol import JobFailed, Session
from tensoraudit.probes.tensorflow.call_recorder import Listener
from tensoraudit.probes.tensorflow.keras_layers import own_variables, owners, parameter, path_of, settings
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.probes.tensorflow.run import run_error
from tensoraudit.probes.tensorflow.settings import seed_everything
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.routes.source import is_machinery, place

BUDGET = 512 << 20
"""Bytes of the layers' inputs and outputs that are saved, when the caller gives no budget."""

KINDS = {
    **{"kernel": "kernel", "weight": "kernel", "bias": "bias", "gamma": "gamma", "beta": "beta"},
    **{"moving_mean": "mean", "moving_variance": "variance"},
}
"""By a word of the name, where no layer tells."""

KERNELS = {2: "io", 3: "wio", 4: "hwio", 5: "dhwio"}
"""What the axes of something called a kernel are in TensorFlow, by their number; its values may show another layout."""


def parameters(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return the model's variables in its own order, and its Keras layers; see `pytorch.parameters` for the rows.

    Raises JobFailed when the model cannot be loaded or run.
    """
    session.pack()
    model = open_model(session, params["model"]).model
    keras = model.is_keras
    listed: dict[int, dict[str, Any]] = {}
    if keras and params.get("inputs") is not None:  # some models make their variables now
        listed = _run(model, session, params)
    rows = list(_keras_rows(model) if keras else _plain_rows(model))
    if params.get("values"):
        for row, variable in rows:
            row["tensor"] = session.put(np.asarray(variable.numpy()))
    if keras:
        silent = {id(layer): _module(layer) for layer in owners(model.owner)}
        listed = {**listed, **{key: row for key, row in silent.items() if key not in listed}}
    return {"parameters": [row for row, _ in rows], "modules": list(listed.values())}


def _keras_rows(model: Model) -> Iterator[tuple[dict[str, Any], Any]]:
    seen: set[int] = set()
    for layer in owners(model.owner):
        for variable in own_variables(layer):
            if id(variable) not in seen:
                seen.add(id(variable))
                owner = {"module": layer.name, "class": type(layer).__name__}
                yield {**_row(variable), **owner, **parameter(layer, variable)}, variable
    for variable in model.variables:
        if id(variable) not in seen and "seed_generator" not in path_of(variable):
            yield {**_row(variable), **_unknown(variable)}, variable


def _plain_rows(model: Model) -> Iterator[tuple[dict[str, Any], Any]]:
    for variable in model.variables:
        yield {**_row(variable), **_unknown(variable)}, variable


def _row(variable: Any) -> dict[str, Any]:
    dtype = variable.dtype if isinstance(variable.dtype, str) else tf.as_dtype(variable.dtype).name
    return {"name": path_of(variable), "shape": [int(size) for size in variable.shape], "dtype": dtype}


def _unknown(variable: Any) -> dict[str, Any]:
    path, _, name = path_of(variable).partition(":")[0].rpartition("/")
    kind = next((kind for word, kind in KINDS.items() if word in name), "other")
    axes = KERNELS.get(len(variable.shape), "") if name == "kernel" else ""
    return {"module": path, "class": "", "kind": kind, "axes": axes, "gates": "", "part": "", "cell": ""}


def _module(layer: Any) -> dict[str, Any]:
    row = {"path": layer.name, "class": type(layer).__name__, "config": settings(layer), "source": _defined(layer)}
    leaf = hasattr(layer, "cell") or not layer._layers
    return {**row, "leaf": leaf, "calls": 0, "inputs": [], "outputs": []}


def _defined(layer: Any) -> dict[str, Any] | None:
    """Where a class of the user's begins; None for the framework's own."""
    try:
        path, (_, line) = inspect.getsourcefile(type(layer)), inspect.getsourcelines(type(layer))
    except (TypeError, OSError):
        return None
    return None if not path or is_machinery(path) else place(str(Path(path).resolve()), line)


def _run(model: Model, session: Session, params: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Run once and return the rows of the layers that were called, in the order of their first calls."""
    listener = Listener(session, int(params.get("budget") or BUDGET), _module)
    state = State(model)
    seed_everything(int(params.get("seed", 0)))
    try:
        with listener.listening():
            model.run(read_input(session, params["inputs"]))
    except Exception as problem:
        error = run_error(problem)
        raise JobFailed(f"the model fails: {error['type']}: {error['message']}", source=error["source"]) from problem
    finally:
        state.restore()
    listener.finish()
    inner = {id(getattr(layer, "cell", None)) for layer in owners(model.owner)}
    return {key: row for key, row in listener.rows.items() if key not in inner}
