"""What the evaluator gets wrong, against arithmetic done here. (BatchNormalization: see test_reference.py.)"""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tensoraudit.probes.onnxruntime.corrected_operators import corrected_operators


def run(operator, x, **attributes):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, None)],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (result,) = ReferenceEvaluator(model, new_ops=corrected_operators(model)).run(None, {"x": x})
    return result


@pytest.mark.parametrize("spatial", [(7,), (5, 7), (2, 5, 7)])
def test_global_max_pool_keeps_one_number_of_each_channel(spatial):
    x = np.random.default_rng(len(spatial)).standard_normal((3, 4, *spatial)).astype(np.float32)
    expected = np.array([[channel.max() for channel in image] for image in x])
    assert run("GlobalMaxPool", x).tolist() == expected.reshape(3, 4, *(1 for _ in spatial)).tolist()


def test_erf_keeps_double_precision():
    x = np.linspace(-3, 3, 13)
    assert run("Erf", x).tolist() == [math.erf(value) for value in x]
    assert run("Erf", x.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_keeps_double_precision(approximate):
    x = np.linspace(-3, 3, 13)
    exact = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
    smooth = [v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) / 2 for v in x]
    result = run("Gelu", x, approximate=approximate)
    np.testing.assert_allclose(result, smooth if approximate == "tanh" else exact, rtol=1e-14, atol=1e-16)
    assert run("Gelu", x.astype(np.float32), approximate=approximate).dtype == np.float32


@pytest.mark.parametrize(("opset", "corrected"), [(9, True), (13, True), (14, False)])
def test_batch_norm_is_corrected_where_it_is_wrong(opset, corrected):
    model = helper.make_model(helper.make_graph([], "g", [], []), opset_imports=[helper.make_opsetid("", opset)])
    names = [operator.__name__ for operator in corrected_operators(model)]
    assert ("BatchNormalization" in names) == corrected


def test_onnx_itself_is_still_wrong():
    """When this fails, a correction has become needless."""
    x = np.random.default_rng(1).standard_normal((3, 4, 7)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("GlobalMaxPool", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (result,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert result.shape != (3, 4, 1)
