"""What the converters of ONNX files know of its operators: `Conv`, of another domain `com.microsoft::Gelu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_DEFAULT_OPSET = 18


def onnx2torch(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a converter for the version that the opset has. Raises ImportError."""
    from tensoraudit.routes.onnx_to_torch_onnx2torch import torchvision_stand_in

    with torchvision_stand_in():
        import onnx2torch.node_converters  # noqa: F401 - registers them
    from onnx2torch.node_converters import registry

    return {op for op in operators if _converter(registry, op, opsets)}


def _converter(registry: Any, op: str, opsets: Mapping[str, int]) -> bool:
    domain, _, name = op.rpartition("::")
    try:
        registry.get_converter(name, int(opsets.get(domain, _DEFAULT_OPSET if not domain else 1)), domain)
    except NotImplementedError:
        return False
    return True


def onnx2tf(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a module of their name, whatever their domain. The package itself is not imported: that would load
    TensorFlow. Raises ImportError."""
    spec = find_spec("onnx2tf")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("onnx2tf is not installed")
    files = Path(next(iter(spec.submodule_search_locations)), "ops").glob("*.py")
    known = {each.stem for each in files}
    return {op for op in operators if op.rpartition("::")[2] in known}
