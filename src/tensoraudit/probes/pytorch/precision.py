"""Run a model in double precision: an oracle for the same model and the same weights.

`module.double()` alone is not enough: forwards cast (`.float()`), ask for dtypes by name and make constants. So every
operator is seen on its way, and every narrower floating dtype in its arguments becomes float64 (complex64: complex128).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from tensoraudit.probes.pytorch.modes import EagerMode
from tensoraudit.probes.pytorch.tensors import dtype_name
from tensoraudit.routes.source import Place, frame_place

WIDE: dict[torch.dtype, torch.dtype] = {
    **{
        getattr(torch, name): torch.float64
        for name in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
        if hasattr(torch, name)
    },
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}


class NotAnOracle(Exception):  # noqa: N818 - a state of knowledge, not a fault
    """Double precision would not mean the same here, or is not kept; the text says why."""


class DoublePrecision(EagerMode):
    """Run everything inside in double precision.

    `lossy` collects operators that give a narrower result all the same, `random` those that draw random numbers, each
    with the user's line. Raises NotAnOracle where widening would change the meaning.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lossy: dict[str, Place | None] = {}
        self.random: dict[str, Place | None] = {}

    def __enter__(self) -> DoublePrecision:
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(self._default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _check(func, args, kwargs or {})
        wide_args, wide_kwargs = tree_map(_widen, (tuple(args), dict(kwargs or {})))
        if _draws(func, args, kwargs or {}):
            self.random.setdefault(str(func), frame_place())
        result = func(*wide_args, **wide_kwargs)
        narrow = [each for each in _tensors(result) if each.dtype in WIDE]
        if narrow:
            self.lossy.setdefault(f"{func} gives {dtype_name(narrow[0].dtype)}", frame_place())
        return result


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(WIDE[value.dtype]) if value.dtype in WIDE else value
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _tensors(value: Any) -> list[torch.Tensor]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return [each for each in found if isinstance(each, torch.Tensor)]


_QUIET = {"dropout_p": 0.0, "train": False, "training": False}
"""Arguments with which an operator that may draw random numbers draws none."""


def _draws(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    given = {
        argument.name: args[index] if index < len(args) else kwargs.get(argument.name, argument.default_value)
        for index, argument in enumerate(func._schema.arguments)
        if argument.name in _QUIET
    }
    return not any(value == _QUIET[name] for name, value in given.items())


def _check(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if func is torch.ops.aten.view.dtype:
        raise NotAnOracle("the model reinterprets the bits of a tensor (view with a dtype)")
    if not func._schema.is_mutable:
        return
    for index, argument in enumerate(func._schema.arguments):
        written = argument.alias_info is not None and argument.alias_info.is_write
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        if written and any(each.dtype in WIDE for each in _tensors(value)):
            raise NotAnOracle(
                f"{func} writes into a {dtype_name(_tensors(value)[0].dtype)} tensor that was made outside of torch"
            )


def to_double(module: torch.nn.Module) -> None:
    """Turn parameters, buffers and tensor attributes into double precision, in place."""
    module.double()
    if isinstance(module, torch.jit.ScriptModule):
        return
    for inner in module.modules():
        for name, value in list(vars(inner).items()):
            if isinstance(value, torch.Tensor) and value.dtype in WIDE:
                inner.__dict__[name] = value.to(WIDE[value.dtype])
