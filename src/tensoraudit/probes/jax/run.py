"""jax.run and jax.accepts: run the reference, and everything that its noise floor is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from tensoraudit.probes.jax.devices import device_of, pinned, wide_types
from tensoraudit.probes.jax.forward import NOT_TRACEABLE, Subject, forward_error
from tensoraudit.probes.jax.jaxpr import random_operations
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.precision import check_oracle, moved_parameters, wide_parameters
from tensoraudit.probes.jax.tensors import put_all
from tensoraudit.probes.jax.widening import NotAnOracle, evaluate, widened
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.ulp import perturb
from tensoraudit.routes.source import Place

Row = dict[str, Any]


def run(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model on every input set, in evaluation mode, compiled by jit.

    `jit`: False runs operation by operation; a function that cannot be traced runs so anyhow, and the row's `jit_error`
    says why. `repeat`: 2 traces and runs a second time with other seeds of Python's and NumPy's generators. `oracle`:
    the same model with 64-bit types on, weights and inputs in float64; None with `oracle_reason` when that is
    impossible or would not be one. `perturbations`: so many draws with all floating inputs moved by one ULP;
    `perturbed_by` says "weights" for an input set of integers, where the floating parameters move instead. A model that
    fails on an input set is data (`error`).

    Raises JobFailed when the model cannot be loaded, JobUnsupported when the device is not there.
    """
    device = device_of(params.get("device", "cpu"))
    session.pack()
    model = open_model(session, params["model"])
    with pinned(device) as settings:
        job = _Job(model, session, device, int(params.get("seed", 0)), jit=bool(params.get("jit", True)))
        for sample in params["inputs"]:
            job.reference(sample)
        if params.get("oracle", True):
            job.oracle()
        for draw in range(int(params.get("perturbations", 3))):
            job.perturb(draw)
        if params.get("repeat", 2) > 1:
            job.repeat()
        return {
            "runs": list(job.rows.values()),
            "settings": {**settings, "seed": job.seed, "x64": model.x64, "jit": job.jit},
            "state_changed": job.state_changed(),
            "random_operators": [{"op": name, "source": source} for name, source in job.random.items()],
            "modes": {"handed_over": "train" if model.loaded.training else "eval", "ran": "eval"},
        }


class _Job:
    """The rows of one job, filled pass by pass."""

    def __init__(self, model: Model, session: Session, device: Any, seed: int, *, jit: bool) -> None:
        self.rows: dict[str, Row] = {}
        self.random: dict[str, Place | None] = {}
        self.seed, self.jit = seed, jit
        self._model, self._session = model, session
        self._parameters = jax.device_put(model.loaded.parameters, device)
        self._inputs: dict[str, dict[str, Any]] = {}
        self._traces: dict[str, tuple[Any, Any]] = {}
        self._plain = self._subject(self._parameters)

    def _subject(self, parameters: Any) -> Subject:
        return Subject(self._model.loaded.apply, parameters, self._model.signature, jit=self.jit)

    def reference(self, sample: Mapping[str, Any]) -> None:
        """First run of one input set; only input sets that the model takes go on to the other passes."""
        row: Row = {
            "input": sample["name"],
            "outputs": {},
            "repeat": {},
            "oracle": None,
            "oracle_reason": "",
            "perturbed": [],
            "perturbed_by": "",
            "error": None,
        }
        self.rows[sample["name"]] = row
        try:
            leaves = read_input(self._session, sample)
            row["outputs"] = put_all(self._session, self._first(leaves, row))
            self._inputs[sample["name"]] = leaves
        except Exception as problem:
            row["error"] = forward_error(problem)

    def _first(self, leaves: Mapping[str, Any], row: Row) -> dict[str, Any]:
        try:
            outputs = self._plain.call(leaves, self.seed)
        except NOT_TRACEABLE as problem:
            if not self.jit:
                raise
            row["jit_error"] = forward_error(problem)
            self.jit = False
            self._plain = self._subject(self._parameters)
            return self._plain.call(leaves, self.seed)
        if self.jit:
            self.random.update(random_operations(self._trace(leaves)[0].jaxpr))
        return outputs

    def _trace(self, leaves: Mapping[str, Any]) -> tuple[Any, Any]:
        """The reference's operations for inputs of these shapes, and the same compiled in double precision."""
        function, arrays = self._plain.function(leaves)
        fixed = {name: leaf for name, leaf in leaves.items() if name not in arrays}
        key = repr((fixed, [(name, each.shape, str(each.dtype)) for name, each in arrays.items()]))
        if key not in self._traces:
            closed = jax.make_jaxpr(function)(self._parameters, arrays)
            self._traces[key] = closed, jax.jit(lambda *arguments: evaluate(closed, arguments))
        return self._traces[key]

    def repeat(self) -> None:
        """Second run, traced anew, with other seeds of the generators that have a hidden state."""
        jax.clear_caches()  # the user's own jit keeps traces too, with what they froze
        again = self._subject(self._parameters)
        for name, leaves in self._inputs.items():
            try:
                self.rows[name]["repeat"] = put_all(self._session, again.call(leaves, self.seed + 1))
            except Exception as problem:  # it ran before: then it is not deterministic, and an empty repeat says so
                self.rows[name]["repeat_error"] = forward_error(problem)

    def oracle(self) -> None:
        """The run in double precision, or the reason why there is none."""
        if self._model.loaded.exported is not None:
            for row in self.rows.values():
                row["oracle_reason"] = "a serialized program computes in the dtypes that it was exported with"
            return
        with wide_types():
            wide = self._subject(wide_parameters(self._parameters))
            for name, leaves in self._inputs.items():
                row = self.rows[name]
                try:
                    row["oracle"] = put_all(self._session, self._same_trace(leaves, row))
                except Exception:
                    self._traced_anew(row, wide, {key: widened(leaf) for key, leaf in leaves.items()})

    def _same_trace(self, leaves: Mapping[str, Any], row: Row) -> dict[str, Any]:
        """The operations of the reference itself, in double precision."""
        if not self.jit:
            raise NotAnOracle("the function cannot be traced")
        flat = jax.tree_util.tree_leaves((self._parameters, self._plain.function(leaves)[1]))
        results = self._trace(leaves)[1](*flat)
        return dict(zip(row["outputs"], results))  # noqa: B905 - Python 3.9

    def _traced_anew(self, row: Row, wide: Subject, leaves: Mapping[str, Any]) -> None:
        """What cannot be evaluated so may still be a function that keeps double precision by itself."""
        try:
            outputs = wide.call(leaves, self.seed)
            function, arrays = wide.function(leaves)
            check_oracle(jax.make_jaxpr(function)(wide.parameters, arrays).jaxpr, outputs, row["outputs"])
            row["oracle"] = put_all(self._session, outputs)
        except Exception as problem:
            row["oracle_reason"] = _oracle_reason(problem)

    def perturb(self, draw: int) -> None:
        """One draw of one-ULP noise."""
        seed = 1000 * (self.seed + 1) + draw
        moving_weights: Subject | None = None
        for name, leaves in self._inputs.items():
            moved, names = perturb(leaves, seed)
            if not names and moving_weights is None:
                moving_weights = self._subject(moved_parameters(self._parameters, seed))
            subject = self._plain if names else moving_weights
            assert subject is not None
            self.rows[name]["perturbed_by"] = "inputs" if names else "weights"
            try:
                outputs = put_all(self._session, subject.call(moved, self.seed))
            except Exception as problem:
                self.rows[name]["perturbed_error"] = forward_error(problem)
            else:
                self.rows[name]["perturbed"].append(outputs)

    def state_changed(self) -> list[str]:
        """What the model changed in itself when it ran once, if it can hold anything."""
        changes = self._model.loaded.changes
        if changes is None or not self._inputs:
            return []
        bound = self._model.signature.bind(next(iter(self._inputs.values())))
        return changes(self._parameters, *bound.args, **bound.kwargs)


def _oracle_reason(problem: Exception) -> str:
    if isinstance(problem, NotAnOracle):
        return str(problem)
    error = forward_error(problem)
    text = error["message"].splitlines()[0] if error["message"] else ""
    return f"the model does not run in double precision: {error['type']}: {text}"


def accepts(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Say for each input set whether the reference itself runs on it: True or the reason why not."""
    device = device_of(params.get("device", "cpu"))
    model = open_model(session, params["model"])
    with pinned(device):
        job = _Job(model, session, device, int(params.get("seed", 0)), jit=True)
        for sample in params["inputs"]:
            job.reference(sample)
    errors = {name: row["error"] for name, row in job.rows.items()}
    return {"accepted": {name: f"{e['type']}: {e['message']}" if e else True for name, e in errors.items()}}
