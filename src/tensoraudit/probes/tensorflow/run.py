"""tensorflow.run and tensorflow.accepts: run the reference, and everything that its noise floor is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import JobError, Session, remedy_of
from tensoraudit.probes.tensorflow.double import NotAnOracle, check, double, widened
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.probes.tensorflow.modes import CALLED, Runner, runner
from tensoraudit.probes.tensorflow.settings import check_device, pin, seed_everything, settings
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.probes.ulp import move, perturb
from tensoraudit.routes.source import error_place

MAX_MESSAGE = 2000
Row = dict[str, Any]


def run(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model on every input set with training=False, each time from its first state.

    `mode`: "eager", "function" or "xla" (see `modes`); without it the model runs as it is called. `repeat`: 2 runs a
    second time with another seed, so that random operators show. `oracle`: the same model and weights in float64; None
    with `oracle_reason` when that is impossible. `perturbations`: so many draws with all floating inputs moved by one
    ULP; where none is floating, the floating weights move instead. A model that fails on an input set is data
    (`error`).

    Raises JobFailed when the model cannot be loaded, JobUnsupported when it does not run in that mode.
    """
    check_device(params.get("device", "cpu"))
    session.pack()
    model = open_model(session, params["model"]).model
    pin()
    mode = params.get("mode")
    job = _Job(model, session, int(params.get("seed", 0)), runner(model, mode))
    job.reference({sample["name"]: read_input(session, sample, model) for sample in params["inputs"]})
    if params.get("repeat", 2) > 1:
        job.repeat()
    if params.get("oracle", True):
        job.oracle()
    for draw in range(int(params.get("perturbations", 3))):
        job.perturb(draw)
    return {
        "runs": list(job.rows.values()),
        "settings": {**settings(), "execution": mode or CALLED, "seed": job.seed},
        "state_changed": sorted(job.state.changed),
    }


class _Job:
    """The rows of one job, filled pass by pass."""

    def __init__(self, model: Model, session: Session, seed: int, run: Runner) -> None:
        self.rows: dict[str, Row] = {}
        self.seed = seed
        self.state = State(model)
        self._model, self._session, self._run = model, session, run
        self._inputs: dict[str, dict[str, Any]] = {}
        self._weights: list[tuple[Any, Any]] = []

    def _call(self, leaves: Mapping[str, Any], seed: int, *, note: bool = True) -> dict[str, Any]:
        seed_everything(seed)
        self.state.seed(seed)
        try:
            return self._put(self._run(leaves))
        finally:
            self.state.restore(note=note)

    def _put(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._session.put(np.asarray(each)) for name, each in outputs.items()}

    def reference(self, inputs: Mapping[str, dict[str, Any]]) -> None:
        """First run of everything; only input sets that the model takes go on to the other passes."""
        for name, leaves in inputs.items():
            row: Row = {"input": name, "outputs": {}, "repeat": {}, "oracle": None, "oracle_reason": ""}
            row.update({"perturbed": [], "perturbed_by": "", "error": None})
            self.rows[name] = row
            try:
                row["outputs"] = self._call(leaves, self.seed)
                self._inputs[name] = leaves
            except Exception as problem:
                row["error"] = run_error(problem)

    def repeat(self) -> None:
        """Second run from the same state, with another seed."""
        for name, leaves in self._inputs.items():
            try:
                self.rows[name]["repeat"] = self._call(leaves, self.seed + 1)
            except Exception as problem:  # it ran before: then it is not deterministic, and an empty repeat says so
                self.rows[name]["repeat_error"] = run_error(problem)

    def oracle(self) -> None:
        """The run in double precision, or the reason why there is none."""
        runner = None
        for name, leaves in self._inputs.items():
            row = self.rows[name]
            try:
                runner = runner or double(self._model, leaves)
                seed_everything(self.seed)
                outputs = runner({key: widened(leaf) for key, leaf in leaves.items()})
                check(outputs, {key: _Shaped(each) for key, each in row["outputs"].items()})
                row["oracle"] = self._put(outputs)
            except NotAnOracle as problem:
                row["oracle_reason"] = str(problem)
                if runner is None:  # what one input set shows of the model holds for all
                    for each in self._inputs:
                        self.rows[each]["oracle_reason"] = str(problem)
                    return
            except Exception as problem:
                row["oracle_reason"] = f"the model does not run in double precision: {run_error(problem)['message']}"
            finally:
                self.state.restore()

    def perturb(self, draw: int) -> None:
        """One draw of one-ULP noise."""
        seed = 1000 * (self.seed + 1) + draw
        for name, leaves in self._inputs.items():
            moved, names = perturb(leaves, seed)
            row = self.rows[name]
            row["perturbed_by"] = "inputs" if names else "weights"
            try:
                if not names:
                    self._move_weights(seed)
                row["perturbed"].append(self._call(moved, self.seed, note=bool(names)))
            except Exception as problem:
                row["perturbed_error"] = run_error(problem)
            finally:
                if not names:
                    self._restore_weights()

    def _move_weights(self, seed: int) -> None:
        draws = np.random.default_rng(seed)
        self._weights = [(each, np.array(each.numpy())) for each in self._model.variables]
        self._weights = [(each, value) for each, value in self._weights if value.dtype.kind == "f"]
        for variable, value in self._weights:
            variable.assign(move(value, draws))

    def _restore_weights(self) -> None:
        for variable, value in self._weights:
            variable.assign(value)


class _Shaped:
    """The shape of a reference, as `check` reads it."""

    def __init__(self, reference: Mapping[str, Any]) -> None:
        self.shape = tuple(reference["shape"])


def run_error(problem: Exception) -> dict[str, Any]:
    """Return an exception of the model as data: type, message, and the user's line."""
    message = problem.message if isinstance(problem, JobError) else str(problem)
    return {
        "type": type(problem).__name__,
        "message": readable(message),
        "source": error_place(problem),
        **remedy_of(problem),
    }


def readable(message: str) -> str:
    """Keras wraps what went wrong in the name of the layer before it and a list of all arguments after it."""
    return " ".join(message.partition("Arguments received by")[0].split())[:MAX_MESSAGE]


def accepts(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Say for each input set whether the reference itself runs on it: True or the reason why not."""
    check_device(params.get("device", "cpu"))
    model = open_model(session, params["model"]).model
    pin()
    state, seed = State(model), int(params.get("seed", 0))
    accepted: dict[str, Any] = {}
    for sample in params["inputs"]:
        seed_everything(seed)
        try:
            model.run(read_input(session, sample, model))
            accepted[sample["name"]] = True
        except Exception as problem:
            error = run_error(problem)
            accepted[sample["name"]] = f"{error['type']}: {error['message']}"
        finally:
            state.restore()
    return {"accepted": accepted}
