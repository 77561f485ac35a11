"""pytorch.trace: all intermediate values of one eager run, or the selected ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch

from tensoraudit.probes.fingerprint import fingerprint
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.devices import device_of, pinned, seed_everything
from tensoraudit.probes.pytorch.forward import forward_error
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.outputs import name_outputs
from tensoraudit.probes.pytorch.perturbation import perturb_leaves, perturb_module
from tensoraudit.probes.pytorch.precision import DoublePrecision, to_double
from tensoraudit.probes.pytorch.recorder import EnoughError, Event, Recorder
from tensoraudit.probes.pytorch.run import widened
from tensoraudit.probes.pytorch.tensors import put, to_array

DEFAULT_BUDGET = 1 << 30
"""Bytes of saved tensors of one job, when the caller gives no budget."""


def trace(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model once and return its operators as events (see `recorder`).

    `select`: the indexes or keys of the events whose outputs are saved, or "all" (of which `limit` bytes are saved,
    where given, else `budget`); None saves nothing and gives shapes and dtypes alone, so that the caller can plan
    chunks. `dtype`: "as_is" or "float64". `perturb`: a seed to move the inputs (the weights, if the inputs are
    integers) by one ULP first. `budget`: bytes that may be saved. `fingerprints`: True adds a "print" (see
    `fingerprint`) to each output that depends on the model's inputs. `outputs` names the value of each of the model's
    outputs, unless the run ended early. `modules` maps each module path to its number of calls. PyTorch's fused path
    for attention is off here, so that single operators show. The run ends, and `events` with it, when all of a list of
    events is saved.

    Raises JobFailed when the model fails, or when the selection goes over the budget (`fitted` events did fit, `bytes`
    says where it stopped).
    """
    device = device_of(params.get("device", "cpu"))
    session.pack()
    with pinned(device.type) as settings, _single_operators():
        model = open_model(session, params["model"])
        budget = DEFAULT_BUDGET if params.get("budget") is None else int(params["budget"])
        budget = budget if params.get("limit") is None else int(params["limit"])
        store = _Store(session, params.get("select"), budget, fingerprints=bool(params.get("fingerprints")))
        recorder = Recorder(store.keep, store.complete)
        double = DoublePrecision() if params.get("dtype", "as_is") == "float64" else None
        module, leaves = _prepare(model, read_input(session, params["inputs"]), params, device)
        seed_everything(int(params.get("seed", 0)))
        try:
            outputs = _record(model, module, leaves, recorder, double)
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
        "outputs": outputs,
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
) -> dict[str, str]:
    recorder.feed(leaves)
    call = model.signature.bind(leaves)
    result: Any = None
    if not isinstance(module, torch.jit.ScriptModule) and model.loaded.program is None:
        recorder.watch(module)
    with ExitStack() as modes:
        if double is not None:
            modes.enter_context(double)
        modes.enter_context(recorder)  # the inner mode sees an operator first, and its widened result
        with suppress(EnoughError):
            if model.loaded.program is not None and isinstance(module, torch.fx.GraphModule):
                result = recorder.interpret(module, call.args, call.kwargs)
            else:
                result = module(*call.args, **call.kwargs)
    return {} if result is None else recorder.outputs(name_outputs(result))


class _OverBudget(JobFailed):
    """The selection holds more bytes than allowed."""


class _Store:
    """Save what is selected, up to the budget, and take the fingerprint of everything if asked to."""

    def __init__(
        self, session: Session, select: list[Any] | str | None, budget: int, *, fingerprints: bool = False
    ) -> None:
        self.bytes = 0
        self._fingerprints = fingerprints
        self._all = select == "all"
        self._session, self._select, self._budget = session, set() if self._all else set(select or ()), budget
        self._saved: list[dict[str, Any]] = []
        # The tensor itself is kept: its memory could be given to the next one otherwise.
        self._last: tuple[torch.Tensor, int] | None = None
        self._print: dict[str, Any] = {}
        self._reference: dict[str, Any] | None = None
        self._events: set[int] = set()

    def keep(self, event: Event, tensor: torch.Tensor) -> dict[str, Any] | None:
        """Return what is known of one output beyond its shape. Raises JobFailed over the budget."""
        if not tensor.numel():
            return None  # statistics that eval mode leaves empty
        if self._last is None or not _same(*self._last, tensor):  # a module's output is what its last operator made
            self._last, self._print, self._reference = (tensor, tensor._version), {}, None
        if self._fingerprints and event["inputs"] and not self._print:
            self._print = _print_of(tensor)
        if self._all or event["index"] in self._select or event["key"] in self._select:
            self._reference = self._reference or self._save(event, tensor)
            return {**self._print, **(self._reference or {})}
        return self._print

    def _save(self, event: Event, tensor: torch.Tensor) -> dict[str, Any] | None:
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
        self._saved.append(reference)
        self._events.add(event["index"])
        return reference

    def complete(self) -> bool:
        """Tell whether every event of a list is saved."""
        return bool(self._select) and len(self._events) == len(self._select)

    def discard(self) -> None:
        """Delete what was saved."""
        self._session.discard(self._saved)


def _print_of(tensor: torch.Tensor) -> dict[str, Any]:
    with torch.utils._python_dispatch._disable_current_modes(), suppress(JobUnsupported):
        return {"print": fingerprint(to_array(tensor)[0])}
    return {}


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
