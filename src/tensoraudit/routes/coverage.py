"""Which operators a converter has a translation for, by its own registry.

A name in a registry promises a translation, not that it takes these attributes: the conversion decides. Each function
takes operators as the facts name them and the opset that is asked for, and returns those that it knows. Frameworks
are imported inside functions; ImportError says that the converter is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tensoraudit.routes import coverage_jax, coverage_keras, coverage_onnx, coverage_tensorflow, coverage_torch

Known = Callable[[Sequence[str], Mapping[str, int]], set[str]]
"""(operators, opsets by domain) to the operators that the converter knows. Of sources that are not ONNX the opset of
the domain "" is the one to write; an empty mapping means the converter's own default."""

TOOLS: Mapping[str, Known] = {
    "torch_onnx_dynamo": coverage_torch.torch_onnx_dynamo,
    "torch_onnx_torchscript": coverage_torch.torch_onnx_torchscript,
    "torch_export": coverage_torch.torch_export,
    "torchax": coverage_torch.torchax,
    "tf2onnx": coverage_tensorflow.tf2onnx,
    "tf2onnx_tflite": coverage_tensorflow.tf2onnx_tflite,
    "jax2onnx": coverage_jax.jax2onnx,
    "jax2tf": coverage_jax.jax2tf,
    "onnx2torch": coverage_onnx.onnx2torch,
    "onnx2tf": coverage_onnx.onnx2tf,
    "keras_save": coverage_keras.layers,
    "keras_torch": coverage_keras.layers,
    "keras_jax": coverage_keras.layers,
}
"""By the name of the tool."""
