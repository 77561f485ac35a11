"""ONNX to TensorFlow by onnx2tf: every operator becomes a TensorFlow one, with channels moved to the end.

onnx2tf guesses where axes must be permuted, and guesses better with sizes that are known and with a graph that onnxsim
has simplified. Files with dynamic sizes often convert to a model that fails, or is wrong, at other sizes than 1. So:

1. Inputs keep the layout of the file (`keep_ncw_or_nchw_or_ncdhw_input_names`). Outputs are left as onnx2tf makes
   them; one that has its channels at the end is reported with its permutation.
2. Settings are tried in the order of `attempts`, from the most general one. The result of each is run on a sample
   beside ONNX Runtime; the first that is near counts, else the nearest.
3. The model is saved without Keras: a function with named inputs and outputs, and its variables.
4. Names of nodes are changed where TensorFlow would not take them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensoraudit.routes.channels_last import NEAR, fit
from tensoraudit.routes.saved_names import plain_names

CALIBRATION = "calibration_image_sample_data_20x128x128x3_float32.npy"
"""onnx2tf tries image models with these pictures, and would download them; any numbers do."""
_WEIGHTS_IN_FILE = 1_900_000_000
_NODE = re.compile(r"onnx_op_name: (\S+)")
_SCOPE = re.compile(r"[A-Za-z0-9_./>-]*")
_UNFIT = r"[^A-Za-z0-9_./>-]"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ENVIRONMENT = ("PATH", "TF_USE_LEGACY_KERAS", "TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES")
Arrays = Mapping[str, Any]
Dims = tuple[Any, ...]


class ConversionError(Exception):
    """onnx2tf refuses, or what it makes does not run. `operator` and `node` say where, if known."""

    def __init__(self, message: str, stage: str, operator: str = "", node: str = "") -> None:
        super().__init__(message)
        self.stage, self.operator, self.node = stage, operator, node


@dataclass(frozen=True)
class Attempt:
    """Settings of one conversion. `sizes`: "file" leaves dynamic sizes open, "batch" only those of the first axis,
    "fixed" none. `keep`: inputs are transposed once, behind the input, or ("absolutely") where an operator wants it."""

    sizes: str
    simplify: bool
    keep: str = "transposed"

    def options(self) -> dict[str, Any]:
        """The settings as plain JSON."""
        return {"sizes": self.sizes, "onnxsim": self.simplify, "inputs_kept": self.keep}


@dataclass(frozen=True)
class Candidate:
    """What an attempt made. `layouts` are permutations of outputs, `distance` the largest difference from ONNX Runtime
    as a part of the largest value."""

    attempt: Attempt
    model: Any
    layouts: Mapping[str, tuple[int, ...]]
    distance: float
    dtypes: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """An ONNX model and one sample of its inputs, with what ONNX Runtime makes of it."""

    proto: Any
    sample: Arrays
    expected: Arrays
    dims: Mapping[str, Dims]


def read_source(path: str, sample: Arrays) -> Source:
    """Read a file and run it on a sample. Raises ConversionError when ONNX Runtime does not run it."""
    import onnx

    proto = onnx.load(path)
    weights = {each.name for each in proto.graph.initializer}
    inputs = [each for each in proto.graph.input if each.name not in weights]
    names = [each.name for each in inputs]
    if set(names) - set(sample):
        sample = dict(zip(names, sample.values())) if len(names) == len(sample) else sample  # noqa: B905 - Python 3.9
    lacking = [name for name in names if name not in sample]
    if lacking:
        raise ConversionError(f"the sample lacks {', '.join(lacking)}", "run")
    dims = {each.name: _dims(each) for each in inputs}
    given = {name: np.asarray(sample[name]) for name in names}
    return Source(proto, given, _expected(path, proto, given), dims)


def _expected(path: str, proto: Any, sample: Arrays) -> dict[str, Any]:
    import onnxruntime

    names = [each.name for each in proto.graph.output]
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        values = session.run(names, dict(sample))
    except Exception as problem:
        raise ConversionError(f"ONNX Runtime does not run the file on the sample: {problem}", "run") from problem
    return dict(zip(names, values))  # noqa: B905 - Python 3.9


def _dims(value: Any) -> Dims:
    """The sizes that a file states: numbers, and names for those that may vary (some exporters write -1)."""
    found = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        fixed = dim.HasField("dim_value") and dim.dim_value >= 0
        found.append(int(dim.dim_value) if fixed else dim.dim_param or f"{value.name}_{axis}")
    return tuple(found)


def attempts(dims: Mapping[str, Dims]) -> list[Attempt]:
    """Return the settings to try, the most general first."""
    varies = [axis for shape in dims.values() for axis, size in enumerate(shape) if isinstance(size, str)]
    inner = any(axis > 0 for axis in varies)
    found = [Attempt("file", False)]
    if not inner:
        found.append(Attempt("file", True))
    elif 0 in varies:
        found.append(Attempt("batch", True))
    if varies:
        found.append(Attempt("fixed", True))
    return [*found, Attempt(found[-1].sizes, True, "absolutely")]


def resized(source: Source, sizes: str) -> Any:
    """Return a copy of the model with the sizes of an attempt in its inputs."""
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    for each in proto.graph.input:
        if each.name not in source.dims:
            continue
        for axis, (dim, known) in enumerate(zip(each.type.tensor_type.shape.dim, source.dims[each.name])):  # noqa: B905
            keeps = sizes == "file" or (sizes == "batch" and axis == 0)
            if not isinstance(known, str):
                continue
            dim.Clear()
            if keeps:
                dim.dim_param = known if known != "?" else f"{each.name}_{axis}"
            else:
                dim.dim_value = int(source.sample[each.name].shape[axis])
    if sizes != "file":
        _forget_shapes(proto)
    for number, node in enumerate(proto.graph.node):
        if not _SCOPE.fullmatch(node.name):
            node.name = f"{re.sub(_UNFIT, '_', node.name).lstrip('_-/>')}_{number}"
    return proto


def _forget_shapes(proto: Any) -> None:
    """Shapes with the old names would contradict the new sizes."""
    del proto.graph.value_info[:]
    for each in proto.graph.output:
        for dim in each.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                dim.Clear()


def convert(source: Source, folder: Path) -> tuple[Candidate, list[str]]:
    """Return the best conversion, and what went wrong with the settings that were tried before it.

    Raises ConversionError, that of the most general settings, when none gives a model that runs.
    """
    best: Candidate | None = None
    problems: list[ConversionError] = []
    said: list[str] = []
    for attempt in attempts(source.dims):
        try:
            found = _try(source, attempt, folder)
        except ConversionError as problem:
            problems.append(problem)
            said.append(f"{_words(attempt)}: {problem}")
            continue
        best = found if best is None or found.distance < best.distance else best
        if best.distance <= NEAR:
            break
        said.append(f"{_words(attempt)}: the outputs differ by {found.distance:.2g} of the largest value")
    if best is None:
        raise problems[0]
    return best, said


def _words(attempt: Attempt) -> str:
    sizes = {"file": "the sizes of the file", "batch": "a dynamic batch alone", "fixed": "the sizes of the sample"}
    simplified = ", simplified by onnxsim" if attempt.simplify else ""
    return f"with {sizes[attempt.sizes]}{simplified}"


def _try(source: Source, attempt: Attempt, folder: Path) -> Candidate:
    proto = resized(source, attempt.sizes)
    with surroundings(folder), contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            model = _run_tool(proto, source, attempt)
        except (Exception, SystemExit) as problem:
            raise _refusal(problem, said.getvalue(), proto) from problem
        return _measured(model, source, attempt)


def _run_tool(proto: Any, source: Source, attempt: Attempt) -> Any:
    import onnx
    import onnx2tf

    if attempt.simplify:
        import onnxsim

        proto, _ = onnxsim.simplify(proto)
    large = proto.ByteSize() > _WEIGHTS_IN_FILE
    onnx.save(proto, "model.onnx", save_as_external_data=large)
    ranked = [name for name, array in source.sample.items() if array.ndim in (3, 4, 5)]
    kept = {"transposed": "keep_ncw_or_nchw_or_ncdhw_input_names", "absolutely": "keep_shape_absolutely_input_names"}
    hints = [f"{n}:{','.join(map(str, a.shape))}" for n, a in source.sample.items() if a.ndim and ":" not in n]
    return onnx2tf.convert(
        input_onnx_file_path="model.onnx",
        output_folder_path="onnx2tf",
        disable_model_save=True,
        not_use_onnxsim=True,
        shape_hints=hints or None,
        verbosity="warn",
        **({kept[attempt.keep]: ranked} if ranked else {}),
    )


def _refusal(problem: BaseException, said: str, proto: Any) -> ConversionError:
    """The tool prints where it stopped, and ends with `sys.exit` where its exception says nothing."""
    text = _ANSI.sub("", said)
    node = found[-1] if (found := _NODE.findall(text)) else str(getattr(problem, "onnx_op_name", "") or "")
    operator = next((each.op_type for each in proto.graph.node if each.name == node), "")
    lines = [line.partition("ERROR: ")[2] for line in text.splitlines() if "ERROR: " in line]
    message = str(problem) if not isinstance(problem, SystemExit) else next(iter(lines), "it gave up without a reason")
    return ConversionError(" ".join(message.split())[:500] or type(problem).__name__, "translate", operator, node)


def _measured(model: Any, source: Source, attempt: Attempt) -> Candidate:
    """Run what the tool made on the sample, beside ONNX Runtime."""
    try:
        values = [np.asarray(each) for each in call(model, [_tensor(each) for each in source.sample.values()])]
    except Exception as problem:
        text = " ".join(str(problem).split())
        raise ConversionError(f"the converted model does not run on the sample: {text[:300]}", "run") from problem
    if len(values) != len(source.expected):  # they are paired by position, so each one after a lost one would be wrong
        raise ConversionError(f"the converted model has {len(values)} outputs, the file {len(source.expected)}", "run")
    layouts, distance = {}, 0.0
    for (name, wanted), value in zip(source.expected.items(), values):  # noqa: B905 - Python 3.9
        layout, own = fit(np.asarray(wanted), value)
        distance = max(distance, own)
        if layout is not None:
            layouts[name] = layout
    wanted_types = [*source.sample.items(), *source.expected.items()]
    own_types = [*(each.dtype.name for each in model.inputs), *(value.dtype.name for value in values)]
    pairs = {name: (np.asarray(array).dtype.name, own) for (name, array), own in zip(wanted_types, own_types)}  # noqa: B905
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return Candidate(attempt, model, layouts, distance, changed)


def _tensor(array: Any) -> Any:
    import tensorflow as tf

    return tf.constant(array)


def call(model: Any, tensors: Sequence[Any]) -> list[Any]:
    """Call a Keras model of onnx2tf on tensors in the order of its inputs; halves become the floats that it has."""
    import tensorflow as tf

    cast = [tf.cast(tensor, own.dtype) for tensor, own in zip(tensors, model.inputs)]  # noqa: B905 - Python 3.9
    found = model(cast if len(cast) > 1 else cast[0])
    return list(found) if isinstance(found, (list, tuple)) else [found]


def save(candidate: Candidate, source: Source, folder: Path) -> dict[str, str]:
    """Write the model as a SavedModel and return its names of the inputs, by those of the file.

    TensorFlow takes fewer characters in names than ONNX; outputs keep theirs.
    """
    import tensorflow as tf

    names = plain_names(list(source.sample))
    model, outputs = candidate.model, list(source.expected)
    specs = [
        tf.TensorSpec([None if size is None else int(size) for size in own.shape], array.dtype, name=names[name])
        for (name, array), own in zip(source.sample.items(), model.inputs)  # noqa: B905 - Python 3.9
    ]
    served = tf.function(
        lambda *tensors: dict(zip(outputs, call(model, tensors))),  # noqa: B905 - Python 3.9
        input_signature=specs,
    )
    function = served.get_concrete_function()
    holder = tf.Module()
    # Not those of the model alone: onnx2tf also makes layers that its model does not know.
    holder.kept = list({id(each): each for each in (*model.variables, *function.variables)}.values())
    holder.served = served
    tf.saved_model.save(holder, str(folder), signatures={"serving_default": function})
    return names


@contextlib.contextmanager
def surroundings(folder: Path) -> Iterator[None]:
    """Work in a folder that has what onnx2tf would download, and undo what its import changes in the process: the limit
    of recursion, filters of warnings, the environment."""
    calibration = folder / CALIBRATION
    if not calibration.exists():
        np.save(calibration, np.random.default_rng(0).random((20, 128, 128, 3), dtype=np.float32))
    home, limit = Path.cwd(), sys.getrecursionlimit()
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        os.chdir(home)
        sys.setrecursionlimit(limit)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
