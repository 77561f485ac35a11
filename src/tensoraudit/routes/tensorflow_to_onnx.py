"""TensorFlow and Keras to ONNX by tf2onnx: a tf.function is traced, frozen, optimised and translated.

`tf2onnx.convert.from_keras` fails on Sequential models of Keras 3, and a traced call is what it does for the others.
"""

from __future__ import annotations

from typing import Any

from tensoraudit.routes.request import Request

LARGEST = 1_900_000_000
"""Bytes of weights above which one protobuf file cannot hold the model."""


def export(request: Request) -> dict[str, Any]:
    """Write the ONNX file and return the options used.

    Without an opset the converter's own default holds (15 in tf2onnx 1.17), as in an export by hand. An operator that
    it cannot translate stays in the file under TensorFlow's name, with no more than a line in its log: whether the file
    loads is for a session to say. Raises whatever the converter raises.
    """
    from tf2onnx import convert

    if request.weight_bytes > LARGEST:
        raise ValueError("model exceeds maximum protobuf size of 2GB")
    options: dict[str, Any] = {"opset": request.opset}
    convert.from_function(request.model, input_signature=list(request.args), output_path=request.path, **options)
    return options


def more(request: Request, problem: BaseException) -> BaseException | None:
    """The converter's own exceptions say all that there is."""
    return None
