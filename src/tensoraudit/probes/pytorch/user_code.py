"""Import the user's own Python and find the model in it, as PyTorch names one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from tensoraudit.probes import user_code
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.user_code import add_code

__all__ = ["add_code", "find", "import_file", "import_module", "user_error"]


def import_file(path: str) -> ModuleType:
    """Import a Python file. Raises JobFailed with the line at which its import stops."""
    return user_code.import_file(path, "pytorch")


def import_module(name: str) -> ModuleType:
    """Import an installed or findable module. Raises JobFailed with the line at which its import stops."""
    return user_code.import_module(name, "pytorch")


def user_error(problem: BaseException, what: str, remedy: str = "") -> JobFailed:
    """Return the failure that an exception in the user's code makes: what, where, and what to do."""
    return user_code.user_error(problem, what, "pytorch", remedy)


def find(module: ModuleType, attribute: str, what: str) -> Any:
    """Return a (dotted) attribute. Raises JobFailed listing what the module has instead."""
    return user_code.find(module, attribute, what, _is_model)


def _is_model(value: Any) -> bool:
    return issubclass(value, torch.nn.Module) if isinstance(value, type) else isinstance(value, torch.nn.Module)
