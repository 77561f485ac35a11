"""pytorch.export: convert the model by one route, read back what was written, and explain what failed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.arguments import Call
from tensoraudit.probes.pytorch.devices import pinned, seed_everything
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.output_axes import Dynamic, output_axes
from tensoraudit.probes.written_file import describe_written
from tensoraudit.routes import ROUTES
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.failure import understand
from tensoraudit.routes.request import Request


def export(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Convert the model and describe the file.

    The model goes in as it was handed over (training flag included), on the settings of a plain user. `dynamic` maps
    flat argument names to {axis: name}. The result names what was asked (`opset_requested`, `dynamic_requested`) beside
    what the file says (`opset`, `dynamic_written`, `dynamic_lost`), the exporter's warnings, and `guards`: conditions
    on sizes under which alone the traced branch holds, with the user's line.

    Raises JobUnsupported for an unknown route, JobFailed with stage, operator, source, remedy and traceback.
    """
    if params["route"] not in ROUTES:
        raise JobUnsupported(f"no route called {params['route']!r}: there are {', '.join(ROUTES)}")
    started = time.perf_counter()
    with pinned():
        model = open_model(session, params["model"])
        leaves = read_input(session, params["inputs"])
        dynamic = _dynamic(params)
        axes = output_axes(model, leaves, dynamic)
    request = _request(model, leaves, dynamic, axes, params)
    session.progress(f"exporting with {params['route']}")
    prepared = time.perf_counter()
    log, options = _convert(params["route"], request)
    exported = time.perf_counter()
    return {
        **describe_written(request, "Try the other route, and report this to PyTorch."),
        "exporter": f"torch {torch.__version__}",
        "options": options,
        "output_names": list(request.outputs),
        "opset_requested": request.opset,
        "training": bool(model.loaded.training),
        "warnings": log.warnings,
        "guards": log.guards,
        "seconds": {"prepare": prepared - started, "export": exported - prepared},
    }


def _dynamic(params: Mapping[str, Any]) -> Dynamic:
    asked = params.get("dynamic") or {}
    return {name: {int(axis): label for axis, label in axes.items()} for name, axes in asked.items()}


def _request(
    model: Model,
    leaves: dict[str, Any],
    dynamic: Dynamic,
    axes: Mapping[str, dict[int, str]],
    params: Mapping[str, Any],
) -> Request:
    call = model.signature.bind(leaves)
    module = model.loaded.fresh(evaluate=False)
    dynamo = params["route"].endswith("dynamo")
    return Request(
        model=model.loaded.program if dynamo and model.loaded.program is not None else module,
        args=call.args,
        kwargs=call.kwargs,
        leaves=call.leaves,
        refill=_refill(model, call),
        outputs=tuple(axes),
        path=str(params["path"]),
        opset=params.get("opset"),
        dynamic=dynamic,
        dynamic_shapes=dynamic_shapes(model, call, dynamic) if dynamic else None,
        output_axes={name: found for name, found in axes.items() if found},
        weight_bytes=model.loaded.weight_bytes,
    )


def _refill(model: Model, call: Call) -> Any:
    names = [name for name, leaf in call.leaves.items() if isinstance(leaf, torch.Tensor)]

    def refill(tensors: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = model.signature.bind({**call.leaves, **dict(zip(names, tensors))})  # noqa: B905 - Python 3.9
        return bound.args, bound.kwargs

    return refill


def dynamic_shapes(model: Model, call: Call, dynamic: Dynamic) -> dict[str, Any]:
    """Return the dynamic dimensions in the structure of the arguments, as `torch.export` wants them.

    A tensor without any gets an empty mapping, a number or None gets None.
    """
    flat = {
        name: dict(dynamic.get(name, {})) if isinstance(leaf, torch.Tensor) else None
        for name, leaf in call.leaves.items()
    }
    return model.signature.structure(flat)


def _convert(route: str, request: Request) -> tuple[ExportLog, dict[str, Any]]:
    module = import_module(ROUTES[route])
    seed_everything(0)
    log = ExportLog(list(request.leaves))
    try:
        with log.listen():
            options = module.export(request)
    except Exception as problem:
        Path(request.path).unlink(missing_ok=True)
        failure = understand(problem, log.fixed, module.more(request, problem))
        raise JobFailed(failure.cause, **failure.details(), warnings=log.warnings) from problem
    return log, options
