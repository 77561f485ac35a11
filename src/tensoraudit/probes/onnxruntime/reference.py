"""`onnxruntime.reference`: the NumPy evaluator of the onnx package, an oracle that shares no kernel with a runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.clock import Clock
from tensoraudit.probes.onnxruntime.evaluator import Evaluator, evaluator_of, load_model
from tensoraudit.probes.onnxruntime.explain import run_error
from tensoraudit.probes.onnxruntime.forward import empty_row, same_bits
from tensoraudit.probes.onnxruntime.noise import Runner, add_draws, move_weights
from tensoraudit.probes.onnxruntime.tensors import MismatchError
from tensoraudit.probes.onnxruntime.twin import BUDGET, add_oracles
from tensoraudit.probes.protocol import JobUnsupported, Session


def reference(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Run every sample `repeat` times (1) in `onnx.reference.ReferenceEvaluator` and answer like `onnxruntime.run`.

    About 50 times slower than ONNX Runtime, so that it repeats itself only where an operator draws at random. `oracle`,
    `budget` and `perturbations` as for `onnxruntime.run`; the perturbed runs have a budget of the same size. `limit` is
    the time in seconds for the plain runs of all samples (none): a sample for which nothing is left fails.

    Raises JobFailed when the model cannot be read, JobUnsupported when the evaluator lacks an operator.
    """
    evaluator = evaluator_of(load_model(params["path"], session))
    clock = Clock(float(params.get("limit") or math.inf), "the NumPy evaluator")
    draws = Clock(float(params.get("budget") or BUDGET), "moving inputs in the NumPy evaluator")
    runs = []
    for sample in params["inputs"]:
        session.progress(f"evaluating {sample['name']}")
        runs.append(_run(evaluator, sample, int(params.get("repeat") or 1), session, clock))
    if params.get("oracle"):
        add_oracles(params, runs, session, evaluator)

    def runner(other: Evaluator) -> Runner:
        return lambda sample: _run(other, sample, 1, session, draws)

    def moved(seed: int) -> Runner:
        return runner(evaluator_of(move_weights(load_model(params["path"], session), seed)))

    add_draws(params, runs, session, runner(evaluator), moved)
    return {
        "runs": runs,
        "provider": "cpu",
        "settings": {"runtime": f"onnx.reference {_version()}", "provider": "numpy"},
    }


def _version() -> str:
    import onnx

    return str(onnx.__version__)


def _run(
    evaluator: Evaluator, sample: Mapping[str, Any], repeat: int, session: Session, clock: Clock
) -> dict[str, Any]:
    answer = empty_row(str(sample["name"]))
    try:
        feeds, notes = evaluator.read(sample, session)
    except MismatchError as problem:
        return {**answer, "error": {"type": "InputMismatch", "message": str(problem)}}
    try:
        with clock.turn(sample):
            return {**answer, **notes, **_evaluate(evaluator, feeds, repeat, session)}
    except Exception as problem:  # the evaluator raises whatever numpy or an operator's own code raises
        return {**answer, **notes, "error": run_error(problem)}


def _evaluate(evaluator: Evaluator, feeds: Mapping[str, Any], repeat: int, session: Session) -> dict[str, Any]:
    first = evaluator.outputs(feeds)
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
    for _ in range(repeat - 1 if evaluator.random else 0):
        later = evaluator.outputs(feeds)
        differing = [name for name in refs if not same_bits(np.asarray(first[name]), np.asarray(later[name]))]
        again.update({name: session.put(later[name]) for name in differing})
    answer: dict[str, Any] = {"outputs": refs, "repeat": again}
    return {**answer, "unsupported_outputs": unsupported} if unsupported else answer
