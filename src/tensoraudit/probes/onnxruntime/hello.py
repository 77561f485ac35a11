"""What this interpreter's ONNX Runtime is and can do: asked from a real session, not from its list of providers."""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata
from typing import Any

from tensoraudit.probes.onnxruntime.session import Settings, open_bytes
from tensoraudit.probes.protocol import JobFailed, JobUnsupported

PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "protobuf", "ml-dtypes")
FAMILY = re.compile(r"onnxruntime(-gpu|-directml|-openvino|-qnn|-training|-rocm|-silicon)?")
"""Distributions that all install the one package `onnxruntime`."""


def hello() -> dict[str, Any]:
    """Import the runtime and return version, devices and packages. Raises ImportError when a part is missing.

    `conflict` says that several distributions overwrote each other's files; `inactive` says why CUDA is not a device.
    """
    import onnx  # noqa: F401  (every job reads models with it, so a worker without it is no worker)
    import onnxruntime

    packages = installed_packages()
    devices, inactive = find_devices()
    answer: dict[str, Any] = {
        "framework": "onnxruntime",
        "version": onnxruntime.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "devices": devices,
        "packages": packages,
        "compiled_providers": list(onnxruntime.get_available_providers()),
    }
    if inactive:
        answer["inactive"] = inactive
    conflict = find_conflict(packages)
    return {**answer, "conflict": conflict} if conflict else answer


def installed_packages() -> dict[str, str]:
    """Return the versions of the distributions that matter here, under their normalised names."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = normalise(distribution.metadata["Name"] or "")
        if name in PACKAGES or FAMILY.fullmatch(name):
            found.setdefault(name, distribution.version)
    return dict(sorted(found.items()))


def normalise(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_conflict(packages: dict[str, str]) -> str:
    """Return what is wrong when several distributions of ONNX Runtime are installed side by side, else ""."""
    family = sorted(f"{name} {version}" for name, version in packages.items() if FAMILY.fullmatch(name))
    if len(family) < 2:
        return ""
    return (
        f"{' and '.join(family)} are installed side by side and overwrite each other's files; "
        "uninstall all of them, then install the one you need"
    )


def find_devices() -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return the devices on which a one-node session really ran, and why the others are not there."""
    devices = [{"kind": "cpu", "name": platform.processor() or platform.machine()}]
    inactive: dict[str, str] = {}
    try:
        open_bytes(one_node(), None, Settings(provider="cuda"))
        devices.append({"kind": "cuda", "name": cuda_name()})
    except (JobFailed, JobUnsupported) as refusal:
        inactive["cuda"] = refusal.message
    return devices, inactive


def one_node() -> bytes:
    """Return the smallest model worth a session: y = Relu(x), readable by every ONNX Runtime since 1.10."""
    import onnx
    from onnx import helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "hello",
        [value("x", onnx.TensorProto.FLOAT, [3])],
        [value("y", onnx.TensorProto.FLOAT, [3])],
    )
    # The helper stamps the newest versions it knows, which a runtime may not read yet.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def cuda_name() -> str:
    """Return the name of the CUDA device as the runtime knows it, or "cuda"."""
    import onnxruntime

    devices = onnxruntime.get_ep_devices() if hasattr(onnxruntime, "get_ep_devices") else ()
    for entry in devices:
        if entry.ep_name.startswith("CUDA"):
            facts = dict(entry.device.metadata)
            return facts.get("Description") or facts.get("name") or str(entry.device.vendor) or "cuda"
    return "cuda"
