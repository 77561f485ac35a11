"""Differentiate a module: one forward, one backward, gradients by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from tensoraudit.probes.projection import INPUT, PARAMETER, weights_of
from tensoraudit.probes.pytorch.forward import Subject


@dataclass(frozen=True)
class Shared:
    """Parameters that are one and the same memory: all their names, and the tensor objects behind them."""

    names: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]

    @property
    def key(self) -> str:
        """What its gradient is called."""
        return PARAMETER + self.names[0]


def shared_parameters(module: torch.nn.Module) -> list[Shared]:
    """Return the parameters of a module, each memory once, in the module's order."""
    found: dict[Any, dict[str, torch.Tensor]] = {}
    for name, each in module.named_parameters(remove_duplicate=False):
        found.setdefault(_memory(each), {})[name] = each
    return [
        Shared(tuple(group), tuple({each._cdata: each for each in group.values()}.values())) for group in found.values()
    ]


def _memory(tensor: torch.Tensor) -> Any:
    if tensor.layout is not torch.strided or not tensor.numel():
        return tensor._cdata
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


@dataclass
class Pass:
    """One differentiation. `gradients` holds None where there is none."""

    scalar: float
    gradients: dict[str, torch.Tensor | None]
    outputs: dict[str, torch.Tensor]


def differentiate(
    subject: Subject,
    leaves: Mapping[str, Any],
    projection: Mapping[str, Any],
    seed: int,
    mode: AbstractContextManager[Any] | None = None,
) -> Pass:
    """Run forward and backward once. Raises whatever the model raises, and JobFailed for a projection that misfits."""
    wanted = sources(subject, leaves)
    every = [each for group in wanted.values() for each in group]
    given = {name: wanted[INPUT + name][0] if INPUT + name in wanted else leaf for name, leaf in leaves.items()}
    for each in every:
        each.grad = None
    try:
        with mode or nullcontext(), torch.enable_grad():
            outputs = subject.call(given, seed)
            scalar = project(outputs, projection)
            if scalar.requires_grad:
                scalar.backward()
        found = {key: _summed([each.grad for each in group]) for key, group in wanted.items()}
        return Pass(float(scalar.detach()), found, {name: each.detach() for name, each in outputs.items()})
    finally:
        for each in every:
            each.grad = None  # parameters of a large model are shared between its copies


def sources(subject: Subject, leaves: Mapping[str, Any]) -> dict[str, list[torch.Tensor]]:
    """Return what to differentiate for, by name: floating inputs as new tensors, and parameters that are trained."""
    inputs = {
        INPUT + name: [leaf.detach().clone().requires_grad_()] for name, leaf in leaves.items() if differentiates(leaf)
    }
    trained = {each.key: [t for t in each.tensors if t.requires_grad] for each in shared_parameters(subject.module)}
    return {**inputs, **{key: group for key, group in trained.items() if group}}


def differentiates(leaf: Any) -> bool:
    """Whether a leaf is a tensor that can have a gradient."""
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def project(outputs: Mapping[str, torch.Tensor], projection: Mapping[str, Any]) -> torch.Tensor:
    """Return the scalar: weights are widened to an output in double precision, narrower outputs to float32."""
    real = {name: torch.view_as_real(y) if y.is_complex() else y for name, y in outputs.items() if differentiates(y)}
    weights = weights_of({name: tuple(y.shape) for name, y in real.items()}, projection)
    parts = []
    for name, y in real.items():
        wide = y if y.dtype == torch.float64 else y.float()
        parts.append((wide * torch.from_numpy(weights[name]).to(wide.device, wide.dtype)).sum())
    return torch.stack([part.double() for part in parts]).sum()


def _summed(found: list[torch.Tensor | None]) -> torch.Tensor | None:
    """The gradient of one memory: that of all tensors which stand for it."""
    there = [each.detach() for each in found if each is not None]
    return sum(there[1:], there[0]) if there else None


def real_parts(key: str, tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """A gradient by name; a complex one as two, of its real and of its imaginary part."""
    if not tensor.is_complex():
        return [(key, tensor)]
    dense = tensor.to_dense() if is_sparse(tensor) else tensor.resolve_conj()
    return [(f"{key}.real", dense.real), (f"{key}.imag", dense.imag)]


def is_sparse(tensor: torch.Tensor) -> bool:
    """Whether a gradient names rows instead of holding them all."""
    return tensor.layout is not torch.strided


def is_exact(leaf: Any) -> bool:
    """Whether an input is a tensor that can have no gradient: integers, truth values."""
    return isinstance(leaf, torch.Tensor) and not differentiates(leaf)
