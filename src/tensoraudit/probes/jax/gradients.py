"""jax.gradients: gradients of one scalar for all floating inputs and trained parameters, and whether they are right.

The passes are those of `jax.run`: first, repeated, in double precision, with inputs moved by one ULP. Double precision
evaluates the trace of the gradient itself, so that derivatives which the user wrote (custom_vjp) are in it as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tensoraudit.probes.finite_differences import check_gradients
from tensoraudit.probes.jax.cuts import Flow
from tensoraudit.probes.jax.devices import device_of, pinned, wide_types
from tensoraudit.probes.jax.differentiation import (
    Derivative,
    conjugated,
    differentiates,
    real_parts,
    trained_places,
)
from tensoraudit.probes.jax.forward import NOT_TRACEABLE, Subject, forward_error
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.precision import moved_parameters
from tensoraudit.probes.jax.tensors import dtype_name, is_array, put_all
from tensoraudit.probes.jax.widening import NotAnOracle, evaluate, widened
from tensoraudit.probes.projection import INPUT, PARAMETER, empty_row, read_projection
from tensoraudit.probes.protocol import JobFailed, Session
from tensoraudit.probes.ulp import perturb

Row = dict[str, Any]
Arguments = Any
"""What a `Derivative` takes: (sources, rest)."""


def gradients(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Differentiate the projected outputs on every input set, in evaluation mode; see `pytorch.gradients`.

    JAX gives zeros for what nothing depends on: such a gradient is `missing` all the same, which the trace shows. A
    function that cannot be traced runs operation by operation (`jit_error`); of its zeros nothing more is known.
    Raises JobFailed when the model cannot be loaded, JobUnsupported when the device is not there.
    """
    device = device_of(params.get("device", "cpu"))
    session.pack()
    model = open_model(session, params["model"])
    with pinned(device) as settings:
        job = _Job(model, session, device, int(params.get("seed", 0)))
        for sample in params["inputs"]:
            job.reference(sample)
        if params.get("oracle", True):
            job.oracle()
        for draw in range(int(params.get("perturbations", 3))):
            job.perturb(draw)
        checked = job.gradcheck() if params.get("gradcheck") else {}
        if params.get("repeat", 2) > 1:
            job.repeat()
        return {
            "runs": list(job.rows.values()),
            "parameters": list(job.parameters()),
            "gradcheck": checked,
            "settings": {**settings, "seed": job.seed, "x64": model.x64, "gradients": True},
            "state_changed": [],
        }


_NO_VJP = JobFailed("the serialized program holds no gradient: it was exported without one (serialize(vjp_order=1))")


class _Traced:
    """Forward and backward as operations, to be evaluated in double precision on any arguments of their shapes."""

    def __init__(self, derivative: Derivative, arguments: Arguments) -> None:
        self.names = sorted(arguments[0])  # the order of JAX's flat dicts
        self._rest = len(jax.tree_util.tree_leaves(arguments[1]))
        self._forward = jax.make_jaxpr(derivative.scalar)(*arguments)
        both = jax.make_jaxpr(derivative.both)(*arguments)
        self._scalar = jax.jit(lambda *flat: evaluate(self._forward, flat))
        self._both = jax.jit(lambda *flat: evaluate(both, flat))

    def flow(self) -> Flow:
        """How sources reach the scalar."""
        return Flow(self._forward, [*self.names, *[""] * self._rest])

    def loss(self, sources: Mapping[str, Any], rest: Any) -> float:
        """The scalar in double precision; call it with 64-bit types on."""
        (scalar,) = self._scalar(*self._flat(sources, rest))
        return float(scalar)

    def gradients(self, sources: Mapping[str, Any], rest: Any) -> dict[str, Any]:
        """The gradients in double precision; call it with 64-bit types on. Raises NotAnOracle."""
        _, *found = self._both(*self._flat(sources, rest))
        narrow = [name for name, each in zip(self.names, found) if each.dtype.itemsize < 8]  # noqa: B905 - Python 3.9
        if narrow:
            raise NotAnOracle(f"not a true oracle: the gradient of {narrow[0]} stays narrow")
        return {name: conjugated(each) for name, each in zip(self.names, found)}  # noqa: B905

    def _flat(self, sources: Mapping[str, Any], rest: Any) -> list[Any]:
        return [widened(each) for each in (*(sources[name] for name in self.names), *jax.tree_util.tree_leaves(rest))]


@dataclass
class _Input:
    """One input set that the model takes."""

    leaves: dict[str, Any]
    projection: dict[str, Any]


class _Job:
    """The rows of one job, filled pass by pass."""

    def __init__(self, model: Model, session: Session, device: Any, seed: int) -> None:
        self.rows: dict[str, Row] = {}
        self.seed, self._jit = seed, True
        self._model, self._session = model, session
        self._places = trained_places(model.loaded)
        self._parameters = jax.device_put(model.loaded.parameters, device)
        self._inputs: dict[str, _Input] = {}
        self._derivatives: dict[str, Derivative] = {}
        self._traces: dict[str, _Traced] = {}

    def _derivative(self, leaves: Mapping[str, Any]) -> Derivative:
        """Compiled once for all inputs of the same shapes."""
        key = _shapes(leaves)
        if key not in self._derivatives:
            subject = Subject(self._model.loaded.apply, self._parameters, self._model.signature, jit=self._jit)
            self._derivatives[key] = Derivative(subject, self._places, leaves, jit=self._jit)
        return self._derivatives[key]

    def _call(self, leaves: Mapping[str, Any], projection: Mapping[str, Any], seed: int, parameters: Any = None) -> Any:
        derivative = self._derivative(leaves)
        given = self._parameters if parameters is None else parameters
        return derivative.call(derivative.arguments(given, leaves, projection), seed)

    def parameters(self) -> Iterator[dict[str, Any]]:
        """Describe every trained parameter."""
        flat = jax.tree_util.tree_leaves(self._parameters)
        for key, place in self._places.items():
            leaf = flat[place]
            known = {"key": key, "names": [key[len(PARAMETER) :]], "shape": list(leaf.shape)}
            yield {**known, "dtype": dtype_name(leaf), "trainable": True}

    def reference(self, sample: Mapping[str, Any]) -> None:
        """First pass over one input set; only those that the model takes go on to the other passes."""
        row = self.rows[sample["name"]] = empty_row(sample["name"])
        try:
            leaves = read_input(self._session, sample)
            given = _Input(leaves, read_projection(self._session, sample))
            row["scalar"], found = self._first(given, row)
            row["by_nature"] = [INPUT + n for n, v in leaves.items() if is_array(v) and not differentiates(v)]
            row["missing"] = self._missing(given, found)
            row["outputs"] = self._put(found, row)
            self._inputs[sample["name"]] = given
        except Exception as problem:
            row["error"] = forward_error(_NO_VJP if "No VJP is available" in str(problem) else problem)

    def _first(self, given: _Input, row: Row) -> Any:
        try:
            return self._call(given.leaves, given.projection, self.seed)
        except NOT_TRACEABLE as problem:
            if not self._jit:
                raise
            row["jit_error"] = forward_error(problem)
            self._jit = False
            self._derivatives.clear()
            return self._call(given.leaves, given.projection, self.seed)

    def _missing(self, given: _Input, found: Mapping[str, Any]) -> dict[str, str]:
        zero = [key for key, each in found.items() if not np.asarray(each).any()]
        if not zero or not self._jit:
            return {}
        flow = self._trace(given).flow()
        return {key: flow.reason(key) for key in zero if not flow.is_connected(key)}

    def _arguments(self, given: _Input) -> Arguments:
        return self._derivative(given.leaves).arguments(self._parameters, given.leaves, given.projection)

    def _trace(self, given: _Input) -> _Traced:
        if not self._jit:
            raise NotAnOracle("the function cannot be traced")
        key = _shapes(given.leaves)
        if key not in self._traces:
            self._traces[key] = _Traced(self._derivative(given.leaves), self._arguments(given))
        return self._traces[key]

    def _put(self, found: Mapping[str, Any], row: Row) -> dict[str, Any]:
        there = (pair for key, each in found.items() if key not in row["missing"] for pair in real_parts(key, each))
        return put_all(self._session, dict(there))

    def repeat(self) -> None:
        """Second pass, traced anew, with other seeds of the generators that have a hidden state."""
        jax.clear_caches()  # the user's own jit keeps traces too, with what they froze
        self._derivatives.clear()
        for name, given in self._inputs.items():
            try:
                _, again = self._call(given.leaves, given.projection, self.seed + 1)
                self.rows[name]["repeat"] = self._put(again, self.rows[name])
            except Exception as problem:  # it ran before: then it is not deterministic, and an empty repeat says so
                self.rows[name]["repeat_error"] = forward_error(problem)

    def oracle(self) -> None:
        """The gradients in double precision, or the reason why there are none."""
        for name, given in self._inputs.items():
            row = self.rows[name]
            try:
                traced = self._wide(given)
                with wide_types():
                    row["oracle"] = self._put(traced.gradients(*self._arguments(given)), row)
            except Exception as problem:
                row["oracle_reason"] = _oracle_reason(problem)

    def _wide(self, given: _Input) -> _Traced:
        if self._model.loaded.exported is not None:
            raise NotAnOracle("a serialized program computes in the dtypes that it was exported with")
        return self._trace(given)

    def perturb(self, draw: int) -> None:
        """One draw of one-ULP noise."""
        seed = 1000 * (self.seed + 1) + draw
        for name, given in self._inputs.items():
            moved, names = perturb(given.leaves, seed)
            parameters = None if names else moved_parameters(self._parameters, seed)
            self.rows[name]["perturbed_by"] = "inputs" if names else "weights"
            try:
                _, found = self._call(moved, given.projection, self.seed, parameters)
                self.rows[name]["perturbed"].append(self._put(found, self.rows[name]))
            except Exception as problem:
                self.rows[name]["perturbed_error"] = forward_error(problem)

    def gradcheck(self) -> dict[str, Any]:
        """Compare the gradients of the first input set with finite differences, in double precision."""
        if not self._inputs:
            return {"sample": "", "checks": [], "reason": "the model takes no input set"}
        name, given = next(iter(self._inputs.items()))
        try:
            traced, (sources, rest) = self._wide(given), self._arguments(given)
            missing, flow = self.rows[name]["missing"], traced.flow()

            def own(point: Mapping[str, Any]) -> dict[str, Any]:
                found = traced.gradients(point, rest)
                return {key: None if key in missing else np.asarray(each) for key, each in found.items()}

            cuts = {key: text for key in traced.names if (text := flow.cuts(key))}
            with wide_types():
                point = {key: np.asarray(widened(each)) for key, each in sources.items()}
                checks = check_gradients(lambda each: traced.loss(each, rest), own, point, seed=self.seed, cuts=cuts)
        except Exception as problem:
            return {"sample": name, "checks": [], "reason": _oracle_reason(problem)}
        return {"sample": name, "checks": checks, "reason": ""}


def _shapes(leaves: Mapping[str, Any]) -> str:
    """What a trace depends on: the shapes of arrays, the values of all else."""
    return repr([(name, v.shape, str(v.dtype)) if is_array(v) else (name, v) for name, v in leaves.items()])


def _oracle_reason(problem: Exception) -> str:
    if isinstance(problem, NotAnOracle):
        return str(problem)
    error = forward_error(problem)
    text = error["message"].splitlines()[0] if error["message"] else ""
    return f"the gradients do not come in double precision: {error['type']}: {text}"
