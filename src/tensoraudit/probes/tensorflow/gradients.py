"""tensorflow.gradients: gradients of one scalar for all floating inputs and trained variables, and if they are right.

The passes are those of `tensorflow.run`: first, repeated, in double precision, with inputs moved by one ULP. Double
precision is a Keras model made again, or else the frozen graph, where a custom gradient does not survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.finite_differences import check_gradients
from tensoraudit.probes.projection import INPUT, PARAMETER, empty_row, read_projection
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.tensorflow.cuts import UNKNOWN
from tensoraudit.probes.tensorflow.differentiation import (
    DoubleGraph,
    Frozen,
    Traced,
    check_wide,
    dense_parts,
    differentiate,
    differentiates,
    is_sparse,
    project,
    variables_of,
)
from tensoraudit.probes.tensorflow.double import NotAnOracle, twin_of, widened
from tensoraudit.probes.tensorflow.loading import open_model, read_input
from tensoraudit.probes.tensorflow.model import Model, as_tensor, name_outputs
from tensoraudit.probes.tensorflow.run import run_error
from tensoraudit.probes.tensorflow.settings import check_device, pin, seed_everything, settings
from tensoraudit.probes.tensorflow.state import State
from tensoraudit.probes.ulp import move, perturb

Row = dict[str, Any]
Gradients = Mapping[str, Any]


def gradients(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Differentiate the projected outputs on every input set with training=False; see `pytorch.gradients`.

    Raises JobFailed when the model cannot be loaded.
    """
    check_device(params.get("device", "cpu"))
    session.pack()
    model = open_model(session, params["model"]).model
    pin()
    job = _Job(model, session, int(params.get("seed", 0)))
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
        "settings": {**settings(), "seed": job.seed, "gradients": True},
        "state_changed": sorted(job.state.changed),
    }


class _Double:
    """The scalar and its gradients in double precision at any point (arrays by gradient name).

    Three ways, the best that works: a twin model with its own tape; the frozen graph; and, where the graph has custom
    gradients, its scalar alone, with the gradients of the model itself in single precision.
    """

    def __init__(self, job: _Job, leaves: Mapping[str, Any], projection: Mapping[str, Any]) -> None:
        self._job, self._leaves, self._projection = job, leaves, projection
        self._wide = {name: widened(leaf) for name, leaf in leaves.items()}
        self.exact = True
        try:
            self._twin: Model | None = twin_of(job.model, leaves)
            self._variables = variables_of(self._twin)
            if len(self._variables) != len(job.variables):
                raise NotAnOracle("made again, the model has other variables")
            self._variables = dict(zip(job.variables, self._variables.values()))  # noqa: B905 - Python 3.9
        except NotAnOracle:
            self._twin, frozen = None, Frozen(job.traced(leaves))
            self._graph, self.exact = DoubleGraph(frozen, leaves), not frozen.custom
            self._variables = {key: job.variables[key] for key in frozen.held}

    def point(self) -> dict[str, Any]:
        """Where the model stands."""
        inputs = {INPUT + name: leaf for name, leaf in self._wide.items() if differentiates(leaf)}
        return {**inputs, **{key: widened(np.array(each.numpy())) for key, each in self._variables.items()}}

    def loss(self, point: Mapping[str, Any]) -> float:
        """The scalar at a point."""
        if self._twin is None:
            return float(project(self._graph.outputs(point), self._projection))
        with _set(self._variables, point), self._job.called(State(self._twin)):
            inputs = {name: as_tensor(leaf) for name, leaf in self._inputs(point).items()}
            return float(project(name_outputs(self._twin.call(inputs)), self._projection))

    def gradients(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The gradients at a point, in double precision. Raises NotAnOracle."""
        found = self._graph.gradients(point, self._projection) if self._twin is None else self._taped(point)
        check_wide(found)
        return found

    def _taped(self, point: Mapping[str, Any]) -> dict[str, Any]:
        assert self._twin is not None
        with _set(self._variables, point), self._job.called(State(self._twin)):
            _, found = differentiate(_call(self._twin), self._variables, self._inputs(point), self._projection)
        return found

    def own(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The gradients as finite differences see them: dense, and those of the model itself where need be."""
        if self.exact:
            found = self.gradients(point)
        else:
            near = {name: _narrowed(leaf, self._leaves[name]) for name, leaf in self._inputs(point).items()}
            with _set(self._job.variables, point):
                _, found = self._job.differentiate(near, self._projection, self._job.seed)
        return {key: None if each is None else _array(each) for key, each in found.items()}

    def _inputs(self, point: Mapping[str, Any]) -> dict[str, Any]:
        return {name: point.get(INPUT + name, leaf) for name, leaf in self._wide.items()}


def _narrowed(leaf: Any, like: Any) -> Any:
    return leaf.astype(like.dtype) if isinstance(like, np.ndarray) else leaf


def _array(gradient: Any) -> Any:
    array = np.asarray(tf.convert_to_tensor(gradient))
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


@contextmanager
def _set(variables: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[None]:
    """Give variables the values of a point, and their own back."""
    before = {key: np.array(each.numpy()) for key, each in variables.items() if key in point}
    try:
        for key, first in before.items():
            variables[key].assign(np.asarray(point[key]).astype(first.dtype))
        yield
    finally:
        for key, first in before.items():
            variables[key].assign(first)


def _call(model: Model) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda leaves: name_outputs(model.call(leaves))


class _Job:
    """The rows of one job, filled pass by pass."""

    def __init__(self, model: Model, session: Session, seed: int) -> None:
        self.rows: dict[str, Row] = {}
        self.seed, self.model, self.state = seed, model, State(model)
        self._session = session
        self.variables: dict[str, Any] = {}
        self._inputs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def parameters(self) -> Iterator[dict[str, Any]]:
        """Describe every trained variable."""
        for key, each in self.variables.items():
            known = {"key": key, "names": [key[len(PARAMETER) :]], "shape": [int(size) for size in each.shape]}
            yield {**known, "dtype": tf.as_dtype(each.dtype).name, "trainable": True}

    @contextmanager
    def called(self, state: State, *, note: bool = True) -> Iterator[None]:
        """Around each call: from the first state, and back to it."""
        state.seed(self.seed)
        try:
            yield
        finally:
            state.restore(note=note)

    def differentiate(self, leaves: Mapping[str, Any], projection: Mapping[str, Any], seed: int) -> tuple[float, Any]:
        """Run forward and backward once from the first state."""
        seed_everything(seed)
        self.state.seed(seed)
        try:
            return differentiate(_call(self.model), self.variables, leaves, projection)
        finally:
            self.state.restore()

    def traced(self, leaves: Mapping[str, Any]) -> Traced:
        """The model as a graph. Raises whatever stops its tracing."""
        return Traced(self.model, self.variables, leaves)

    def reference(self, sample: Mapping[str, Any]) -> None:
        """First pass over one input set; only those that the model takes go on to the other passes."""
        row = self.rows[sample["name"]] = empty_row(sample["name"])
        try:
            leaves, projection = read_input(self._session, sample, self.model), read_projection(self._session, sample)
            self._build(leaves)
            row["scalar"], found = self.differentiate(leaves, projection, self.seed)
            row["outputs"] = self._put(found)
            row["dense"] = [key for key, each in found.items() if is_sparse(each)]
            exact = [n for n, v in leaves.items() if isinstance(v, np.ndarray) and not differentiates(v)]
            row["by_nature"] = [INPUT + name for name in exact]
            row["missing"] = self._missing(leaves, [key for key, each in found.items() if each is None])
            self._inputs[sample["name"]] = leaves, projection
        except Exception as problem:
            row["error"] = run_error(problem)

    def _build(self, leaves: Mapping[str, Any]) -> None:
        """Some Keras models make their variables when they are called first."""
        if not self.variables:
            if not getattr(self.model.owner, "built", True):
                self.model.run(leaves)
                self.state.restore()
                self.state = State(self.model)
            self.variables = variables_of(self.model)

    def _missing(self, leaves: Mapping[str, Any], lacking: list[str]) -> dict[str, str]:
        if not lacking:
            return {}
        try:
            ways, places = self.traced(leaves).ways()
        except Exception:
            return dict.fromkeys(lacking, UNKNOWN)
        return {key: ways.reason(places.get(key, "")) for key in lacking}

    def _put(self, found: Gradients) -> dict[str, Any]:
        parts = (part for key, each in found.items() if each is not None for part in dense_parts(key, each))
        return {key: self._session.put(array) for key, array in parts}

    def repeat(self) -> None:
        """Second pass from the same state, with another seed."""
        for name, (leaves, projection) in self._inputs.items():
            try:
                _, again = self.differentiate(leaves, projection, self.seed + 1)
                self.rows[name]["repeat"] = self._put(again)
            except Exception as problem:  # it ran before: then it is not deterministic, and an empty repeat says so
                self.rows[name]["repeat_error"] = run_error(problem)

    def oracle(self) -> None:
        """The gradients in double precision, or the reason why there are none."""
        for name, (leaves, projection) in self._inputs.items():
            try:
                double = _Double(self, leaves, projection)
                self.rows[name]["oracle"] = self._put(double.gradients(double.point()))
            except Exception as problem:
                self.rows[name]["oracle_reason"] = _reason(problem)

    def perturb(self, draw: int) -> None:
        """One draw of one-ULP noise."""
        seed = 1000 * (self.seed + 1) + draw
        for name, (leaves, projection) in self._inputs.items():
            moved, names = perturb(leaves, seed)
            row = self.rows[name]
            row["perturbed_by"] = "inputs" if names else "weights"
            try:
                with _set(self.variables, {} if names else self._moved(seed)):
                    _, found = self.differentiate(moved, projection, self.seed)
                row["perturbed"].append(self._put(found))
            except Exception as problem:
                row["perturbed_error"] = run_error(problem)

    def _moved(self, seed: int) -> dict[str, Any]:
        draws = np.random.default_rng(seed)
        values = {key: np.array(each.numpy()) for key, each in self.variables.items()}
        return {key: move(value, draws) for key, value in values.items() if value.dtype.kind == "f"}

    def gradcheck(self) -> dict[str, Any]:
        """Compare the gradients of the first input set with finite differences, in double precision."""
        if not self._inputs:
            return {"sample": "", "checks": [], "reason": "the model takes no input set"}
        name, (leaves, projection) = next(iter(self._inputs.items()))
        try:
            double = _Double(self, leaves, projection)
            found = check_gradients(double.loss, double.own, double.point(), seed=self.seed, cuts=self._cuts(leaves))
        except Exception as problem:
            return {"sample": name, "checks": [], "reason": _reason(problem)}
        return {"sample": name, "checks": found, "reason": ""}

    def _cuts(self, leaves: Mapping[str, Any]) -> dict[str, str]:
        try:
            ways, places = self.traced(leaves).ways()
        except Exception:  # without a graph nothing is known of it, and a difference stays one
            return {}
        return {key: text for key, place in places.items() if (text := ways.cuts(place))}


def _reason(problem: Exception) -> str:
    if isinstance(problem, NotAnOracle):
        return str(problem)
    error = run_error(problem)
    return f"the gradients do not come in double precision: {error['type']}: {error['message'][:300]}"
