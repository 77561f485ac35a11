"""Move inputs or weights by one unit in the last place (ULP), up or down at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def perturb_leaves(leaves: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], list[str]]:
    """Return the leaves with every floating tensor moved, and the names of those that moved.

    Integers stay, and so do tensors that hold only 0 and 1: they are masks, and code compares them.
    """
    draws = np.random.default_rng(seed)
    moved = {
        name: move(leaf, draws)
        for name, leaf in leaves.items()
        if isinstance(leaf, torch.Tensor) and _moves(leaf) and not _is_mask(leaf)
    }
    return {**leaves, **moved}, list(moved)


def perturb_module(module: torch.nn.Module, seed: int) -> None:
    """Move every floating parameter in place, for models whose inputs are integers only."""
    draws = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if _moves(parameter):
                parameter.copy_(move(parameter.detach(), draws))


def _moves(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _is_mask(tensor: torch.Tensor) -> bool:
    return bool(((tensor == 0) | (tensor == 1)).all())


def move(tensor: torch.Tensor, draws: np.random.Generator) -> torch.Tensor:
    """Return a tensor whose elements are each one ULP up or down, of a complex number both parts.

    IEEE formats order their bit patterns like their values, so one ULP is one step of the integer with the same bits.
    Zeros stay (their neighbours are denormal), and so do infinities and NaN (an additive mask must stay one) and the
    largest finite number (it must not become infinite).
    """
    if tensor.is_complex():
        parts = torch.view_as_real(tensor.detach().resolve_conj())
        return torch.view_as_complex(move(parts, draws).contiguous())
    plain = tensor.detach().cpu().reshape(-1)
    integer = _INTEGERS[plain.element_size()]
    # numpy, because one thread is faster here than waiting for all of torch's at each of these short steps.
    values = plain.view(integer).numpy()
    largest = int(torch.tensor(torch.finfo(plain.dtype).max, dtype=plain.dtype).view(integer))
    magnitude = values & torch.iinfo(integer).max
    steps = _signs(plain.numel(), draws)
    steps[(magnitude == 0) | (magnitude >= largest)] = 0
    return torch.from_numpy(values + steps).view(plain.dtype).reshape(tensor.shape).to(tensor.device)


def _signs(count: int, draws: np.random.Generator) -> np.ndarray[Any, Any]:
    bits = np.unpackbits(np.frombuffer(draws.bytes((count + 7) // 8), np.uint8), count=count)
    return bits.view(np.int8) * np.int8(2) - np.int8(1)
