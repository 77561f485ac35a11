"""pytorch.trace: all intermediate values of one eager run, or the selected ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.devices import device_of, pinned, seed_everything
from tensoraudit.probes.pytorch.forward import forward_error
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.perturbation import perturb_leaves, perturb_module
from tensoraudit.probes.pytorch.precision import DoublePrecision, to_double
from tensoraudit.probes.pytorch.recorder import EnoughError, Event, Recorder
from tensoraudit.probes.pytorch.run import widened
from tensoraudit.probes.pytorch.tensors import put

DEFAULT_BUDGET = 1 << 30
"""Bytes of saved tensors of one job, when the caller gives no budget."""


def trace(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model once and return its operators as events (see `recorder`).

    `select`: the indexes or keys of the events whose outputs are saved, or "all" (which saves no more once the budget
    is used up); None saves nothing and gives shapes and dtypes alone, so that the caller can plan chunks. `dtype`:
    "as_is" or "float64". `perturb`: a seed to move the inputs (the weights, if the inputs are integers) by one ULP
    first. `budget`: bytes that may be saved. `modules` maps each module path to its number of calls. PyTorch's fused
    path for attention is off here, so that single operators show. The run ends, and `events` with it, when all of a
    list of events is saved.

    Raises JobFailed when the model fails, or when the selection goes over the budget (`fitted` events did fit, `bytes`
    says where it stopped).
    """
    device = device_of(params.get("device", "cpu"))
    session.pack()
    with pinned(device.type) as settings, _single_operators():
        model = open_model(session, params["model"])
        store = _Store(session, params.get("select"), int(params.get("budget") or DEFAULT_BUDGET))
        recorder = Recorder(store.keep, store.complete)
        double = DoublePrecision() if params.get("dtype", "as_is") == "float64" else None
        module, leaves = _prepare(model, read_input(session, params["inputs"]), params, device)
        seed_everything(int(params.get("seed", 0)))
        try:
            _record(model, module, leaves, recorder, double)
        except Exception as problem:
            store.discard()
            if isinstance(problem, (_OverBudget, JobUnsupported)):
                raise
            error = forward_error(problem)
            raise JobFailed(
                f"the model fails while it is traced: {error['type']}: {error['message']}", source=error["source"]
            ) from problem
    calls = {event["module"]: event["call"] + 1 for event in recorder.events}
    return {
        "events": recorder.events,
        "modules": calls,
        "settings": {**settings, "attention_fast_path": False},
        "oracle_reason": "" if double is None else _reason(double),
        "bytes": store.bytes,
    }


def _reason(double: DoublePrecision) -> str:
    return f"not a true oracle: {next(iter(double.lossy))}" if double.lossy else ""


def _prepare(
    model: Model, leaves: dict[str, Any], params: Mapping[str, Any], device: torch.device
) -> tuple[torch.nn.Module, dict[str, Any]]:
    own = params.get("perturb") is not None or params.get("dtype", "as_is") == "float64" or device.type != "cpu"
    module = model.loaded.fresh(evaluate=True, share=not own).to(device)
    if params.get("perturb") is not None:
        seed = int(params["perturb"])
        leaves, names = perturb_leaves(leaves, seed)
        if not names:
            perturb_module(module, seed)
    if params.get("dtype", "as_is") == "float64":
        to_double(module)
        leaves = {name: widened(leaf) for name, leaf in leaves.items()}
    return module, {name: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf for name, leaf in leaves.items()}


def _record(
    model: Model, module: torch.nn.Module, leaves: dict[str, Any], recorder: Recorder, double: DoublePrecision | None
) -> None:
    call = model.signature.bind(leaves)
    if not isinstance(module, torch.jit.ScriptModule) and model.loaded.program is None:
        recorder.watch(module)
    with ExitStack() as modes:
        if double is not None:
            modes.enter_context(double)
        modes.enter_context(recorder)  # the inner mode sees an operator first, and its widened result
        with suppress(EnoughError):
            if model.loaded.program is not None and isinstance(module, torch.fx.GraphModule):
                recorder.interpret(module, call.args, call.kwargs)
            else:
                module(*call.args, **call.kwargs)


class _OverBudget(JobFailed):
    """The selection holds more bytes than allowed."""


class _Store:
    """Save what is selected, up to the budget."""

    def __init__(self, session: Session, select: list[Any] | str | None, budget: int) -> None:
        self.bytes = 0
        self._all = select == "all"
        self._session, self._select, self._budget = session, set() if self._all else set(select or ()), budget
        self._saved: list[dict[str, Any]] = []
        # The tensor itself is kept: its memory could be given to the next one otherwise.
        self._last: tuple[torch.Tensor, int, dict[str, Any]] | None = None
        self._events: set[int] = set()

    def keep(self, event: Event, tensor: torch.Tensor) -> dict[str, Any] | None:
        """Save one output of a selected event. Raises JobFailed over the budget."""
        if not self._all and event["index"] not in self._select and event["key"] not in self._select:
            return None
        if not tensor.numel():
            return None  # statistics that eval mode leaves empty
        if self._last is not None and _same(*self._last[:2], tensor):
            return self._last[2]  # a module's output is the tensor that its last operator made
        self.bytes += tensor.numel() * max(tensor.element_size(), 4 if tensor.is_floating_point() else 1)
        if self._all and self.bytes > self._budget:
            return None
        if self.bytes > self._budget:
            raise _OverBudget(
                f"the selected values take more than {self._budget} bytes; "
                f"{len(self._events)} of {len(self._select)} fitted",
                fitted=len(self._events),
                bytes=self.bytes,
                remedy="Ask for fewer values at a time.",
            )
        with torch.utils._python_dispatch._disable_current_modes():
            reference = put(self._session, tensor)
        self._last = (tensor, tensor._version, reference)
        self._saved.append(reference)
        self._events.add(event["index"])
        return reference

    def complete(self) -> bool:
        """Tell whether every event of a list is saved."""
        return bool(self._select) and len(self._events) == len(self._select)

    def discard(self) -> None:
        """Delete what was saved."""
        self._session.discard(self._saved)


def _same(last: torch.Tensor, version: int, tensor: torch.Tensor) -> bool:
    layout = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
    return (last.data_ptr(), last.shape, last.stride(), last.dtype) == layout and tensor._version == version


@contextmanager
def _single_operators() -> Iterator[None]:
    mha = torch.backends.mha
    if not hasattr(mha, "set_fastpath_enabled"):
        yield
        return
    before = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(before)
