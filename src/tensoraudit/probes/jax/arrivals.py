"""Models of other frameworks that run in JAX: load them, and see that they can be traced on the sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from tensoraudit.probes.converted import Declared, changes, converted
from tensoraudit.probes.jax.devices import device_of, pinned
from tensoraudit.probes.jax.forward import NOT_TRACEABLE, ROOT, Subject
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.tensors import dtype_name, is_array
from tensoraudit.probes.protocol import JobError, JobFailed, Session
from tensoraudit.routes.causes import Cause
from tensoraudit.routes.conversion_causes import KERAS, TORCHAX, refusal
from tensoraudit.routes.export_log import ExportLog

MAX_NAMES = 4


def torchax(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """A `.pt2` by torchax: nothing is written, the loader translates. Raises JobFailed."""
    spec = {**params["model"], "format": "torchax"}
    return _arrive(spec, params, session, TORCHAX, ("torchax", "torch", "jax"))


def keras_jax(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """A Keras file with JAX as its backend: nothing is written. Raises JobFailed."""
    return _arrive(params["model"], params, session, KERAS, ("keras", "jax"))


def _arrive(
    spec: Mapping[str, Any],
    params: Mapping[str, Any],
    session: Session,
    table: tuple[Cause, ...],
    packages: tuple[str, ...],
) -> dict[str, Any]:
    log = ExportLog()
    model = open_model(session, spec)
    declared: Declared = model.loaded.made
    with pinned(device_of("cpu")):
        names = declared.names(list(params["inputs"]["arrays"]))
        renamed = {"name": "s", "arrays": dict(zip(names, params["inputs"]["arrays"].values()))}  # noqa: B905
        leaves = read_input(session, renamed)
        session.progress("tracing the converted model")
        try:
            with log.listen():
                outputs = declared.in_order(_traced(model, leaves))
        except JobError:
            raise
        except Exception as problem:
            cause, details = refusal(problem, table, "translate")
            raise JobFailed(cause, **details, warnings=log.warnings) from problem
    inputs = {name: dtype_name(leaf) for name, leaf in leaves.items() if is_array(leaf)}
    return converted(
        {"model": spec},
        names,
        list(outputs),
        packages,
        warnings=[*log.warnings, *_narrowed(model)],
        options={"x64": model.x64},
        dtype_changes={**changes(declared.inputs, inputs), **changes(declared.outputs, outputs)},
        dropped_outputs=[name for name in declared.outputs if name not in outputs],
    )


def _traced(model: Model, leaves: Mapping[str, Any]) -> dict[str, str]:
    """The dtypes of the outputs, in the model's order. What JAX cannot trace may still run operation by operation."""
    loaded = model.loaded
    try:
        function, arrays = Subject(loaded.apply, loaded.parameters, model.signature).function(leaves)
        shapes = jax.eval_shape(function, loaded.parameters, arrays)
    except NOT_TRACEABLE:
        found = Subject(loaded.apply, loaded.parameters, model.signature, jit=False).call(leaves, 0)
        return {name: dtype_name(each) for name, each in found.items()}
    return {name: dtype_name(each) for name, each in named_leaves(shapes, ROOT, ".").items()}


def _narrowed(model: Model) -> list[str]:
    """Weights that lost their width, in a sentence for each dtype."""
    wide = model.loaded.made.weights
    lost: dict[tuple[str, str], list[str]] = {}
    for leaves in model.loaded.collections.values():
        for name, leaf in leaves.items():
            before = wide.get(name, dtype_name(leaf))
            if before != dtype_name(leaf):
                lost.setdefault((before, dtype_name(leaf)), []).append(name)
    return [
        f"weights that were {old} are {new} in JAX: {', '.join(names[:MAX_NAMES])}"
        for (old, new), names in lost.items()
    ]
