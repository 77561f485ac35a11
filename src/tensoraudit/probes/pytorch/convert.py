"""pytorch.convert: one hop of a route that starts from PyTorch or ends in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tensoraudit.probes.calls import children
from tensoraudit.probes.converted import Declared, changes, converted
from tensoraudit.probes.protocol import JobError, JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.devices import device_of, pinned, seed_everything
from tensoraudit.probes.pytorch.export import dynamic_shapes
from tensoraudit.probes.pytorch.forward import Subject
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.tensors import dtype_name
from tensoraudit.routes.causes import Cause
from tensoraudit.routes.conversion_causes import KERAS, ONNX2TORCH, ONNX_PROGRAM, TORCH_EXPORT, refusal
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.keras_backend import layer_of
from tensoraudit.routes.onnx_to_torch_onnx2torch import node_place
from tensoraudit.routes.torch_export_program import export, fixed_dims, return_plain

Tool = Callable[[Mapping[str, Any], Session], dict[str, Any]]


def convert(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Convert the model with one tool and say what the result is called by.

    `tool` names it, `inputs` is one sample, `dynamic` maps flat names to {axis: dimension}, `folder` is an empty folder
    for what the tool writes. Returns what `converted` describes.

    Raises JobUnsupported for an unknown tool, JobFailed with stage, operator, source and remedy when the tool refuses.
    """
    tool = TOOLS.get(str(params["tool"]))
    if tool is None:
        raise JobUnsupported(f"PyTorch has no tool called {params['tool']!r}: there are {', '.join(TOOLS)}")
    with pinned():
        return tool(params, session)


def torch_export(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """The module in eval mode as a `.pt2` file. A program stays the file that it is. Raises JobFailed."""
    model = open_model(session, params["model"])
    leaves = read_input(session, params["inputs"])
    before = _outputs(model, leaves, TORCH_EXPORT)
    if params["model"]["format"] == "exported_program":
        return converted({"model": params["model"]}, list(leaves), list(before), ("torch",))
    session.progress("exporting with torch.export")
    path = Path(params["folder"]) / "model.pt2"
    log, options = _export(model, leaves, params, path)
    spec = {"format": "exported_program", "path": str(path), "trust": False, "seed": params["model"].get("seed", 0)}
    after = _outputs(open_model(session, spec), leaves, TORCH_EXPORT)
    return converted(
        {"model": spec},
        list(leaves),
        list(after),
        ("torch",),
        warnings=log.warnings,
        guards=log.guards,
        options=options,
        dtype_changes=changes(before, after),
        dropped_outputs=[name for name in before if name not in after],
    )


def _export(
    model: Model, leaves: Mapping[str, Any], params: Mapping[str, Any], path: Path
) -> tuple[ExportLog, dict[str, Any]]:
    asked = {
        name: {int(axis): dim for axis, dim in axes.items()} for name, axes in (params.get("dynamic") or {}).items()
    }
    call = model.signature.bind(leaves)
    module = model.loaded.fresh(evaluate=True)
    if not isinstance(module, torch.jit.ScriptModule):
        return_plain(module, _plain)
    log = ExportLog(list(leaves))
    seed_everything(0)
    try:
        with log.listen():
            shapes = dynamic_shapes(model, call, asked) if asked else None
            _, options = export(module, call.args, call.kwargs, shapes, str(path))
    except Exception as problem:
        path.unlink(missing_ok=True)
        raise _export_failed(problem, model, leaves, asked, log) from problem
    return log, options


def _export_failed(
    problem: Exception, model: Model, leaves: Mapping[str, Any], asked: Mapping[str, Any], log: ExportLog
) -> JobFailed:
    node = node_place(problem)
    from_onnx = isinstance(getattr(model.loaded.module, "declared", None), Declared)
    table = ONNX_PROGRAM if from_onnx else TORCH_EXPORT
    operator = node["text"] if node else ""
    fixed = fixed_dims(problem, asked)
    line = next((at for condition, at in log.fixed.items() if any(name in condition for name in fixed)), None)
    cause, details = refusal(problem, table, "trace", operator=operator, source=node or line)
    if node and asked and not fixed:
        # An ONNX graph computes with its sizes as with any numbers: one that varies is unknown from there on.
        fixed = {name: {str(axis): int(leaves[name].shape[axis]) for axis in asked[name]} for name in asked}
    if fixed:
        details["fixed"] = fixed
    return JobFailed(cause, **details, warnings=log.warnings)


def _plain(value: Any) -> Any:
    """The tensors of a result in plain tuples and dicts; anything else becomes None, so that names stay."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(_plain(each) for each in value)
    inner = dict(children(value))
    return {key: _plain(each) for key, each in inner.items()} if inner else value if torch.is_tensor(value) else None


def onnx2torch(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """An ONNX file by onnx2torch: nothing is written, the loader converts. Raises JobFailed."""
    spec = {"format": "onnx2torch", "path": str(params["path"]), "seed": 0}
    model = open_model(session, spec)
    return _arrived(model, {**params, "model": spec}, session, ONNX2TORCH, ("onnx2torch", "onnx", "torch"))


def keras_torch(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """A Keras file with torch as its backend: nothing is written. Raises JobFailed."""
    model = open_model(session, params["model"])
    return _arrived(model, params, session, KERAS, ("keras", "torch"))


def _arrived(
    model: Model,
    params: Mapping[str, Any],
    session: Session,
    table: tuple[Cause, ...],
    packages: Sequence[str],
) -> dict[str, Any]:
    """Run a model that came from elsewhere on the sample, under its own names for the inputs."""
    declared: Declared = model.loaded.module.declared
    given = params["inputs"]["arrays"]
    names = declared.names(list(given))
    if len(names) != len(given):
        raise JobFailed(
            f"the model takes {', '.join(names)}, but the sample has {', '.join(given)}",
            stage="run",
            remedy="Give one array for each input of the model.",
        )
    leaves = read_input(session, {"arrays": dict(zip(names, given.values()))})  # noqa: B905 - Python 3.9
    inputs = {name: dtype_name(leaf.dtype) for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    outputs = declared.in_order(_outputs(model, leaves, table))
    return converted(
        {"model": dict(params["model"])},
        names,
        list(outputs),
        packages,
        warnings=list(getattr(model.loaded.module, "said", ())),
        dtype_changes={**changes(declared.inputs, inputs), **changes(declared.outputs, outputs)},
        dropped_outputs=[name for name in declared.outputs if name not in outputs],
    )


def _outputs(model: Model, leaves: Mapping[str, Any], table: tuple[Cause, ...]) -> dict[str, str]:
    """The dtypes of the results on a sample, by name. What does not run is a refusal of this hop."""
    subject = Subject(model.loaded, model.signature, device_of("cpu"))
    try:
        with ExportLog().listen():
            return {name: dtype_name(each.dtype) for name, each in subject.call(leaves, 0).items()}
    except JobError:
        raise
    except Exception as problem:
        source = node_place(problem)
        operator = source["text"] if source else layer_of(problem)
        cause, details = refusal(problem, table, "run", operator=operator, source=source)
        raise JobFailed(f"the model does not run on the sample: {cause}", **details) from problem


TOOLS: Mapping[str, Tool] = {"torch_export": torch_export, "onnx2torch": onnx2torch, "keras_torch": keras_torch}
