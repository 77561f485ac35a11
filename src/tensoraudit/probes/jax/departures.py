"""JAX models that leave for TensorFlow: one SavedModel with the weights as variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from tensoraudit.probes.converted import Declared, changes, converted
from tensoraudit.probes.jax.devices import device_of, pinned, seed_everything
from tensoraudit.probes.jax.export import run_once
from tensoraudit.probes.jax.forward import name_outputs
from tensoraudit.probes.jax.loaded import is_plain
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.tensors import dtype_name, is_array
from tensoraudit.probes.protocol import JobFailed, Session
from tensoraudit.routes.conversion_causes import refusal
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.jax_causes import operation_place
from tensoraudit.routes.jax_to_tensorflow_jax2tf import Conversion, convert
from tensoraudit.routes.saved_names import plain_names
from tensoraudit.routes.source import chain
from tensoraudit.routes.tensorflow_conversion_causes import JAX2TF

ONE_OPERATION = (
    "jax2tf writes the model as one operation (XlaCallModule): TensorFlow runs it with XLA, "
    "and no other tool looks into it"
)
SYMBOLIC = ("InconclusiveDimensionOperation", "UnexpectedDimVar")
"""What JAX raises where the code does not hold for every size."""
NO_GRADIENT = "jax2tf cannot store the gradient of this model ({why}): TensorFlow runs it, but cannot differentiate it"
"""What a conversion says where only the forward pass converts."""


def jax2tf(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """The model as a SavedModel, in the mode in which an export sees it. Raises JobFailed."""
    model = open_model(session, params["model"])
    folder = Path(params["folder"]) / "saved_model"
    before = {name: each.get("logical") or each.get("dtype") for name, each in params["inputs"]["arrays"].items()}
    with pinned(device_of("cpu")):
        leaves = read_input(session, params["inputs"])
        outputs = {name: dtype_name(each) for name, each in run_once(model, leaves).items()}
        session.progress("converting with jax2tf")
        log, options, said = _convert(_conversion(model, leaves, params), str(folder))
    inputs = {name: dtype_name(leaf) for name, leaf in leaves.items() if is_array(leaf)}
    return converted(
        {"model": {"format": "saved_model", "path": str(folder), "trust": False}},
        list(plain_names(list(inputs)).values()),
        list(outputs),
        ("jax", "jaxlib", "tensorflow", "tensorflow-cpu"),
        warnings=[ONE_OPERATION, *said, *log.warnings],
        options={**options, "x64": model.x64},
        dtype_changes=changes({name: str(dtype) for name, dtype in before.items() if dtype}, inputs),
    )


def _conversion(model: Model, leaves: Mapping[str, Any], params: Mapping[str, Any]) -> Conversion:
    """The model as a function of weights and arrays by name; random keys and Python's values are part of it."""
    loaded = model.loaded
    made = loaded.as_made or loaded.apply
    arrays = {name: leaf for name, leaf in leaves.items() if is_array(leaf)}
    rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
    known, tree = jax.tree_util.tree_flatten(loaded.parameters)
    places = dict(zip(_weight_names(loaded.parameters, len(known)), range(len(known))))  # noqa: B905 - Python 3.9
    weights = {name: known[place] for name, place in places.items() if is_plain(known[place])}

    def function(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        filled = list(known)
        for name, value in values.items():
            filled[places[name]] = value
        bound = model.signature.bind({**rest, **given})
        parameters = jax.tree_util.tree_unflatten(tree, filled)
        return name_outputs(made(parameters, *bound.args, **bound.kwargs))

    asked = params.get("dynamic") or {}
    dynamic = {
        name: {int(axis): _symbol(label) for axis, label in axes.items()}
        for name, axes in asked.items()
        if name in arrays
    }
    largest = loaded.made.largest if isinstance(loaded.made, Declared) else {}
    bounds = {
        symbol: largest[name][axis]
        for name, axes in dynamic.items()
        for axis, symbol in axes.items()
        if axis in largest.get(name, {})
    }
    return Conversion(function, weights, arrays, plain_names(list(arrays)), dynamic, bounds)


def _weight_names(parameters: Any, count: int) -> list[str]:
    names = list(named_leaves(parameters))
    return [re.sub(r"[^A-Za-z0-9_./>-]", "_", name) for name in names] if len(names) == count else _numbered(count)


def _numbered(count: int) -> list[str]:
    return [f"weight_{number}" for number in range(count)]


def _symbol(label: str) -> str:
    """A dimension's name as JAX takes it."""
    plain = re.sub(r"\W", "_", label)
    return plain if plain[:1].isalpha() else f"d{plain}"


def _convert(conversion: Conversion, folder: str) -> tuple[ExportLog, dict[str, Any], list[str]]:
    """With the gradient where there is one: what only runs forward is still a model."""
    seed_everything(0)
    log = ExportLog(list(conversion.inputs))
    try:
        with log.listen():
            return log, convert(conversion, folder), []
    except Exception as first:
        try:
            with log.listen():
                options = convert(conversion, folder, gradient=False)
        except Exception as problem:
            raise _refused(problem, conversion, log) from problem
        why, _ = refusal(first, JAX2TF, "translate")
        return log, options, [NO_GRADIENT.format(why=why)]


def _refused(problem: Exception, conversion: Conversion, log: ExportLog) -> JobFailed:
    cause, details = refusal(problem, JAX2TF, "translate", source=operation_place(problem))
    if any(type(each).__name__ in SYMBOLIC for each in chain(problem)):
        details["fixed"] = {
            name: {str(axis): int(conversion.inputs[name].shape[axis]) for axis in axes}
            for name, axes in conversion.dynamic.items()
        }
    return JobFailed(cause, **details, warnings=log.warnings)
