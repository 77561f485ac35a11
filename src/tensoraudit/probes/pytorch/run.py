"""pytorch.run and pytorch.accepts: run the reference, and everything that its noise floor is made of.

One pass over all inputs for each kind of run, so that only one extra copy of the model is alive at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch

from tensoraudit.probes.protocol import Session
from tensoraudit.probes.pytorch.compiled import compile_module
from tensoraudit.probes.pytorch.devices import device_of, pinned
from tensoraudit.probes.pytorch.forward import Subject, forward_error
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.perturbation import perturb_leaves, perturb_module
from tensoraudit.probes.pytorch.precision import WIDE, DoublePrecision, NotAnOracle, to_double
from tensoraudit.probes.pytorch.tensors import dtype_name, put_all
from tensoraudit.routes.source import Place

Row = dict[str, Any]
Prepare = Callable[[torch.nn.Module], None]


def run(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model on every input set, in eval mode, each time from its first state.

    `compiled` (False) runs it through torch.compile; double precision and moved weights are not compiled. `repeat`: 2
    runs a second time with another seed, so that random operators show. `oracle`: the same model and weights in
    float64; None with `oracle_reason` when that is impossible or would not be one. `perturbations`: so many draws with
    all floating inputs moved by one ULP; `perturbed_by` says "weights" for an input set of integers (token ids), where
    the floating parameters move instead. A model that fails on an input set is data (`error`). `state_changed` names
    what forward leaves changed; what only the first call sets, without an effect on any result, is in `set_once`.

    Raises JobFailed when the model cannot be loaded, JobUnsupported when the device is not there.
    """
    device = device_of(params.get("device", "cpu"))
    with pinned(device.type) as settings:
        model = open_model(session, params["model"])
        compiled = bool(params.get("compiled"))
        job = _Job(model, session, device, int(params.get("seed", 0)), compile_module if compiled else None)
        inputs = {sample["name"]: read_input(session, sample) for sample in params["inputs"]}
        job.reference(inputs)
        job.settle()
        if params.get("repeat", 2) > 1:
            job.repeat()
        if params.get("oracle", True):
            job.oracle()
        for draw in range(int(params.get("perturbations", 3))):
            job.perturb(draw)
        return {
            "runs": list(job.rows.values()),
            "settings": {**settings, "compiled": compiled, "seed": job.seed},
            "state_changed": sorted(job.state_changed),
            "set_once": sorted(job.settled),
            "left_out": job.left_out,
            "random_operators": [{"op": name, "source": source} for name, source in job.random.items()],
            "modes": _modes(model),
        }


def _modes(model: Model) -> dict[str, Any]:
    """The mode that the model was handed over in (its modules in training mode), and the one that ran."""
    training = [path for path, each in model.loaded.module.named_modules() if getattr(each, "training", False)]
    if model.loaded.program is not None:
        return {
            "handed_over": "train" if model.loaded.training else "eval",
            "ran": "as exported",
            "training_modules": [],
        }
    return {"handed_over": "train" if model.loaded.training else "eval", "ran": "eval", "training_modules": training}


class _Job:
    """The rows of one job, filled pass by pass."""

    def __init__(
        self, model: Model, session: Session, device: torch.device, seed: int, prepare: Prepare | None
    ) -> None:
        self.rows: dict[str, Row] = {}
        self.random: dict[str, Place | None] = {}
        self.seed = seed
        self._model, self._session, self._device, self._compiled = model, session, device, prepare is not None
        self.settled: frozenset[str] = frozenset()
        self._plain = self._subject(prepare)
        self._inputs: dict[str, dict[str, Any]] = {}

    @property
    def state_changed(self) -> set[str]:
        """What forward left changed in the module, in any run."""
        return self._plain.state_changed - self.settled

    def settle(self) -> None:
        """Find what the first call sets for good, without an effect on any result (see `Subject.set_once`): on the
        first, the middle and the last of the input sets."""
        found = list(self._inputs.values())
        if not found or not self.state_changed:
            return
        places = dict.fromkeys((0, len(found) // 2, len(found) - 1))
        with suppress(Exception):  # a second call that fails where the first did not: that is state enough
            self.settled = frozenset(self._plain.set_once([found[place] for place in places], self.seed))
        self._plain.settled = self.settled

    @property
    def left_out(self) -> dict[str, str]:
        """The classes of results that are no tensors, by name."""
        return self._plain.left_out

    def _subject(self, prepare: Prepare | None = None) -> Subject:
        return Subject(self._model.loaded, self._model.signature, self._device, prepare, self.settled)

    def reference(self, inputs: Mapping[str, dict[str, Any]]) -> None:
        """First run of everything; only input sets that the model takes go on to the other passes."""
        for name, leaves in inputs.items():
            row: Row = {
                "input": name,
                "outputs": {},
                "repeat": {},
                "oracle": None,
                "oracle_reason": "",
                "perturbed": [],
                "perturbed_by": "",
                "error": None,
            }
            self.rows[name] = row
            try:
                row["outputs"] = put_all(self._session, self._plain.call(leaves, self.seed))
                self._inputs[name] = leaves
            except Exception as problem:
                row["error"] = {**forward_error(problem), **self._stage(leaves)}

    def _stage(self, leaves: Mapping[str, Any]) -> dict[str, str]:
        """Whether it is the compiler that fails: then the model itself runs on the same inputs."""
        if not self._compiled:
            return {}
        try:
            self._subject().call(leaves, self.seed)
        except Exception:
            return {}
        return {"stage": "compile"}

    def repeat(self) -> None:
        """Second run from the same state, with another seed."""
        for name, leaves in self._inputs.items():
            try:
                self.rows[name]["repeat"] = put_all(self._session, self._plain.call(leaves, self.seed + 1))
            except Exception as problem:  # it ran before: then it is not deterministic, and an empty repeat says so
                self.rows[name]["repeat_error"] = forward_error(problem)

    def oracle(self) -> None:
        """The run in double precision, or the reason why there is none."""
        try:
            subject = self._subject(to_double)
        except Exception as problem:
            for name in self._inputs:
                self.rows[name]["oracle_reason"] = _oracle_reason(problem)
            return
        for name, leaves in self._inputs.items():
            self._oracle_row(name, subject, leaves)

    def _oracle_row(self, name: str, subject: Subject, leaves: Mapping[str, Any]) -> None:
        mode, row = DoublePrecision(), self.rows[name]
        try:
            outputs = subject.call({key: widened(leaf) for key, leaf in leaves.items()}, self.seed, mode)
            self.random.update(mode.random)
            _check_oracle(mode, outputs, row["outputs"])
            row["oracle"] = put_all(self._session, outputs)
        except Exception as problem:
            row["oracle_reason"] = _oracle_reason(problem)

    def perturb(self, draw: int) -> None:
        """One draw of one-ULP noise."""
        seed = 1000 * (self.seed + 1) + draw
        moving_weights: Subject | None = None
        for name, leaves in self._inputs.items():
            moved, names = perturb_leaves(leaves, seed)
            if not names and moving_weights is None:
                moving_weights = self._subject(lambda module: perturb_module(module, seed))
            subject = self._plain if names else moving_weights
            assert subject is not None
            self.rows[name]["perturbed_by"] = "inputs" if names else "weights"
            try:
                outputs = put_all(self._session, subject.call(moved, self.seed))
            except Exception as problem:
                self.rows[name]["perturbed_error"] = forward_error(problem)
            else:
                self.rows[name]["perturbed"].append(outputs)


def widened(leaf: Any) -> Any:
    """Return a floating tensor in double precision, anything else as it is."""
    return leaf.to(WIDE[leaf.dtype]) if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDE else leaf


def _check_oracle(mode: DoublePrecision, outputs: Mapping[str, torch.Tensor], reference: Mapping[str, Any]) -> None:
    narrow = [f"{name} is {dtype_name(each.dtype)}" for name, each in outputs.items() if each.dtype in WIDE]
    if mode.lossy or narrow:
        what, at = next(iter(mode.lossy.items())) if mode.lossy else (narrow[0], None)
        where = f" ({at['path']}:{at['line']})" if at else ""
        raise NotAnOracle(f"not a true oracle: {what}{where}")
    shapes = {name: list(each.shape) for name, each in outputs.items()}
    if shapes != {name: each["shape"] for name, each in reference.items()}:
        raise NotAnOracle("not a true oracle: in double precision the model gives other outputs or shapes")


def _oracle_reason(problem: Exception) -> str:
    if isinstance(problem, NotAnOracle):
        return str(problem)
    error = forward_error(problem)
    text = error["message"].splitlines()[0] if error["message"] else ""
    return f"the model does not run in double precision: {error['type']}: {text}"


def accepts(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Say for each input set whether the reference itself runs on it: True or the reason why not."""
    device = device_of(params.get("device", "cpu"))
    with pinned(device.type):
        model = open_model(session, params["model"])
        subject = Subject(model.loaded, model.signature, device)
        accepted: dict[str, Any] = {}
        for sample in params["inputs"]:
            try:
                subject.call(read_input(session, sample), int(params.get("seed", 0)))
                accepted[sample["name"]] = True
            except Exception as problem:
                error = forward_error(problem)
                accepted[sample["name"]] = f"{error['type']}: {error['message']}"
    return {"accepted": accepted}
