"""tensorflow.export: convert the model by one route, read back what was written, and explain what failed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.artifacts.flatbuffers import FlatBufferError
from tensoraudit.artifacts.tflite import named
from tensoraudit.probes.protocol import JobError, JobFailed, JobUnsupported, Session
from tensoraudit.probes.tensorflow.frozen_graph import captured, freeze, function_of, thaw
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.probes.tensorflow.settings import seed_everything
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.probes.written_file import describe_written
from tensoraudit.routes import ROUTES, tflite_to_onnx
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.failure import understand
from tensoraudit.routes.request import Request
from tensoraudit.routes.tensorflow_causes import CAUSES

_UNFIT = re.compile(r"[^A-Za-z0-9_.\\/>-]")
Dynamic = Mapping[str, Mapping[int, str]]
Prepared = tuple[Request, Callable[[], None]]


def export(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Convert the model, called with training=False, and describe the file.

    `dynamic` maps input names to {axis: name}; other dimensions get the sizes of the inputs. The result names what was
    asked (`opset_requested`, `dynamic_requested`) beside what the file says. Raises JobUnsupported for a route of
    another framework, JobFailed with stage, operator, source, remedy and traceback.
    """
    if params["route"] not in PREPARED:
        raise JobUnsupported(f"TensorFlow has no route called {params['route']!r}")
    leaves = read_input(session, params["inputs"])
    asked = params.get("dynamic") or {}
    dynamic = {name: {int(axis): label for axis, label in axes.items()} for name, axes in asked.items()}
    request, restore = PREPARED[params["route"]](params, session, leaves, dynamic)
    session.progress(f"exporting with {params['route']}")
    started = time.perf_counter()
    try:
        log, options = _convert(params["route"], request)
    finally:
        restore()
    return {
        **_written(request),
        "exporter": f"{params['route']} {metadata.version('tf2onnx')}, TensorFlow {tf.__version__}",
        "options": options,
        "output_names": list(request.outputs),
        "opset_requested": request.opset,
        "warnings": log.warnings,
        "seconds": {"export": time.perf_counter() - started},
    }


def _tflite(params: Mapping[str, Any], session: Session, leaves: Mapping[str, Any], dynamic: Dynamic) -> Prepared:
    """A TensorFlow Lite file, which nothing here loads: the converter reads it."""
    spec = params["model"]
    if spec["format"] != "tflite":
        raise JobUnsupported(f"tf2onnx_tflite converts TensorFlow Lite files, not {spec['format']}")
    try:
        outputs = tuple(name for name, _ in named(tflite_to_onnx.parse_file(str(spec["path"])), "outputs"))
    except FlatBufferError as problem:
        raise JobFailed(f"the file is damaged: {problem}", stage="load", remedy="Convert the model again.") from problem
    request = Request(
        model=str(spec["path"]),
        args=(),
        kwargs={},
        leaves=leaves,
        refill=lambda tensors: (tuple(tensors), {}),
        outputs=outputs,
        path=str(params["path"]),
        opset=params.get("opset"),
        dynamic=dynamic,
    )
    return request, lambda: None


def _tensorflow(params: Mapping[str, Any], session: Session, leaves: Mapping[str, Any], dynamic: Dynamic) -> Prepared:
    model = open_model(session, params["model"]).model
    state = State(model)
    try:
        # Before the model is traced: what it returns is also what it refuses to be called with.
        outputs = tuple(_guarded(lambda: model.run(leaves)))
        state.restore()  # what a trace captures is part of the file
        return _request(model, leaves, outputs, dynamic, params), state.restore
    except BaseException:
        state.restore()
        raise


PREPARED: Mapping[str, Callable[[Mapping[str, Any], Session, Mapping[str, Any], Dynamic], Prepared]] = {
    "tf2onnx": _tensorflow,
    "tf2onnx_tflite": _tflite,
}
"""By route: from the job to what is asked of the converter, and what puts the model back into its first state."""


def _request(
    model: Model, leaves: Mapping[str, Any], outputs: tuple[str, ...], dynamic: Dynamic, params: Mapping[str, Any]
) -> Request:
    arrays = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
    specs = tuple(_spec(name, array, dynamic.get(name, {})) for name, array in arrays.items())
    return Request(
        model=_function(function_of(model, list(arrays), rest), specs),
        args=specs,
        kwargs={},
        leaves=leaves,
        refill=lambda tensors: (tuple(tensors), {}),
        outputs=outputs,
        path=str(params["path"]),
        opset=params.get("opset"),
        dynamic=dynamic,
        weight_bytes=sum(int(np.prod(each.shape)) * 4 for each in model.variables),
    )


def _function(flat: Any, specs: tuple[Any, ...]) -> Any:
    """The function to convert; what it captures beside variables is made part of it first, as tf2onnx's own reader of
    SavedModels does."""
    function = tf.function(flat, input_signature=specs)
    try:
        traced = function.get_concrete_function()
    except Exception:  # the converter will meet it again, and that is where it is explained
        return function
    if not captured(traced):
        return function
    try:
        return tf.function(thaw(freeze(traced), traced, len(specs)), input_signature=specs)
    except Exception as problem:
        failure = understand(problem, table=CAUSES)
        raise JobFailed(failure.cause, **failure.details()) from problem


def _guarded(run: Any) -> dict[str, Any]:
    try:
        outputs: dict[str, Any] = run()
    except JobError:  # an output that no other runtime has: it says so itself
        raise
    except Exception as problem:
        raise JobFailed(
            f"the model does not take these inputs: {' '.join(str(problem).split())[:300]}",
            stage="trace",
            remedy="Check the inputs against the model's own signature.",
        ) from problem
    return outputs


def _spec(name: str, array: Any, axes: Mapping[int, str]) -> Any:
    shape = [None if axis in axes else size for axis, size in enumerate(array.shape)]
    return tf.TensorSpec(shape, tf.as_dtype(array.dtype), name=_UNFIT.sub("_", name).lstrip("_-/\\>") or "input")


def _convert(route: str, request: Request) -> tuple[ExportLog, dict[str, Any]]:
    module = import_module(ROUTES[route])
    seed_everything(0)
    log = ExportLog(list(request.leaves))
    try:
        with log.listen():
            options = module.export(request)
    except Exception as problem:
        Path(request.path).unlink(missing_ok=True)
        failure = understand(problem, more=module.more(request, problem), table=CAUSES)
        raise JobFailed(failure.cause, **failure.details(), warnings=log.warnings) from problem
    return log, options


def _written(request: Request) -> dict[str, Any]:
    """What the file says. A dimension of an input that tf2onnx dropped is not lost: there is nothing to be dynamic."""
    found = describe_written(request, "Report this to tf2onnx.")
    lost = {name: axes for name, axes in found["dynamic_lost"].items() if name in found["input_names"]}
    return {**found, "dynamic_lost": lost}
