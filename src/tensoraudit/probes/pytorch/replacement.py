"""Put other weights into a loaded model: the key `weights` of a model spec, {"weights": {name: reference}}."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.tensors import get


def with_weights(loaded: Loaded, weights: Mapping[str, Any], session: Session) -> Loaded:
    """Return the model with the named parameters and buffers replaced; the object that the user named stays as it is.

    Raises JobFailed for a name that the model lacks or another shape, JobUnsupported for a compiled program.
    """
    if loaded.program is not None or isinstance(loaded.module, torch.jit.ScriptModule):
        raise JobUnsupported("weights can be put into modules only, not into a compiled program")
    tensors = {name: get(session, reference) for name, reference in weights.items()}

    def reload() -> torch.nn.Module:
        return _replaced(loaded.reload(), tensors)

    try:
        module = _replaced(copy.deepcopy(loaded.module), tensors)
    except (RuntimeError, TypeError):  # locks, tensors with history: what cannot be copied can be made again
        module = reload()
    return replace(loaded, module=module, reload=reload)


def _replaced(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in tensors.items():
        if name not in own:
            raise JobFailed(f"the model has no parameter {name!r} to put a weight into")
        if own[name].shape != tensor.shape:
            raise JobFailed(f"{name} is {list(own[name].shape)}, the weight for it is {list(tensor.shape)}")
        with torch.no_grad():
            own[name].copy_(tensor)
    return module
