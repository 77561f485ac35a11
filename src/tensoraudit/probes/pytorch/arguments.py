"""The arguments of a PyTorch module's forward, from its schema when it is a script."""

from __future__ import annotations

from typing import Any

import torch

from tensoraudit.probes import calls
from tensoraudit.probes.calls import Argument, Call, Signature, children, containers_of, flatten, unflatten

__all__ = ["Argument", "Call", "Signature", "children", "containers_of", "flatten", "signature_of", "unflatten"]


def signature_of(module: torch.nn.Module) -> Signature:
    """Read the arguments of a module's forward, from the schema when it is a script."""
    if isinstance(module, torch.jit.ScriptModule):
        return _script_signature(module)
    return calls.signature_of(module.forward)


def _script_signature(module: Any) -> Signature:
    arguments = (
        module.forward.schema.arguments[1:]
        if hasattr(module.forward, "schema")
        else module._c._get_method("forward").schema.arguments[1:]
    )
    found = tuple(Argument(each.name, not each.has_default_value(), str(each.type)) for each in arguments)
    lists = {each.name: "list" for each in arguments if str(each.type).startswith(("List[", "Optional[List["))}
    return Signature(found, lists)
