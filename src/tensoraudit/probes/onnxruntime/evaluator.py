"""The NumPy evaluator of the onnx package on one model: how it is made, fed and asked. Judges nothing.

It is about 50 times slower than ONNX Runtime and shares no kernel with any runtime.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tensoraudit.probes.onnxruntime.corrected_operators import corrected_operators
from tensoraudit.probes.onnxruntime.explain import run_error
from tensoraudit.probes.onnxruntime.model_file import all_nodes, dtype_name, folder_of, load_structure
from tensoraudit.probes.onnxruntime.pairing import pair, pairing_notes
from tensoraudit.probes.onnxruntime.tensors import SCALARS, MismatchError
from tensoraudit.probes.onnxruntime.widen import draws
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session


class Evaluator(NamedTuple):
    """An evaluator, the element type (TensorProto.DataType) of each input that is no weight, and whether an operator
    draws at random."""

    runtime: Any
    types: dict[str, int]
    random: bool

    def read(self, sample: Mapping[str, Any], session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays of a sample by input, and the notes of the pairing. Raises MismatchError."""
        pairing = pair(list(self.types), dict(sample["arrays"]))
        given = {name: sample["arrays"][argument] for name, argument in pairing.arguments.items()}
        feeds = {name: _array(name, element, given[name], session) for name, element in self.types.items()}
        return feeds, pairing_notes(pairing)

    def outputs(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run once; raises whatever numpy or an operator's own code raises."""
        # Division by zero and overflow are the model's own business: the values themselves are compared.
        with np.errstate(all="ignore"), contextlib.suppress(ImportError):
            return dict(zip(self.runtime.output_names, self.runtime.run(None, dict(feeds))))  # noqa: B905 - Python 3.9
        raise RuntimeError("the evaluator needs a package that is not installed")


def load_model(path: str, session: Session) -> Any:
    """Return the ModelProto of a file with all its data and without local functions, for the caller to change.

    The evaluator runs local functions without the operators that are corrected here, so they become part of the graph.
    Raises JobFailed.
    """
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(load_structure(path, session))
    try:
        onnx.load_external_data_for_model(model, folder_of(path))
        return _inlined(model) if model.functions else model
    except Exception as problem:
        raise JobFailed(f"The NumPy evaluator cannot load this model: {short(problem)}") from None


def _inlined(model: Any) -> Any:
    from onnx import inliner

    return inliner.inline_local_functions(model)


def evaluator_of(model: Any) -> Evaluator:
    """Return the evaluator of a ModelProto. Raises JobUnsupported when it lacks an operator, else JobFailed."""
    from onnx.reference import ReferenceEvaluator

    try:
        runtime = ReferenceEvaluator(model, new_ops=corrected_operators(model))
    except NotImplementedError as problem:
        raise JobUnsupported(f"The NumPy evaluator cannot run this model: {short(problem)}") from None
    except Exception as problem:
        raise JobFailed(f"The NumPy evaluator cannot load this model: {short(problem)}") from None
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    random = any(draws(node) for node in all_nodes(model))
    return Evaluator(runtime, {value.name: value.type.tensor_type.elem_type for value in inputs}, random)


def short(problem: BaseException) -> str:
    """Return the message of an exception as one line."""
    return str(run_error(problem)["message"])


def _array(name: str, element: int, given: dict[str, Any], session: Session) -> Any:
    wanted = dtype_name(element)
    if "file" not in given:
        value = given.get("value")
        if wanted not in SCALARS.get(type(value), ()):
            raise MismatchError(
                f"input {name!r} is the Python value {value!r} in the sample, but the model takes {wanted}"
            )
        return np.array(value, dtype=wanted)
    array = session.get(given)
    have = str(given.get("logical") or array.dtype.name)
    if have != wanted:
        raise MismatchError(f"input {name!r} is {have} in the sample, but the model takes {wanted}")
    return array if have == array.dtype.name else array.astype(_extension(have))


def _extension(name: str) -> Any:
    """The numpy extension type of a dtype like bfloat16, from the package that onnx itself uses."""
    try:
        import ml_dtypes
    except ImportError:
        raise MismatchError(f"{name} needs the package ml_dtypes, which is not installed here") from None
    return getattr(ml_dtypes, name)
