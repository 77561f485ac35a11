"""The double-precision twin against arithmetic in float64 that is done here, operator by operator."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tensoraudit.probes.onnxruntime.evaluator import evaluator_of
from tensoraudit.probes.onnxruntime.widen import NotAnOracle, draws, widen

FLOAT, DOUBLE, HALF = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16
X = np.random.default_rng(5).standard_normal((2, 3, 5), dtype=np.float32)
WIDE = X.astype(np.float64)


def model(nodes, weights=(), *, opset=20, element=FLOAT, functions=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, [None, 3, 5])],
        [helper.make_tensor_value_info("y", element, None)],
        initializer=[numpy_helper.from_array(np.asarray(array), name) for name, array in weights],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid("local", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def double(made, x=WIDE):
    return evaluator_of(widen(made)).outputs({"x": x})["y"]


def erf(values):
    return np.vectorize(math.erf)(values)


def norm(values, axes, epsilon):
    centred = values - values.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


EPSILON = np.float64(np.float32(1e-3))
SCALE, BIAS = np.array([0.3, 1.7, -2.1], np.float32), np.array([0.1, 0.2, 0.3], np.float32)
WEIGHT = np.random.default_rng(6).standard_normal((5, 4), dtype=np.float32)
NODE = helper.make_node

CASES = {
    "weights": ([NODE("MatMul", ["x", "w"], ["y"])], [("w", WEIGHT)], lambda x: x @ WEIGHT.astype(np.float64)),
    "half weights": (
        [NODE("Cast", ["x"], ["h"], to=HALF), NODE("Add", ["h", "b"], ["s"]), NODE("Cast", ["s"], ["y"], to=FLOAT)],
        [("b", np.array([1 / 3], np.float16))],
        lambda x: x + np.float64(np.float16(1 / 3)),
    ),
    "constant": (
        [
            NODE("Constant", [], ["c"], value_float=0.1),
            NODE("Constant", [], ["d"], value_floats=[0.1, 0.2, 0.3, 0.4, 0.5]),
            NODE("Mul", ["x", "c"], ["p"]),
            NODE("Add", ["p", "d"], ["y"]),
        ],
        [],
        lambda x: x * np.float64(np.float32(0.1)) + np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32).astype(np.float64),
    ),
    "fill": (
        [NODE("Shape", ["x"], ["s"]), NODE("ConstantOfShape", ["s"], ["z"]), NODE("Add", ["x", "z"], ["y"])],
        [],
        lambda x: x,
    ),
    "gelu": ([NODE("Gelu", ["x"], ["y"])], [], lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2)))),
    "celu": (
        [NODE("Celu", ["x"], ["y"], alpha=0.7)],
        [],
        lambda x: np.maximum(x, 0) + np.minimum(0, np.float32(0.7) * np.expm1(x / np.float64(np.float32(0.7)))),
    ),
    "softmax": ([NODE("Softmax", ["x"], ["y"])], [], lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "layer norm": (
        [NODE("LayerNormalization", ["x", "s"], ["y"], epsilon=1e-3)],
        [("s", np.ones(5, np.float32))],
        lambda x: norm(x, -1, EPSILON),
    ),
    "instance norm": (
        [NODE("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=1e-3)],
        [("s", SCALE), ("b", BIAS)],
        lambda x: norm(x, -1, EPSILON) * SCALE.astype(float)[:, None] + BIAS.astype(float)[:, None],
    ),
    "global pool": ([NODE("GlobalMaxPool", ["x"], ["y"])], [], lambda x: x.max(-1, keepdims=True)),
    "resize": (
        [NODE("Resize", ["x", "", "k"], ["y"], mode="linear", coordinate_transformation_mode="asymmetric")],
        [("k", np.array([1, 1, 2], np.float32))],
        lambda x: np.stack([x, np.concatenate([(x[..., 1:] + x[..., :-1]) / 2, x[..., -1:]], -1)], -1).reshape(
            2, 3, 10
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_in_double_precision(name):
    nodes, weights, expected = CASES[name]
    result = double(model(nodes, weights))
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, expected(WIDE), rtol=1e-13, atol=1e-14)
    narrow = evaluator_of(model(nodes, weights)).outputs({"x": X})["y"]
    assert narrow.dtype == np.float32  # the file itself stays what it was


def test_group_norm_stashes_in_double_precision():
    weights = [("s", SCALE), ("b", BIAS)]
    node = NODE("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3, epsilon=1e-3)
    result = double(model([node], weights, opset=21))
    expected = norm(WIDE, -1, EPSILON) * SCALE.astype(float)[:, None] + BIAS.astype(float)[:, None]
    np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-14)


def test_a_recurrent_layer_in_double_precision():
    numbers = np.random.default_rng(7)
    w, r = (numbers.standard_normal((1, 16, size), dtype=np.float32) for size in (5, 4))
    result = double(model([NODE("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=4)], [("w", w), ("r", r)]))
    hidden, cell = np.zeros((3, 4)), np.zeros((3, 4))
    for x in WIDE:
        i, o, f, c = np.split(x @ w[0].T.astype(np.float64) + hidden @ r[0].T.astype(np.float64), 4, axis=-1)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        cell = f * cell + i * np.tanh(c)
        hidden = o * np.tanh(cell)
    np.testing.assert_allclose(result[0], hidden, rtol=1e-13)


def test_subgraphs_functions_and_declared_types():
    inner = helper.make_graph(
        [NODE("Constant", [], ["t"], value_float=0.1), NODE("Mul", ["x", "t"], ["u"])],
        "then",
        [],
        [helper.make_tensor_value_info("u", FLOAT, None)],
    )
    other = helper.make_graph(
        [NODE("Identity", ["x"], ["v"])], "else", [], [helper.make_tensor_value_info("v", FLOAT, None)]
    )
    function = helper.make_function(
        "local", "Third", ["a"], ["b"],
        [NODE("Constant", [], ["c"], value=numpy_helper.from_array(np.float32(1 / 3))), NODE("Mul", ["a", "c"], ["b"])],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    nodes = [NODE("If", ["yes"], ["i"], then_branch=inner, else_branch=other)]
    nodes += [NODE("Third", ["i"], ["y"], domain="local")]
    made = model(nodes, [("yes", np.array(True))], functions=[function])
    wide = widen(made)
    assert wide.graph.input[0].type.tensor_type.elem_type == DOUBLE
    assert wide.graph.node[0].attribute[0].g.output[0].type.tensor_type.elem_type == DOUBLE
    assert wide.functions[0].node[0].attribute[0].t.data_type == DOUBLE
    (result,) = ReferenceEvaluator(wide).run(None, {"x": WIDE})
    expected = WIDE * np.float64(np.float32(0.1)) * np.float64(np.float32(1 / 3))
    np.testing.assert_allclose(result, expected, rtol=1e-14)


def test_integers_stay():
    nodes = [NODE("Cast", ["x"], ["i"], to=TensorProto.INT32), NODE("Add", ["i", "k"], ["j"])]
    nodes += [NODE("Cast", ["j"], ["y"], to=FLOAT)]
    wide = widen(model(nodes, [("k", np.array([7], np.int32))]))
    assert wide.graph.initializer[0].data_type == TensorProto.INT32
    assert [node.attribute[0].i for node in wide.graph.node if node.op_type == "Cast"] == [TensorProto.INT32, DOUBLE]


def test_sequences_and_optionals_hold_double():
    made = model([NODE("Identity", ["x"], ["y"])])
    kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(HALF, [2])))
    made.graph.value_info.append(helper.make_value_info("o", kind))
    inner = widen(made).graph.value_info[0].type.optional_type.elem_type.sequence_type.elem_type
    assert inner.tensor_type.elem_type == DOUBLE


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (NODE("QuantizeLinear", ["x", "s"], ["y"], name="q"), r"QuantizeLinear \(q\) is quantised"),
        (NODE("RandomNormalLike", ["x"], ["y"]), r"RandomNormalLike \(y\) draws at random"),
        (NODE("Dropout", ["x", "r", "t"], ["y"]), r"Dropout \(y\) draws at random"),
        (NODE("BitCast", ["x"], ["y"], to=TensorProto.INT32), r"reads the bits"),
        (NODE("GridSample", ["x", "g"], ["y"]), r"computed in float32 by the NumPy evaluator"),
        (NODE("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN), r"gives float8e4m3fn"),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_what_has_no_twin_is_refused_with_the_node(node, reason):
    with pytest.raises(NotAnOracle, match=reason):
        widen(model([node], opset=20))


def test_an_operator_whose_definition_forbids_double():
    node = NODE("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L2")
    made = model([node])
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    with pytest.raises(
        NotAnOracle, match=r"Normalizer \(y\) has no double precision: its definition takes Y as float32"
    ):
        widen(made)


def test_a_tensor_of_small_integers_is_quantised():
    made = model([NODE("Identity", ["x"], ["y"])])
    made.graph.initializer.append(helper.make_tensor("packed", TensorProto.INT4, [2], [1, 2]))
    with pytest.raises(NotAnOracle, match="tensor 'packed' is int4"):
        widen(made)


def test_which_nodes_draw():
    assert draws(NODE("Bernoulli", ["x"], ["y"]))
    assert draws(NODE("Dropout", ["x", "", "training"], ["y"]))
    assert not draws(NODE("Dropout", ["x", "ratio"], ["y"]))
