"""jax.trace: all intermediate values of one run, or the selected ones, from the jaxpr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import jax

from tensoraudit.probes.fingerprint import fingerprint
from tensoraudit.probes.jax.devices import device_of, pinned, seed_everything, wide_types
from tensoraudit.probes.jax.forward import NOT_TRACEABLE, Subject, forward_error
from tensoraudit.probes.jax.loading import Model, open_model, read_input
from tensoraudit.probes.jax.names import named_leaves
from tensoraudit.probes.jax.precision import moved_parameters
from tensoraudit.probes.jax.tensors import dtype_name, is_key, numbers_of
from tensoraudit.probes.jax.trace_run import compute
from tensoraudit.probes.jax.trace_scopes import named_modules
from tensoraudit.probes.jax.trace_steps import Step, Steps, depends
from tensoraudit.probes.jax.widening import NotAnOracle, widened
from tensoraudit.probes.protocol import JobError, JobFailed, JobUnsupported, Session
from tensoraudit.probes.ulp import perturb

DEFAULT_BUDGET = 1 << 30
"""Bytes of saved tensors of one job, and of values that are alive at once, when the caller gives no budget."""

Event = dict[str, Any]


def trace(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model once and return its operations as events {"index", "key", "op", "module", "call", "source",
    "inputs", "outputs"}, in the order in which they were traced.

    Calls (jit, custom derivatives, checkpoints) are opened; scan, while and cond are one operation each. `module` is
    the name stack in dots, `inputs` are the values that the operation reads and that depend on the model's inputs:
    `KEY@POSITION` of an event, or `input:NAME`. `select`: the keys or indexes of the events whose outputs are saved,
    "all" (of which `limit` bytes are saved, where given), or None. `fingerprints`: True adds a "print" (see
    `fingerprint`) to each output that depends on the inputs. `dtype`: "as_is" or "float64" (64-bit types on, every
    operation widened). `perturb`: a seed to move the inputs (the weights, if these are integers) by one ULP first.
    `budget`: bytes that may be saved or be alive at once. `outputs` names the value of each output.

    Raises JobFailed when the model fails, or when the selection goes over the budget; JobUnsupported for a function
    that cannot be traced.
    """
    device = device_of(params.get("device", "cpu"))
    session.pack()
    model = open_model(session, params["model"])
    wide = params.get("dtype", "as_is") == "float64"
    with pinned(device) as settings:
        try:
            found = _Trace(model, params, session)
            with wide_types() if wide else nullcontext():
                found.run(wide=wide)
        except NOT_TRACEABLE as problem:
            raise JobUnsupported(f"the function cannot be traced: {forward_error(problem)['message']}") from problem
        except NotAnOracle as problem:
            raise JobUnsupported(str(problem)) from problem
        except Exception as problem:
            if isinstance(problem, JobError):
                raise
            error = forward_error(problem)
            text = f"the model fails while it is traced: {error['type']}: {error['message']}"
            raise JobFailed(text, source=error["source"]) from problem
    return {
        "events": found.events,
        "modules": {event["module"]: 1 for event in found.events},
        "outputs": found.outputs,
        "settings": settings,
        "oracle_reason": "",
        "bytes": found.bytes,
    }


class _Trace:
    """The events of one model on one sample, and what is kept of their values."""

    def __init__(self, model: Model, params: Mapping[str, Any], session: Session) -> None:
        self.bytes = 0
        self._session, self._fingerprints = session, bool(params.get("fingerprints"))
        self._select = params.get("select")
        self._wanted = set() if self._select in ("all", None) else set(self._select)
        self._budget = DEFAULT_BUDGET if params.get("budget") is None else int(params["budget"])
        self._limit = self._budget if params.get("limit") is None else int(params["limit"])
        leaves, parameters = _moved(model, read_input(session, params["inputs"]), params.get("perturb"))
        subject = Subject(model.loaded.apply, parameters, model.signature)
        function, arrays = subject.function(leaves)
        seed_everything(int(params.get("seed", 0)))
        with _scopes(model):
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(parameters, arrays)
        flat, self._steps = jax.tree_util.tree_leaves((parameters, arrays)), Steps(closed)
        self._known = {**dict(zip(self._steps.arguments, flat)), **self._steps.constants}  # noqa: B905 - Python 3.9
        names = dict(zip(self._steps.arguments[len(flat) - len(arrays) :], sorted(arrays)))  # noqa: B905
        values = {number: f"input:{name}" for number, name in names.items()}
        listed = depends(self._steps.steps, values)
        self.events = [_event(index, step, read) for index, (step, read) in enumerate(listed)]
        results = zip(named_leaves(shapes, "output", "."), self._steps.results)  # noqa: B905
        self.outputs = {name: values[each] for name, each in results if isinstance(each, int) and each in values}
        self._places = {event["key"]: event for event in self.events}

    def run(self, *, wide: bool) -> None:
        """Compute the values that were asked for."""
        steps = self._steps.steps
        if not self._fingerprints and self._select != "all":
            steps = _up_to_last(steps, self._places, self._wanted)
        known = {number: widened(value) for number, value in self._known.items()} if wide else self._known
        compute(steps, dict(known), max(self._budget, 1), self._is_wanted, self._see, wide=wide)

    def _is_wanted(self, step: Step) -> bool:
        event = self._places[step.key]
        return self._is_selected(event) or bool(self._fingerprints and event["inputs"])

    def _is_selected(self, event: Event) -> bool:
        return self._select == "all" or event["key"] in self._wanted or event["index"] in self._wanted

    def _see(self, step: Step, results: Any) -> None:
        event = self._places[step.key]
        for place, result in enumerate(results):
            if is_key(result) or not result.size:
                continue
            if self._fingerprints and event["inputs"]:
                event["outputs"][place]["print"] = fingerprint(numbers_of(result))
            if self._is_selected(event):
                event["outputs"][place].update(self._save(result))

    def _save(self, result: Any) -> dict[str, Any]:
        self.bytes += int(result.nbytes)
        if self.bytes <= (self._limit if self._select == "all" else self._budget):
            return self._session.put(numbers_of(result))
        if self._select == "all":
            return {}
        raise JobFailed(
            f"the selected values take more than {self._budget} bytes",
            bytes=self.bytes,
            remedy="Ask for fewer values at a time.",
        )


def _moved(model: Model, leaves: dict[str, Any], seed: int | None) -> tuple[dict[str, Any], Any]:
    if seed is None:
        return leaves, model.loaded.parameters
    moved, names = perturb(leaves, int(seed))
    return moved, model.loaded.parameters if names else moved_parameters(model.loaded.parameters, int(seed))


@contextmanager
def _scopes(model: Model) -> Iterator[None]:
    with named_modules(model.loaded.classes) if model.loaded.kind == "nnx" else nullcontext():
        yield


def _event(index: int, step: Step, read: list[str]) -> Event:
    outputs = [
        {"dtype": dtype_name(each.aval), "shape": list(each.aval.shape)} if hasattr(each.aval, "dtype") else None
        for each in step.operation.outvars
    ]
    place = {"index": index, "key": step.key, "op": step.op, "module": step.module, "call": 0}
    return {**place, "source": step.source, "inputs": read, "outputs": outputs}


def _up_to_last(steps: list[Step], places: Mapping[str, Event], wanted: set[Any]) -> list[Step]:
    """The steps as far as any of them is wanted."""
    last = max((event["index"] for event in places.values() if wanted & {event["key"], event["index"]}), default=-1)
    return steps[: last + 1]
