"""pytorch.gradients: gradients of one scalar for all floating inputs and trained parameters, and if they are right.

The passes are those of `pytorch.run`: first, repeated, in double precision, with inputs moved by one ULP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from tensoraudit.probes.finite_differences import check_gradients
from tensoraudit.probes.projection import INPUT, empty_row, read_projection
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.pytorch.cuts import LEAVES, why_missing
from tensoraudit.probes.pytorch.devices import device_of, pinned
from tensoraudit.probes.pytorch.differentiation import (
    Pass,
    differentiate,
    is_exact,
    is_sparse,
    project,
    real_parts,
    shared_parameters,
    sources,
)
from tensoraudit.probes.pytorch.forward import Subject, forward_error
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.perturbation import perturb_leaves, perturb_module
from tensoraudit.probes.pytorch.precision import WIDE, DoublePrecision, NotAnOracle, to_double
from tensoraudit.probes.pytorch.run import widened
from tensoraudit.probes.pytorch.tensors import dtype_name, put

Row = dict[str, Any]


def gradients(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Differentiate the projected outputs on every input set, in eval mode, each time from the first state.

    `inputs` are wired samples, each with its `projection` (see `probes.projection`). `repeat`, `oracle`,
    `perturbations`, `device`, `seed` are those of `pytorch.run`. `gradcheck` compares with finite differences in double
    precision on the first input set.

    Returns rows as `run` does, with gradients in the place of outputs; `parameters`, each memory once with all its
    names; `gradcheck`, `settings`, `state_changed`.
    Raises JobFailed when the model cannot be loaded, JobUnsupported when the device is not there.
    """
    device = device_of(params.get("device", "cpu"))
    session.pack()
    with pinned(device.type) as settings:
        model = open_model(session, params["model"])
        job = _Job(model, session, device, int(params.get("seed", 0)))
        with _differentiable(model, device):
            for sample in params["inputs"]:
                job.reference(sample)
            if params.get("repeat", 2) > 1:
                job.repeat()
            if params.get("oracle", True):
                job.oracle()
            for draw in range(int(params.get("perturbations", 3))):
                job.perturb(draw)
            checked = job.gradcheck() if params.get("gradcheck") else {}
        return {
            "runs": list(job.rows.values()),
            "parameters": list(job.parameters()),
            "gradcheck": checked,
            "settings": {**settings, "seed": job.seed, "gradients": True},
            "state_changed": sorted(job.state_changed),
        }


@contextmanager
def _differentiable(model: Model, device: torch.device) -> Iterator[None]:
    """cuDNN differentiates a recurrent layer in training mode only; torch's own kernels do it in eval mode."""
    recurrent = any(isinstance(each, torch.nn.RNNBase) for each in model.loaded.module.modules())
    with torch.backends.cudnn.flags(enabled=False) if device.type == "cuda" and recurrent else nullcontext():
        yield


class _Job:
    """The rows of one job, filled pass by pass."""

    def __init__(self, model: Model, session: Session, device: torch.device, seed: int) -> None:
        self.rows: dict[str, Row] = {}
        self.seed = seed
        self._model, self._session, self._device = model, session, device
        self._plain = self._subject()
        self._inputs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    @property
    def state_changed(self) -> set[str]:
        """What forward left changed in the module, in any run."""
        return self._plain.state_changed

    def _subject(self, prepare: Callable[[torch.nn.Module], None] | None = None) -> Subject:
        loaded = self._model.loaded
        if isinstance(loaded.module, torch.jit.ScriptModule):
            prepare = _trained_as(loaded.module, prepare)
        return Subject(loaded, self._model.signature, self._device, prepare)

    def parameters(self) -> Iterator[dict[str, Any]]:
        """Describe every parameter."""
        for each in shared_parameters(self._model.loaded.module):
            tensor = each.tensors[0]
            known = {"key": each.key, "names": list(each.names), "shape": list(tensor.shape)}
            trainable = any(t.requires_grad for t in each.tensors)
            yield {**known, "dtype": dtype_name(tensor.dtype), "trainable": trainable}

    def reference(self, sample: Mapping[str, Any]) -> None:
        """First pass over one input set; only those that the model takes go on to the other passes."""
        row = self.rows[sample["name"]] = empty_row(sample["name"])
        try:
            leaves, projection = read_input(self._session, sample), read_projection(self._session, sample)
            done = differentiate(self._plain, leaves, projection, self.seed)
            row["outputs"], row["scalar"] = self._put(done.gradients), done.scalar
            row["dense"] = [key for key, each in done.gradients.items() if each is not None and is_sparse(each)]
            row["by_nature"] = [INPUT + n for n, v in leaves.items() if is_exact(v)]
            lacking = [key for key, each in done.gradients.items() if each is None]
            row["missing"] = why_missing(self._plain, leaves, sources, lacking, self.seed) if lacking else {}
            self._inputs[sample["name"]] = leaves, projection
        except Exception as problem:
            row["error"] = forward_error(problem)

    def _put(self, found: Mapping[str, torch.Tensor | None]) -> dict[str, Any]:
        parts = (part for key, each in found.items() if each is not None for part in real_parts(key, each))
        return {key: put(self._session, each) for key, each in parts}

    def repeat(self) -> None:
        """Second pass from the same state, with another seed."""
        for name, (leaves, projection) in self._inputs.items():
            try:
                again = differentiate(self._plain, leaves, projection, self.seed + 1)
                self.rows[name]["repeat"] = self._put(again.gradients)
            except Exception as problem:  # it ran before: then it is not deterministic, and an empty repeat says so
                self.rows[name]["repeat_error"] = forward_error(problem)

    def oracle(self) -> None:
        """The gradients in double precision, or the reason why there are none."""
        wide: Subject | None = None
        for name, (leaves, projection) in self._inputs.items():
            row = self.rows[name]
            try:
                wide = wide or self._subject(_widen)
                row["oracle"] = self._put(_double(wide, leaves, projection, self.seed).gradients)
            except Exception as problem:
                row["oracle_reason"] = _oracle_reason(problem)

    def perturb(self, draw: int) -> None:
        """One draw of one-ULP noise."""
        seed = 1000 * (self.seed + 1) + draw
        for name, (leaves, projection) in self._inputs.items():
            moved, names = perturb_leaves(leaves, seed)
            subject = self._plain if names else self._subject(lambda module: perturb_module(module, seed))
            self.rows[name]["perturbed_by"] = "inputs" if names else "weights"
            try:
                found = differentiate(subject, moved, projection, self.seed)
                self.rows[name]["perturbed"].append(self._put(found.gradients))
            except Exception as problem:
                self.rows[name]["perturbed_error"] = forward_error(problem)

    def gradcheck(self) -> dict[str, Any]:
        """Compare the gradients of the first input set with finite differences, in double precision."""
        if not self._inputs:
            return {"sample": "", "checks": [], "reason": "the model takes no input set"}
        name, (leaves, projection) = next(iter(self._inputs.items()))
        try:
            checker = _Checker(self._subject(_widen), leaves, projection, self.seed)
            missing = self.rows[name]["missing"]
            left = {key: reason for key, reason in missing.items() if reason.startswith(LEAVES)}
            cuts = {**left, **why_missing(self._plain, leaves, sources, None, self.seed)}
            checks = check_gradients(checker.loss, checker.gradients, checker.point(), seed=self.seed, cuts=cuts)
        except Exception as problem:
            return {"sample": name, "checks": [], "reason": _oracle_reason(problem)}
        return {"sample": name, "checks": checks, "reason": ""}


def _trained_as(original: torch.nn.Module, prepare: Callable[[torch.nn.Module], None] | None) -> Any:
    """A copied script has forgotten which of its parameters are trained."""
    trained = {name: each.requires_grad for name, each in original.named_parameters()}

    def restore(module: torch.nn.Module) -> None:
        if prepare is not None:
            prepare(module)
        for name, each in module.named_parameters():
            each.requires_grad_(trained[name])

    return restore


def _widen(module: torch.nn.Module) -> None:
    to_double(module)
    for each in module.parameters():
        if each.dtype in WIDE:  # `double` leaves complex ones alone
            each.data = each.data.to(WIDE[each.dtype])


def _double(subject: Subject, leaves: Mapping[str, Any], projection: Mapping[str, Any], seed: int) -> Pass:
    mode = DoublePrecision()
    wide = {key: widened(leaf) for key, leaf in leaves.items()}
    done = differentiate(subject, wide, projection, seed, mode)
    there = {key: each for key, each in done.gradients.items() if each is not None}
    narrow = [f"the gradient of {key} is {dtype_name(each.dtype)}" for key, each in there.items() if each.dtype in WIDE]
    if mode.lossy or narrow:
        what, at = next(iter(mode.lossy.items())) if mode.lossy else (narrow[0], None)
        raise NotAnOracle(f"not a true oracle: {what}{' ({path}:{line})'.format(**at) if at else ''}")
    return done


class _Checker:
    """The scalar and its gradients at any point, in double precision."""

    def __init__(self, subject: Subject, leaves: Mapping[str, Any], projection: Mapping[str, Any], seed: int) -> None:
        self._subject, self._projection, self._seed = subject, projection, seed
        self._leaves = {key: widened(leaf) for key, leaf in leaves.items()}

    def point(self) -> dict[str, Any]:
        """Where the model stands."""
        every = sources(self._subject, self._leaves)
        return {key: group[0].detach().cpu().numpy().copy() for key, group in every.items()}

    def loss(self, point: Mapping[str, Any]) -> float:
        """The scalar at a point."""
        with DoublePrecision():
            return float(project(self._subject.call(self._at(point), self._seed), self._projection))

    def gradients(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The gradients at a point."""
        found = _double(self._subject, self._at(point), self._projection, self._seed).gradients
        dense = {key: each if each is None or not is_sparse(each) else each.to_dense() for key, each in found.items()}
        return {key: None if each is None else each.resolve_conj().cpu().numpy() for key, each in dense.items()}

    def _at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Set the parameters, and return the inputs."""
        with torch.no_grad():
            for each in shared_parameters(self._subject.module):
                for tensor in each.tensors if each.key in point else ():
                    tensor.copy_(torch.from_numpy(point[each.key]))
        moved = {name: torch.from_numpy(point[INPUT + name]) for name in self._leaves if INPUT + name in point}
        return {**self._leaves, **moved}


def _oracle_reason(problem: Exception) -> str:
    if isinstance(problem, NotAnOracle):
        return str(problem)
    error = forward_error(problem)
    text = error["message"].splitlines()[0] if error["message"] else ""
    return f"the gradients do not come in double precision: {error['type']}: {text}"
