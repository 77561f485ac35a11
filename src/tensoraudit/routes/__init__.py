"""One file per real converter, run inside a worker. Frameworks are imported inside functions.

A route's module has `export(request) -> dict` (the options that it used, plain JSON) and raises whatever the converter
raises; `failure.understand` explains that. Routes must not know probes or verdicts.
"""

from __future__ import annotations

ROUTES: dict[str, str] = {
    "torch_onnx_dynamo": "tensoraudit.routes.torch_to_onnx_dynamo",
    "torch_onnx_torchscript": "tensoraudit.routes.torch_to_onnx_torchscript",
    "tf2onnx": "tensoraudit.routes.tensorflow_to_onnx",
    "tf2onnx_tflite": "tensoraudit.routes.tflite_to_onnx",
    "jax2onnx": "tensoraudit.routes.jax_to_onnx",
}
"""The name that users give to `--via`, and the module that does it."""

__all__ = ["ROUTES"]
