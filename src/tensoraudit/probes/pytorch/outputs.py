"""Name the tensors that a model returns: `output` for one tensor, `output.0`, `output.logits` in containers."""

from __future__ import annotations

from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.arguments import flatten

ROOT = "output"


def name_outputs(value: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a result by name, in order. None is left out (a ModelOutput's empty fields); numbers, which
    the exporters drop or freeze, are left out too.

    `left_out` says which. Raises JobFailed when there is no tensor at all.
    """
    found = {name: leaf for name, leaf in flatten(value, ROOT) if isinstance(leaf, torch.Tensor)}
    if not found:
        raise JobFailed(
            f"the model returns a {type(value).__name__} without any tensor, so there is nothing to compare",
            remedy="Return tensors from forward, alone or in tuples, lists, dicts or dataclasses.",
        )
    return found


def left_out(value: Any) -> dict[str, str]:
    """Return the class of each value in a result that is no tensor, by name: nothing compares these. None is none."""
    leaves = flatten(value, ROOT)
    return {name: type(leaf).__name__ for name, leaf in leaves if not isinstance(leaf, (torch.Tensor, type(None)))}
