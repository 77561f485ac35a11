"""Operators that the NumPy evaluator of onnx gets wrong, done right. Knows the operators' definitions only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.model_file import default_opset


def corrected_operators(model: Any) -> list[Any]:
    """Return the operator classes to give to the evaluator of a model.

    1. BatchNormalization below opset 14: it takes the default `momentum` for a wish to train (onnx 1.16 to 1.23) and
       mixes the batch's own statistics into the result. A node with one output only infers (Operators.md, opset 7).
    2. GlobalMaxPool: it takes the maximum over the wrong axes unless there are two spatial ones (onnx 1.16 to 1.23).
    3. Erf, and Gelu which is made of it: they are rounded to float32, in double precision too (onnx 1.16 to 1.23).
    """
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, **attributes: Any) -> tuple[Any]:
            if len(self.onnx_node.output) > 1 or attributes.get("training_mode"):
                raise NotImplementedError("BatchNormalization in training mode")
            s, b, m, v = (part.reshape(-1, *(1,) * (x.ndim - 2)) for part in (scale, bias, mean, var))
            result = s * (x - m) / np.sqrt(v + attributes.get("epsilon", 1e-5)) + b
            return (result.astype(x.dtype),)

    class GlobalMaxPool(OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)

    class Erf(OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (_erf(x),)

    class Gelu(OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Any, approximate: Any = None) -> tuple[Any]:
            return (_gelu(x, approximate or "none"),)

    always = [Erf, Gelu, GlobalMaxPool]
    return [*always, BatchNormalization] if (default_opset(model) or 0) < 14 else always


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=["d"])(x).astype(x.dtype)


def _gelu(x: Any, approximate: str) -> Any:
    number = x.dtype.type
    if approximate == "tanh":
        inner = number(math.sqrt(2 / math.pi)) * (x + number(0.044715) * x * x * x)
        return number(0.5) * x * (number(1) + np.tanh(inner))
    return number(0.5) * x * (number(1) + _erf(x / number(math.sqrt(2))))
