"""pytorch.parameters: every parameter and buffer with what it means, and every module with its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.call_recorder import Listener
from tensoraudit.probes.pytorch.devices import pinned, seed_everything
from tensoraudit.probes.pytorch.forward import forward_error
from tensoraudit.probes.pytorch.layers import parameter, settings
from tensoraudit.probes.pytorch.model import Model, open_model, read_input
from tensoraudit.probes.pytorch.tensors import dtype_name, put
from tensoraudit.routes.source import is_machinery, place

BUDGET = 512 << 20
"""Bytes of the modules' inputs and outputs that are saved, when the caller gives no budget."""


def parameters(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return the model's parameters in its own order, and its modules.

    A parameter is {"name", "shape", "dtype", "module": path, "class", "kind", "axes", "gates", "part", "cell"} (see
    `layers`), "also": its other names, "saved": whether a state_dict has it, and with `values` "tensor": its reference.
    A module is {"path", "class", "config", "source"}; with
    `inputs` (one sample) the model runs once in eval mode and modules come in the order of their calls, each with
    "calls" and with the tensors of its "inputs" and "outputs" (first inputs, last outputs) while `budget` lasts.
    Raises JobFailed when the model cannot be loaded or run.
    """
    session.pack()
    with pinned():
        model = open_model(session, params["model"])
        module = model.loaded.fresh(evaluate=True)
        rows = list(_rows(module))
        if params.get("values"):
            for row, tensor in rows:
                row["tensor"] = put(session, tensor)
        listed = {path: _module(path, each) for path, each in module.named_modules()}
        if params.get("inputs") is not None:
            listed = _run(model, module, session, params, listed)
    return {"parameters": [row for row, _ in rows], "modules": list(listed.values())}


def _rows(module: torch.nn.Module) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
    """A tied weight is listed once, under its first name, as torch itself lists it."""
    seen: dict[int, dict[str, Any]] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        own = [*owner.named_parameters(recurse=False), *owner.named_buffers(recurse=False)]
        for name, tensor in own:
            full = f"{path}.{name}" if path else name
            if tensor is None:
                continue
            if id(tensor) in seen:
                seen[id(tensor)]["also"].append(full)
                continue
            row: dict[str, Any] = {
                **{"name": full, "shape": list(tensor.shape), "also": []},
                **{"dtype": dtype_name(tensor.dtype), "module": path, "class": type(owner).__name__},
                **{"saved": name not in owner._non_persistent_buffers_set},
            }
            seen[id(tensor)] = {**row, **parameter(owner, name)}
            yield seen[id(tensor)], tensor


def _module(path: str, module: torch.nn.Module) -> dict[str, Any]:
    return {
        "path": path,
        "class": type(module).__name__,
        "config": settings(module),
        "source": _defined(type(module)),
        "leaf": not any(True for _ in module.children()),
    }


def _defined(kind: type) -> dict[str, Any] | None:
    """Where a class of the user's begins; None for the framework's own."""
    try:
        path, (_, line) = inspect.getsourcefile(kind), inspect.getsourcelines(kind)
    except (TypeError, OSError):
        return None
    return None if not path or is_machinery(path) else place(str(Path(path).resolve()), line)


def _run(
    model: Model, module: torch.nn.Module, session: Session, params: Mapping[str, Any], listed: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    if isinstance(module, torch.jit.ScriptModule) or model.loaded.program is not None:
        raise JobUnsupported("a compiled program does not call its modules one by one")
    listener = Listener(session, int(params.get("budget") or BUDGET), listed)
    listener.watch(module)
    call = model.signature.bind(read_input(session, params["inputs"]))
    seed_everything(int(params.get("seed", 0)))
    try:
        module(*call.args, **call.kwargs)
    except Exception as problem:
        error = forward_error(problem)
        raise JobFailed(f"the model fails: {error['type']}: {error['message']}", source=error["source"]) from problem
    return listener.finish()
