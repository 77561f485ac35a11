"""`onnxruntime.reference`: the NumPy evaluator of the onnx package, an oracle that shares no kernel with a runtime."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.explain import run_error
from tensoraudit.probes.onnxruntime.forward import pairing_notes, same_bits
from tensoraudit.probes.onnxruntime.model_file import default_opset, dtype_name, folder_of, load_structure
from tensoraudit.probes.onnxruntime.pairing import pair
from tensoraudit.probes.onnxruntime.tensors import SCALARS, MismatchError
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session


def reference(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Run every sample `repeat` times (1) in `onnx.reference.ReferenceEvaluator` and answer like `onnxruntime.run`.

    About 50 times slower than ONNX Runtime. Raises JobFailed when the model cannot be read, JobUnsupported when the
    evaluator lacks one of its operators.
    """
    evaluator, types = _evaluator(params["path"], session)
    runs = []
    for sample in params["inputs"]:
        session.progress(f"evaluating {sample['name']}")
        runs.append(_run(evaluator, types, sample, int(params.get("repeat") or 1), session))
    return {
        "runs": runs,
        "provider": "cpu",
        "settings": {"runtime": f"onnx.reference {_version()}", "provider": "numpy"},
    }


def _version() -> str:
    import onnx

    return str(onnx.__version__)


def _evaluator(path: str, session: Session) -> tuple[Any, dict[str, int]]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    structure = load_structure(path, session)
    model = onnx.ModelProto()
    model.CopyFrom(structure)
    try:
        onnx.load_external_data_for_model(model, folder_of(path))
        evaluator = ReferenceEvaluator(model, new_ops=_corrected_operators(model))
    except NotImplementedError as problem:
        raise JobUnsupported(f"The NumPy evaluator cannot run this model: {_short(problem)}") from None
    except Exception as problem:
        raise JobFailed(f"The NumPy evaluator cannot load this model: {_short(problem)}") from None
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    return evaluator, {value.name: value.type.tensor_type.elem_type for value in inputs}


def _corrected_operators(model: Any) -> list[Any]:
    """Operators that the evaluator gets wrong, done right here.

    Below opset 14 it takes the default `momentum` of BatchNormalization for a wish to train (onnx 1.16 to 1.23) and
    mixes the batch's own statistics into the result. A node with one output only infers (Operators.md, opset 7 to 9).
    """
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, **attributes: Any) -> tuple[Any]:
            if len(self.onnx_node.output) > 1 or attributes.get("training_mode"):
                raise NotImplementedError("BatchNormalization in training mode")
            s, b, m, v = (part.reshape(-1, *(1,) * (x.ndim - 2)) for part in (scale, bias, mean, var))
            result = s * (x - m) / np.sqrt(v + attributes.get("epsilon", 1e-5)) + b
            return (result.astype(x.dtype),)

    return [BatchNormalization] if (default_opset(model) or 0) < 14 else []


def _short(problem: BaseException) -> str:
    return str(run_error(problem)["message"])


def _run(
    evaluator: Any, types: dict[str, int], sample: dict[str, Any], repeat: int, session: Session
) -> dict[str, Any]:
    answer: dict[str, Any] = {"input": sample["name"], "outputs": {}, "repeat": {}, "error": None}
    try:
        pairing = pair(list(types), sample["arrays"])
        answer.update(pairing_notes(pairing))
        feeds = {name: _array(name, types[name], sample["arrays"][pairing.arguments[name]], session) for name in types}
    except MismatchError as problem:
        return {**answer, "error": {"type": "InputMismatch", "message": str(problem)}}
    try:
        return {**answer, **_evaluate(evaluator, feeds, repeat, session)}
    except Exception as problem:  # the evaluator raises whatever numpy or an operator's own code raises
        return {**answer, "error": run_error(problem)}


def _evaluate(evaluator: Any, feeds: dict[str, Any], repeat: int, session: Session) -> dict[str, Any]:
    first = _outputs(evaluator, feeds)
    refs: dict[str, Any] = {}
    unsupported: dict[str, str] = {}
    for name, value in first.items():
        if not isinstance(value, (np.ndarray, np.generic)):
            unsupported[name] = f"a value of type {type(value).__name__} cannot be compared: only tensors can"
            continue
        try:
            refs[name] = session.put(value)
        except JobUnsupported as refusal:
            unsupported[name] = refusal.message
    again = dict(refs) if repeat > 1 else {}
    for _ in range(repeat - 1):
        later = _outputs(evaluator, feeds)
        again.update(
            {
                name: session.put(later[name])
                for name in refs
                if not same_bits(np.asarray(first[name]), np.asarray(later[name]))
            }
        )
    answer: dict[str, Any] = {"outputs": refs, "repeat": again}
    return {**answer, "unsupported_outputs": unsupported} if unsupported else answer


def _outputs(evaluator: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    # Division by zero and overflow are the model's own business: the values themselves are compared.
    with np.errstate(all="ignore"), contextlib.suppress(ImportError):
        return dict(zip(evaluator.output_names, evaluator.run(None, dict(feeds))))  # noqa: B905 (Python 3.9 has no strict)
    raise RuntimeError("the evaluator needs a package that is not installed")


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
