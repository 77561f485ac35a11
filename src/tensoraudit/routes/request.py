"""What a route is asked to convert: plain data, filled by the probe that knows how models are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """One conversion of a model to ONNX.

    `model` is an `nn.Module`, `ScriptModule` or `ExportedProgram`, and `args` and `kwargs` call it; or a `tf.function`,
    and `args` are the specs of its arguments. `leaves` are the same
    arguments flat, by name and in the order of the call, and `refill` puts a flat sequence of the tensors among them
    back into (args, kwargs). `dynamic` maps a flat name to {axis: dimension name}; `dynamic_shapes` says the same in
    the structure of the arguments, as `torch.export` wants it; `output_axes` is the same for outputs. `weight_bytes` is
    the size of parameters and buffers.
    """

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leaves: Mapping[str, Any]
    refill: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]
    outputs: tuple[str, ...]
    path: str
    opset: int | None = None
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    dynamic_shapes: Mapping[str, Any] | None = None
    output_axes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    weight_bytes: int = 0

    @property
    def tensors(self) -> dict[str, Any]:
        """The tensors among the leaves."""
        return {name: leaf for name, leaf in self.leaves.items() if hasattr(leaf, "dtype")}
