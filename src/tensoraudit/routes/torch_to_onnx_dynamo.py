"""PyTorch to ONNX by `torch.onnx.export(dynamo=True)`: torch.export, decomposition, ONNX translation, optimiser."""

from __future__ import annotations

from typing import Any

from tensoraudit.routes.request import Request
from tensoraudit.routes.source import chain

EXTERNAL_DATA_ABOVE = 1_500_000_000
"""Bytes of weights above which they go beside the file: protobuf ends at 2 GiB, and the graph needs room too."""


def export(request: Request) -> dict[str, Any]:
    """Write the ONNX file and return the options used.

    Dynamic dimensions are asked for by name (a string), not as `torch.export.Dim`: with a `Dim` the exporter falls back
    to a fixed size without a word (torch 2.13), with a name it refuses. An ExportedProgram has its dimensions already.
    Raises whatever the exporter raises.
    """
    import torch

    program = isinstance(request.model, torch.export.ExportedProgram)
    options: dict[str, Any] = {
        "dynamo": True,
        "opset_version": request.opset,
        "external_data": request.weight_bytes > EXTERNAL_DATA_ABOVE,
        "dynamic_shapes": None if program else request.dynamic_shapes,
        "optimize": True,
    }
    torch.onnx.export(
        request.model,
        _args(request),
        request.path,
        kwargs=dict(request.kwargs) or None,
        verbose=False,
        input_names=list(request.tensors),
        output_names=list(request.outputs),
        **options,
    )
    return options


def _args(request: Request) -> tuple[Any, ...]:
    """The exporter takes a dict in the last place for keyword arguments, unless an empty one follows."""
    swallowed = not request.kwargs and request.args and isinstance(request.args[-1], dict)
    return (*request.args, {}) if swallowed else tuple(request.args)


def more(request: Request, problem: BaseException) -> BaseException | None:
    """Return what else can be learnt about a failure.

    torch.export refuses TorchScript in general and points to PyTorch's converter; what that one stops at is the better
    answer. A converter that gets through is told by an exception too, so that both answers take the same road.
    """
    if "Exporting a ScriptModule is not supported" not in "".join(map(str, chain(problem))):
        return None
    try:
        from torch._export.converter import TS2EPConverter

        TS2EPConverter(request.model, tuple(request.args), dict(request.kwargs)).convert()
    except Exception as stop:
        return stop
    return RuntimeError("TS2EPConverter succeeded")
