"""Find which dimensions of the outputs vary with the inputs', by running the reference at other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.pytorch.forward import Subject, forward_error
from tensoraudit.probes.pytorch.model import Model

Dynamic = Mapping[str, Mapping[int, str]]
"""Flat name -> axis -> name of the dimension."""


def output_axes(model: Model, leaves: dict[str, Any], dynamic: Dynamic) -> dict[str, dict[int, str]]:
    """The outputs by name, with those of their dimensions that vary with the inputs'.

    What the reference cannot run, no exporter can trace: raises JobFailed.
    """
    subject = Subject(model.loaded, model.signature, torch.device("cpu"))
    try:
        shapes = {name: tuple(tensor.shape) for name, tensor in subject.call(leaves, 0).items()}
    except Exception as problem:
        error = forward_error(problem)
        raise JobFailed(
            f"the model itself fails on these inputs: {error['type']}: {error['message']}",
            stage="run",
            source=error["source"],
            remedy="Give inputs that the model takes.",
        ) from problem
    found: dict[str, dict[int, str]] = {name: {} for name in shapes}
    for label in dict.fromkeys(label for axes in dynamic.values() for label in axes.values()):
        for name, axis in _moved_axes(subject, longer(leaves, dynamic, label), shapes):
            found[name].setdefault(axis, label if len(_sizes(leaves, dynamic, label)) == 1 else f"{name}_{axis}")
    return found


def _moved_axes(
    subject: Subject, leaves: dict[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> list[tuple[str, int]]:
    """The output dimensions that change with these inputs; none when the model does not take them."""
    try:
        outputs = subject.call(leaves, 0)
    except Exception:
        return []
    pairs = [(name, tuple(tensor.shape), shapes.get(name, ())) for name, tensor in outputs.items()]
    return [
        (name, axis)
        for name, new, old in pairs
        if len(new) == len(old)
        for axis in range(len(new))
        if new[axis] != old[axis]
    ]


def longer(leaves: Mapping[str, Any], dynamic: Dynamic, label: str) -> dict[str, Any]:
    """Return the inputs with one named dimension longer by one; the new entry repeats the first: ids stay valid."""
    result = dict(leaves)
    for name, axes in dynamic.items():
        for axis, each in axes.items():
            tensor = result.get(name)
            if each == label and isinstance(tensor, torch.Tensor) and axis < tensor.dim() and tensor.shape[axis]:
                result[name] = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
    return result


def _sizes(leaves: Mapping[str, Any], dynamic: Dynamic, label: str) -> set[int]:
    return {
        int(leaves[name].shape[axis])
        for name, axes in dynamic.items()
        for axis, each in axes.items()
        if each == label and isinstance(leaves.get(name), torch.Tensor)
    }
