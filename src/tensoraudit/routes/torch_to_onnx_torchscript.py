"""PyTorch to ONNX by `torch.onnx.export(dynamo=False)`: a TorchScript trace (or the script itself), translated."""

from __future__ import annotations

from typing import Any

from tensoraudit.routes.request import Request


def export(request: Request) -> dict[str, Any]:
    """Write the ONNX file and return the options used.

    1. The exporter's default mode (TrainingMode.EVAL) holds: it switches the model to eval itself.
    2. `verbose` is on because only then nodes carry the user's source line in their doc_string.
    3. The exporter passes arguments by position and fills in defaults, which breaks keyword-only arguments and
       decorated forwards (transformers). So the model is called through its tensors alone, with the other arguments
       bound; the names of its modules stay as they are. A script is called as it is.

    Raises whatever the exporter raises.
    """
    import torch

    options: dict[str, Any] = {
        "dynamo": False,
        "opset_version": request.opset,
        "dynamic_axes": {name: dict(axes) for name, axes in {**request.dynamic, **request.output_axes}.items()} or None,
        "training": "TrainingMode.EVAL",
        "do_constant_folding": True,
    }
    scripted = isinstance(request.model, torch.jit.ScriptModule)
    args = tuple(request.args) if scripted else tuple(request.tensors.values())
    names = _script_names(request) if scripted else list(request.tensors)
    if not scripted:
        _bind(request)
    torch.onnx.export(
        request.model,
        args,
        request.path,
        verbose=True,
        input_names=names,
        output_names=list(request.outputs),
        **{**options, "training": torch.onnx.TrainingMode.EVAL},
    )
    return options


def _script_names(request: Request) -> list[str]:
    """A script's numbers are graph inputs like its tensors, so they need names too."""
    return [name for name, leaf in request.leaves.items() if leaf is not None]


def _bind(request: Request) -> None:
    original = request.model.forward

    def forward(*tensors: Any) -> Any:
        args, kwargs = request.refill(tensors)
        return original(*args, **kwargs)

    request.model.forward = forward


def more(request: Request, problem: BaseException) -> BaseException | None:
    """This exporter's own exceptions say all that there is."""
    return None
