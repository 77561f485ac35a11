"""`onnxruntime.describe`: the signature of a model as ONNX Runtime itself reads it."""

from __future__ import annotations

from typing import Any

from tensoraudit.probes.onnxruntime.model_file import default_opset, load_structure
from tensoraudit.probes.onnxruntime.session import PROVIDERS, Opened, Settings, open_file
from tensoraudit.probes.onnxruntime.tensors import element_of
from tensoraudit.probes.protocol import JobUnsupported, Session


def describe(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Return inputs, outputs, opset and what a real session got per requested provider.

    A dtype is None with the runtime's own `type` beside it where it cannot be carried. Raises JobFailed when the model
    does not load on the CPU.
    """
    path = params["path"]
    opened = open_file(path, Settings(), session)
    model = load_structure(path, session)
    return {
        "inputs": [_argument(each) for each in opened.runtime.get_inputs()],
        "outputs": [_argument(each) for each in opened.runtime.get_outputs()],
        "opset": default_opset(model),
        "opsets": {entry.domain: entry.version for entry in model.opset_import},
        "ir_version": model.ir_version,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "providers": [_provider(path, name, opened, session) for name in params.get("requested") or PROVIDERS],
        "loads": True,
    }


def _argument(argument: Any) -> dict[str, Any]:
    shape = [size if isinstance(size, int) else (size or None) for size in argument.shape]
    return {"name": argument.name, "dtype": element_of(argument.type), "type": argument.type, "shape": shape}


def _provider(path: str, name: str, opened: Opened, session: Session) -> dict[str, Any]:
    try:
        held = opened if name == "cpu" else open_file(path, Settings(provider=name), session)
    except JobUnsupported as refusal:
        return {"requested": name, "active": [], "reason": refusal.message}
    return {"requested": name, "active": held.settings["providers"], "reason": ""}
