"""What tf2onnx knows of TensorFlow's and TFLite's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_RESOLVED = frozenset((
    *("VarHandleOp", "VariableV2", "ReadVariableOp", "Variable", "ResourceGather"),
    *("PartitionedCall", "StatefulPartitionedCall", "Assert", "NoOp", "Print", "PrintV2"),
))  # fmt: skip
"""What freezing and inlining take away before anything is translated."""
_DEFAULT_OPSET = 15


def tf2onnx(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those with a handler at the opset. Raises ImportError."""
    known = _handlers(opsets)
    return {op for op in operators if op in known or op in _RESOLVED}


def tf2onnx_tflite(operators: Sequence[str], opsets: Mapping[str, int]) -> set[str]:
    """Those of TFLite (`CONV_2D`) with a handler, as TFLite or once they are TensorFlow's again. Raises ImportError."""
    from tf2onnx.handler import tfl_op

    known = _handlers(opsets)
    known.update(tfl_op.create_tfl_to_tf_mapping())
    return {op for op in operators if f"TFL_{op.removeprefix('TFL_')}" in known}


def _handlers(opsets: Mapping[str, int]) -> set[str]:
    import tf2onnx.tfonnx  # noqa: F401 - registers the handlers
    from tf2onnx.handler import tf_op

    mapping: Any = tf_op.create_mapping(int(opsets.get("", _DEFAULT_OPSET)), {})
    return set(mapping)
