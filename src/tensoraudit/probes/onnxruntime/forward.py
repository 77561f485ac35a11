"""`onnxruntime.run`: run samples on one session, twice each, and hand back outputs and errors as data.

A model that cannot be loaded ends the job; a sample that cannot be run is an answer like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.evaluator import load_model
from tensoraudit.probes.onnxruntime.explain import explain, run_error
from tensoraudit.probes.onnxruntime.noise import Runner, add_draws, move_weights
from tensoraudit.probes.onnxruntime.pairing import pair, pairing_notes, real_view, real_view_notes
from tensoraudit.probes.onnxruntime.session import Opened, open_bytes, open_file, settings_from
from tensoraudit.probes.onnxruntime.tensors import MismatchError, UnsupportedValueError, feed, read_value
from tensoraudit.probes.onnxruntime.twin import add_oracles
from tensoraudit.probes.protocol import JobFailed, Session

Values = dict[str, tuple[np.ndarray[Any, Any], Any]]
"""Arrays by name, with the framework's dtype where numpy has no twin."""


class RunError(Exception):
    """ONNX Runtime could not run the inputs; the cause is its own exception."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__(str(problem))
        self.problem = problem

    def as_data(self) -> dict[str, Any]:
        """Return the error of a run: {"type", "message", ...}."""
        return run_error(self.problem)

    def as_refusal(self) -> JobFailed:
        """Return the error that ends a job which is nothing without this run."""
        sentence, details = explain(self.problem)
        return JobFailed(sentence, text=str(self.problem), **details)


def run(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Run every sample `repeat` times (2) on one provider and optimisation level.

    For a reference: `oracle` (False) adds the file in double precision, evaluated in NumPy, for which all samples
    together have `budget` seconds (60), or `oracle_reason`; `perturbations` (0) adds so many draws with all floating
    inputs moved by one ULP, or the weights where no input is floating (`perturbed_by`).

    Returns {"runs": [...], "provider", "settings"}. Raises JobFailed when the model cannot be loaded, JobUnsupported
    when the provider is not active.
    """
    path, settings = str(params["path"]), settings_from(params)
    opened = open_file(path, settings, session)
    repeat = int(params.get("repeat") or 2)
    runs = []
    for sample in params["inputs"]:
        session.progress(f"running {sample['name']}")
        runs.append(run_sample(opened, sample, repeat, session))
    if params.get("oracle"):
        add_oracles(params, runs, session)

    def moved(seed: int) -> Runner:
        model = move_weights(load_model(path, session), seed)
        return _once(open_bytes(model.SerializeToString(), None, settings), session)

    add_draws(params, runs, session, _once(opened, session), moved)
    return {"runs": runs, "provider": opened.provider, "settings": opened.settings}


def _once(opened: Opened, session: Session) -> Runner:
    return lambda sample: run_sample(opened, dict(sample), 1, session)


def run_sample(opened: Opened, sample: dict[str, Any], repeat: int, session: Session) -> dict[str, Any]:
    """Run one sample; an error of the runtime or a mismatch of the inputs is part of the answer.

    `repeat` in the answer holds the first later run that differs in any bit, else the last one.
    """
    answer = empty_row(str(sample["name"]))
    inputs = opened.runtime.get_inputs()
    try:
        pairing = pair([each.name for each in inputs], sample["arrays"])
        answer.update(pairing_notes(pairing))
        given = {name: sample["arrays"][argument] for name, argument in pairing.arguments.items()}
        fed = {each.name: real_view(each.name, given[each.name], each.type, each.shape) for each in inputs}
        answer.update(real_view_notes(given, fed))
        feeds = {each.name: feed(each.name, each.type, fed[each.name], session) for each in inputs}
    except MismatchError as problem:
        return {**answer, "error": {"type": "InputMismatch", "message": str(problem)}}
    try:
        return {**answer, **_execute(opened, feeds, repeat, session)}
    except RunError as failure:
        return {**answer, "error": failure.as_data()}


def empty_row(name: str) -> dict[str, Any]:
    """Return the answer for a sample before anything has run."""
    row: dict[str, Any] = {"input": name, "outputs": {}, "repeat": {}, "error": None}
    return {**row, "oracle": None, "oracle_reason": "", "perturbed": [], "perturbed_by": ""}


def _execute(opened: Opened, feeds: dict[str, Any], repeat: int, session: Session) -> dict[str, Any]:
    values, unsupported = outputs_of(opened, None, feeds)
    outputs = {name: session.put(array, logical) for name, (array, logical) in values.items()}
    again = dict(outputs) if repeat > 1 else {}
    for _ in range(repeat - 1):
        later, _ = outputs_of(opened, None, feeds)
        differing = {name for name in values if not same_bits(values[name][0], later[name][0])}
        if differing:
            again.update({name: session.put(*later[name]) for name in differing})
            break
    answer: dict[str, Any] = {"outputs": outputs, "repeat": again}
    return {**answer, "unsupported_outputs": unsupported} if unsupported else answer


def outputs_of(opened: Opened, names: list[str] | None, feeds: dict[str, Any]) -> tuple[Values, dict[str, str]]:
    """Run once and return the tensors, and for every other output why it cannot be carried. Raises RunError."""
    declared = [each.name for each in opened.runtime.get_outputs()] if names is None else names
    wanted = list(dict.fromkeys(declared))
    try:
        results = opened.runtime.run_with_ort_values(wanted, feeds)
    except Exception as problem:  # the runtime's errors have no common base below Exception
        raise RunError(problem) from None
    values: Values = {}
    unsupported = {name: "the model lists this output more than once" for name in wanted if declared.count(name) > 1}
    for index, name in enumerate(wanted):
        try:
            values[name] = read_value(results[index])
        except UnsupportedValueError as problem:
            unsupported[name] = str(problem)
    return values, unsupported


def same_bits(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    """Tell whether two arrays have the same shape, dtype and bytes; NaN equals itself."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    a, b = (np.asarray(each, order="C").reshape(-1).view(np.uint8) for each in (first, second))
    return bool(np.array_equal(a, b))
