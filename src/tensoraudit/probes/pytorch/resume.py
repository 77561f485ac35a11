"""pytorch.resume: one run of a resume test of a PyTorch program."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tensoraudit.probes.protocol import Session
from tensoraudit.probes.pytorch.devices import pinned, seed_everything
from tensoraudit.probes.pytorch.memory import snapshot
from tensoraudit.probes.resume import follow
from tensoraudit.probes.resume_program import open_program
from tensoraudit.probes.resume_state import Kinds, Part

Put = Callable[[Any], None]


def resume(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run a training program; parameters and result are those of `probes.resume`. Raises JobFailed."""
    with pinned():
        torch.set_grad_enabled(True)
        seed_everything(int(params.get("seed", 0)))  # before the import, which may draw numbers
        return follow(open_program(params, "pytorch"), params, session, KINDS)


def _array(value: Any) -> np.ndarray[Any, Any] | None:
    """A tensor's words; of types that numpy lacks as plain integers, which is enough to compare them."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    held = value.detach().cpu().contiguous()
    try:
        return np.asarray(held.numpy())
    except TypeError:
        return np.asarray(held.view(torch.uint8 if held.element_size() == 1 else torch.int16).numpy())


def _part(name: str, value: Any, put: Put) -> Part | None:
    if isinstance(value, torch.nn.Module):
        return Part(name, "model", lambda: _read_module(value), lambda new: _give_module(value, new))
    if isinstance(value, torch.Generator):
        return Part(name, "generator", value.get_state, value.set_state)
    if isinstance(value, torch.Tensor):
        return Part(name, "value", lambda: value.detach().clone(), lambda new: _give_tensor(value, new, put))
    kind = next((kind for kind, types in _STATEFUL.items() if isinstance(value, types)), None)
    if kind is None:
        return None
    return Part(
        name,
        kind,
        lambda: copy.deepcopy(value.state_dict()),
        lambda new: value.load_state_dict(copy.deepcopy(new)),
    )


_STATEFUL: dict[str, tuple[type, ...]] = {
    "optimizer": (torch.optim.Optimizer,),
    "scheduler": (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau),
    "scaler": (torch.amp.GradScaler,),
}


def _read_module(module: torch.nn.Module) -> dict[str, Any]:
    """Everything that a module remembers: parameters, buffers of both kinds, and plain attributes."""
    parameters = {name: each.detach().clone() for name, each in module.named_parameters()}
    modes = {name: each.training for name, each in module.named_modules()}
    return {**parameters, **snapshot(module), "training": modes}


def _give_module(module: torch.nn.Module, new: Mapping[str, Any]) -> None:
    """Put tensors back in place, so that an optimiser still holds them, and plain attributes where they stood."""
    inner = dict(module.named_modules())
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    with torch.no_grad():
        for name, value in new.items():
            if name in tensors and isinstance(value, torch.Tensor) and tensors[name].shape == value.shape:
                tensors[name].copy_(value)
            elif name not in tensors and name != "training":
                _give_attribute(inner, name, value)
    for name, mode in new["training"].items():
        if name in inner:
            inner[name].training = mode


def _give_attribute(inner: Mapping[str, torch.nn.Module], name: str, value: Any) -> None:
    path, _, attribute = name.rpartition(".")
    owner = inner.get(path)
    if owner is not None and attribute in vars(owner):
        setattr(owner, attribute, copy.deepcopy(value))


def _give_tensor(value: torch.Tensor, new: torch.Tensor, put: Put) -> None:
    if value.shape == new.shape and value.dtype == new.dtype:
        with torch.no_grad():
            value.copy_(new)
    else:
        put(new.clone())


def _generators() -> list[Part]:
    found = [Part("rng.torch", "rng", torch.get_rng_state, torch.set_rng_state)]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found.append(Part("rng.cuda", "rng", torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all))
    return found


def _clone(value: Any) -> torch.Tensor | None:
    return value.detach().clone() if isinstance(value, torch.Tensor) else None


def _is_shared(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad


def _write(value: Any, path: Path) -> None:
    torch.save(value, path)


def _read(path: Path) -> Any:
    """Read what `_write` wrote in this run: our own file in the run folder, so its pickle is ours too."""
    return torch.load(path, weights_only=False)


KINDS = Kinds(_array, _clone, _is_shared, _part, lambda name: "value", _generators, _write, _read)
