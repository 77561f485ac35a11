"""Load models from the user's Python: a module instance, a module class, or a function that returns a module."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.loaded import Loaded, Spec, remember
from tensoraudit.probes.pytorch.model_files import trains
from tensoraudit.probes.pytorch.user_code import find, import_file, import_module, user_error
from tensoraudit.probes.pytorch.weights import load_weights
from tensoraudit.probes.user_code import needs


def load_python_object(spec: Spec) -> Loaded:
    """Load `file.py:name` or `package.module:name`, and a file of weights into it when the spec names one.

    Raises JobFailed when the code cannot be imported or run, needs arguments, or gives no module.
    """
    home = import_file(spec["path"]) if spec.get("path") else import_module(str(spec.get("module")))
    what = Path(spec["path"]).name if spec.get("path") else str(spec.get("module"))
    attribute = str(spec.get("attribute") or "")
    factory = find(home, attribute, what)

    def make() -> torch.nn.Module:
        seed_everything(int(spec.get("seed") or 0))  # again, because a copy may be made this way later
        module = _build(factory, f"{what}:{attribute}")
        if spec.get("state_dict"):
            load_weights(module, spec["state_dict"], key=spec.get("state_key"), trust=bool(spec.get("trust")))
        return module

    if isinstance(factory, torch.export.ExportedProgram):
        return Loaded(factory.module(), trains(factory), factory.module, program=factory, home=home, factory=factory)
    if isinstance(factory, torch.nn.Module) and not spec.get("state_dict"):
        return Loaded(factory, bool(factory.training), lambda: _no_copy(what, attribute), home=home, factory=factory)
    return remember(make, home=home, factory=factory)


def _no_copy(what: str, attribute: str) -> torch.nn.Module:
    raise JobFailed(
        f"{what}:{attribute} is a model that cannot be copied, so its state cannot be put back between runs",
        remedy="Write a function that builds it, and name that function.",
    )


def _build(factory: Any, what: str) -> torch.nn.Module:
    """Make the module: an instance is copied, a class or function is called without arguments."""
    if isinstance(factory, torch.nn.Module):
        return copy.deepcopy(factory)
    if not callable(factory):
        raise JobFailed(
            f"{what} is a {type(factory).__name__}, not a module, a module class or a function that returns one",
            remedy="Name one of these after the colon.",
        )
    try:
        module = factory()
    except (Exception, SystemExit) as problem:
        needed = needs(factory)
        if needed:
            raise JobFailed(
                f"{what} needs arguments: {', '.join(needed)}",
                remedy="Write a function without arguments that builds the model with the right ones, and name it.",
            ) from problem
        raise user_error(problem, f"{what} cannot build the model") from problem
    if isinstance(module, torch.nn.Module):
        return module
    raise JobFailed(
        f"{what} returns a {type(module).__name__}, not a torch.nn.Module", remedy="Return the model itself from it."
    )
