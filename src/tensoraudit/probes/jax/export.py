"""jax.export: convert the model by one route, read back what was written, and explain what failed.

(Not JAX's own `jax.export`: a serialized program of that is one of the artifacts.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tensoraudit.probes.jax.devices import device_of, pinned, seed_everything
from tensoraudit.probes.jax.forward import Subject, forward_error
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.tensors import is_array
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.written_file import describe_written
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.failure import understand
from tensoraudit.routes.jax_causes import CAUSES, fixed_by, operation_place
from tensoraudit.routes.request import Request

ROUTES: Mapping[str, str] = {"jax2onnx": "tensoraudit.routes.jax_to_onnx"}


def export(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Convert the model and describe the file.

    The model goes in as it was handed over. `dynamic` maps flat argument names to {axis: name}. The result names what
    was asked (`opset_requested`, `dynamic_requested`) beside what the file says (`opset`, `dynamic_written`,
    `dynamic_lost`).

    Raises JobUnsupported for an unknown route, JobFailed with stage, operator, source, remedy and traceback.
    """
    if params["route"] not in ROUTES:
        raise JobUnsupported(f"no route from JAX called {params['route']!r}: there are {', '.join(ROUTES)}")
    model = open_model(session, params["model"])
    started = time.perf_counter()
    with pinned(device_of("cpu")):
        leaves = read_input(session, params["inputs"])
        outputs = run_once(model, leaves)
        request = _request(model, leaves, tuple(outputs), params)
        session.progress(f"exporting with {params['route']}")
        prepared = time.perf_counter()
        log, options = _convert(
            params["route"], request, wide=any(each.dtype == "float64" for each in outputs.values())
        )
    exported = time.perf_counter()
    return {
        **describe_written(request, "Report this to the authors of the exporter."),
        "exporter": options.pop("exporter"),
        "options": options,
        "output_names": list(request.outputs),
        "opset_requested": request.opset,
        "training": model.loaded.training,
        "warnings": log.warnings,
        "guards": [],
        "seconds": {"prepare": prepared - started, "export": exported - prepared},
    }


def _request(model: Model, leaves: dict[str, Any], outputs: tuple[str, ...], params: Mapping[str, Any]) -> Request:
    loaded = model.loaded
    made = loaded.as_made or loaded.apply
    asked = params.get("dynamic") or {}
    call = model.signature.bind(leaves)
    names = [name for name, leaf in call.leaves.items() if is_array(leaf)]

    def refill(tensors: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = model.signature.bind({**call.leaves, **dict(zip(names, tensors))})  # noqa: B905 - Python 3.9
        return bound.args, bound.kwargs

    return Request(
        model=lambda *args, **kwargs: made(loaded.parameters, *args, **kwargs),
        args=call.args,
        kwargs=call.kwargs,
        leaves=call.leaves,
        refill=refill,
        outputs=outputs,
        path=str(params["path"]),
        opset=params.get("opset"),
        dynamic={name: {int(axis): label for axis, label in axes.items()} for name, axes in asked.items()},
        weight_bytes=loaded.weight_bytes,
    )


def run_once(model: Model, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs by name. What the reference cannot run, no exporter can trace: raises JobFailed."""
    subject = Subject(model.loaded.apply, model.loaded.parameters, model.signature, jit=False)
    try:
        return subject.call(leaves, 0)
    except Exception as problem:
        error = forward_error(problem)
        raise JobFailed(
            f"the model itself fails on these inputs: {error['type']}: {error['message']}",
            stage="run",
            source=error["source"],
            remedy="Give inputs that the model takes.",
        ) from problem


def _convert(route: str, request: Request, *, wide: bool) -> tuple[ExportLog, dict[str, Any]]:
    module = import_module(ROUTES[route])
    seed_everything(0)
    log = ExportLog(list(request.leaves))
    try:
        with log.listen():
            options = module.export(request, wide=wide)
    except Exception as problem:
        Path(request.path).unlink(missing_ok=True)
        failure = understand(problem, more=module.more(request, problem), table=CAUSES)
        details = failure.details()
        details["source"] = details.get("source") or operation_place(problem)
        details["fixed"] = fixed_by(problem, request) or None
        raise JobFailed(failure.cause, **details, warnings=log.warnings) from problem
    return log, options
