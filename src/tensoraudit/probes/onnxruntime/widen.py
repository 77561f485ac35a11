"""The double-precision twin of an ONNX model: the same graph and weights, every float in it float64.

Takes and gives protobuf messages. The twin is meant for the NumPy evaluator, which computes in the dtype of what it is
given; no runtime has all kernels in double precision. Integers stay as they are.

1. Weights, constants, fills, declared types and the targets of casts become float64, in subgraphs and functions too.
2. Attributes stay: they are float32 for every runtime, so that an epsilon is the same number on both sides.
3. What is quantised, draws at random, reads bits or is computed in float32 whatever comes in has no such twin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.model_file import all_graphs, all_nodes, all_tensors, dtype_name

DOUBLE = 11
"""TensorProto.DataType of float64 (onnx.proto)."""

NARROW = frozenset((1, 10, 16))
"""float32, float16 and bfloat16."""

_TINY = ("float8", "float4", "int4", "uint4", "int2", "uint2")

RANDOM = frozenset(
    (
        *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
        *("Bernoulli", "Multinomial"),
    )
)

_REASONS: Mapping[str, frozenset[str]] = {
    "is quantised: a rounding to integers is part of what it computes": frozenset(
        (
            *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"),
            *("ConvInteger", "MatMulInteger"),
        )
    ),
    "reads the bits of its input": frozenset(("BitCast",)),
    "is computed in float32 by the NumPy evaluator, whatever it is given": frozenset(
        ("AffineGrid", "CausalConvWithState", "GridSample", "LinearAttention", "TfIdfVectorizer")
    ),
}

_KEEPS = frozenset(("Celu", "LayerNormalization", "NonMaxSuppression", "Resize", "RotaryEmbedding", "Upsample"))
"""Operators whose schema lacks double somewhere, and which the evaluator computes in the dtype of its input all the
same (`Resize` takes its scales as float32, which are the same numbers in float64)."""

_TYPES: Mapping[str, tuple[str, bool]] = {
    "Cast": ("to", False),
    "EyeLike": ("dtype", False),
    "SequenceEmpty": ("dtype", True),
    "BlackmanWindow": ("output_datatype", True),
    "HammingWindow": ("output_datatype", True),
    "HannWindow": ("output_datatype", True),
    "MelWeightMatrix": ("output_datatype", True),
    "GroupNormalization": ("stash_type", True),
    "Attention": ("softmax_precision", False),
}
"""Attributes that hold an element type, and whether it is float32 where the attribute is missing. (`stash_type` of
LayerNormalization and RMSNormalization is not here: the evaluator computes them in the dtype of their input.)"""


class NotAnOracle(Exception):  # noqa: N818 - a reason, not a fault
    """There is no double-precision twin; the text says why."""


def widen(model: Any) -> Any:
    """Change a model with all its data in place, and return it. Raises NotAnOracle."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in all_nodes(model):
        _check_node(node, versions)
    for tensor in all_tensors(model):
        _widen_tensor(tensor)
    for node in all_nodes(model):
        _widen_attributes(node)
    for graph in all_graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info):
            widen_type(value.type)
    for function in model.functions:
        for value in getattr(function, "value_info", ()):
            widen_type(value.type)
    return model


def draws(node: Any) -> bool:
    """Whether a node may draw at random; a Dropout with a third input can be told to train."""
    return node.op_type in RANDOM or (node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2]))


def _check_node(node: Any, versions: Mapping[str, int]) -> None:
    for reason, operators in _REASONS.items():
        if node.op_type in operators and node.domain in {"", "ai.onnx"}:
            raise NotAnOracle(f"{node.op_type} ({node.name or node.output[0]}) {reason}")
    if draws(node):
        raise NotAnOracle(f"{node.op_type} ({node.name or node.output[0]}) draws at random")
    if node.op_type not in _KEEPS and (what := _single_only(node, versions)):
        raise NotAnOracle(f"{node.op_type} ({node.name or node.output[0]}) has no double precision: {what}")


def _single_only(node: Any, versions: Mapping[str, int]) -> str:
    """What the operator's schema says of an input or output that may be float32 and not float64; else ""."""
    from onnx import defs

    try:
        schema = defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except Exception:  # no schema: a function of the model, or an operator of its own that no evaluator has either
        return ""
    for formal in (*schema.inputs, *schema.outputs):
        if "tensor(float)" in formal.types and "tensor(double)" not in formal.types:
            return f"its definition takes {formal.name} as float32 only"
    return ""


def _widen_tensor(tensor: Any) -> None:
    from onnx import numpy_helper

    if dtype_name(tensor.data_type).startswith(_TINY):
        raise NotAnOracle(f"tensor {tensor.name!r} is {dtype_name(tensor.data_type)}, so the model is quantised")
    if tensor.data_type in NARROW:
        array = np.asarray(numpy_helper.to_array(tensor)).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _widen_attributes(node: Any) -> None:
    special = _SPECIAL.get(node.op_type)
    if special is not None:
        special(node)
    name, by_default = _TYPES.get(node.op_type, ("", False))
    found = [attribute for attribute in node.attribute if attribute.name == name]
    for attribute in found:
        if dtype_name(attribute.i).startswith(_TINY):
            raise NotAnOracle(f"{node.op_type} ({node.name or node.output[0]}) gives {dtype_name(attribute.i)}")
        attribute.i = DOUBLE if attribute.i in NARROW else attribute.i
    if by_default and not found:
        _set(node, name, DOUBLE)
    for attribute in node.attribute:
        if attribute.HasField("tp"):
            widen_type(attribute.tp)


def _set(node: Any, name: str, value: Any) -> None:
    from onnx import helper

    node.attribute.append(helper.make_attribute(name, value))


def _widen_constant(node: Any) -> None:
    """`value_float` and `value_floats` are float32 by their names; a tensor can say what it is."""
    from onnx import numpy_helper

    for attribute in node.attribute:
        if attribute.name in {"value_float", "value_floats"} and not attribute.ref_attr_name:
            value: Any = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            del node.attribute[:]
            _set(node, "value", numpy_helper.from_array(np.asarray(value, np.float32).astype(np.float64)))
            return


def _widen_fill(node: Any) -> None:
    from onnx import numpy_helper

    if not any(attribute.name == "value" for attribute in node.attribute):
        _set(node, "value", numpy_helper.from_array(np.zeros(1)))


_SPECIAL: Mapping[str, Callable[[Any], None]] = {"Constant": _widen_constant, "ConstantOfShape": _widen_fill}


def widen_type(proto: Any) -> None:
    """Replace the narrow floats of a TypeProto, inside sequences, maps and optionals too, in place."""
    kind = proto.WhichOneof("value")
    if kind in {"tensor_type", "sparse_tensor_type"}:
        tensor = getattr(proto, kind)
        tensor.elem_type = DOUBLE if tensor.elem_type in NARROW else tensor.elem_type
    elif kind in {"sequence_type", "optional_type"}:
        widen_type(getattr(proto, kind).elem_type)
    elif kind == "map_type":
        widen_type(proto.map_type.value_type)
