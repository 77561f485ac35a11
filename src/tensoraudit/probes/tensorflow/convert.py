"""tensorflow.convert: one hop of a route that ends in TensorFlow or starts from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensoraudit.probes.converted import converted
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.routes import onnx_to_tensorflow_onnx2tf
from tensoraudit.routes.export_log import ExportLog
from tensoraudit.routes.failure import understand
from tensoraudit.routes.keras_to_file import save_keras
from tensoraudit.routes.onnx_to_tensorflow_onnx2tf import Candidate, ConversionError, Source
from tensoraudit.routes.tensorflow_conversion_causes import KERAS_SAVE, ONNX2TF

Tool = Callable[[Mapping[str, Any], Session], dict[str, Any]]
Causes = Any


def convert(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Convert the model with one tool and say what the result is called by.

    `tool` names it, `inputs` is one sample, `dynamic` maps flat names to {axis: dimension}, `folder` is an empty folder
    for what the tool writes. Returns what `converted` describes.

    Raises JobUnsupported for an unknown tool, JobFailed with stage, operator and remedy when the tool refuses.
    """
    tool = TOOLS.get(str(params["tool"]))
    if tool is None:
        raise JobUnsupported(f"TensorFlow has no tool called {params['tool']!r}: there are {', '.join(TOOLS)}")
    return tool(params, session)


def onnx2tf(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """An ONNX file as a SavedModel; see the route for the settings that are tried. Raises JobFailed."""
    folder, asked = Path(params["folder"]), params.get("dynamic") or {}
    leaves = read_input(session, params["inputs"])
    session.progress("converting with onnx2tf")
    session.cache.clear()  # the model of the last job and this one need not fit together
    log = ExportLog(list(leaves))
    try:
        with log.listen():
            source = onnx_to_tensorflow_onnx2tf.read_source(str(params["path"]), leaves)
            best, before = onnx_to_tensorflow_onnx2tf.convert(source, folder)
            names = onnx_to_tensorflow_onnx2tf.save(best, source, folder / "saved_model")
    except ConversionError as problem:
        raise _refused(problem, ONNX2TF, log) from problem
    except Exception as problem:
        raise _refused(ConversionError(str(problem), "serialise"), ONNX2TF, log) from problem
    lost = _lost(asked, source, best)
    return converted(
        {"model": {"format": "saved_model", "path": str(folder / "saved_model"), "trust": False}},
        list(names.values()),
        list(source.expected),
        ("onnx2tf", "onnxsim", "tensorflow", "tensorflow-cpu", "tf_keras", "onnx"),
        layouts={"inputs": {}, "outputs": {name: list(axes) for name, axes in best.layouts.items()}},
        warnings=[*log.warnings, *_said(best, before, lost)],
        options={**best.attempt.options(), "distance_on_sample": best.distance},
        dtype_changes={name: list(pair) for name, pair in best.dtypes.items()},
        dynamic_lost=lost,
    )


def _said(best: Candidate, before: list[str], lost: Mapping[str, Any]) -> list[str]:
    said = [f"onnx2tf {each}" for each in before]
    if lost:
        sizes = ", ".join(f"{name}.shape[{axis}]" for name, axes in lost.items() for axis in axes)
        said.append(f"onnx2tf: the converted model takes the sizes of the sample alone in {sizes}")
    return said


def _lost(asked: Mapping[str, Mapping[str, str]], source: Source, best: Candidate) -> dict[str, dict[str, str]]:
    """The dimensions that were asked to vary and that the conversion has fixed."""
    shapes = {name: list(own.shape) for name, own in zip(source.sample, best.model.inputs)}  # noqa: B905 - Python 3.9
    found = {
        name: {str(axis): label for axis, label in axes.items() if shapes[name][int(axis)] is not None}
        for name, axes in asked.items()
        if name in shapes
    }
    return {name: axes for name, axes in found.items() if axes}


def keras_save(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """A Keras model in any form as a `.keras` file. Raises JobFailed; JobUnsupported for what is no Keras model."""
    model = open_model(session, params["model"]).model
    if not model.is_keras:
        raise JobUnsupported(f"a {type(model.owner).__name__} is no Keras model, so it has no .keras file")
    leaves = read_input(session, params["inputs"])
    state = State(model)
    outputs = list(model.run(leaves))  # a model of the user's own class has no weights before its first call
    state.restore()  # the file holds what the model remembers
    path = Path(params["folder"]) / "model.keras"
    log = ExportLog(list(leaves))
    try:
        with log.listen():
            save_keras(model.owner, str(path))
    except Exception as problem:
        path.unlink(missing_ok=True)
        raise _refused(problem, KERAS_SAVE, log) from problem
    spec = {"format": "keras", "path": str(path), "trust": bool(params["model"].get("trust"))}
    spec["code"] = list(params["model"].get("code") or ())
    return converted(
        {"model": spec}, list(leaves), outputs, ("keras", "tensorflow", "tensorflow-cpu"), warnings=log.warnings
    )


def _refused(problem: Exception, table: Causes, log: ExportLog) -> JobFailed:
    found = understand(problem, table=table)
    stage = getattr(problem, "stage", "serialise")
    known = replace(found, stage=stage, operator=getattr(problem, "operator", "") or found.operator)
    details = {**known.details(), "node": getattr(problem, "node", "")}
    return JobFailed(known.cause, **details, warnings=log.warnings)


TOOLS: Mapping[str, Tool] = {"onnx2tf": onnx2tf, "keras_save": keras_save}
