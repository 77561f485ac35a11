"""read_onnx against the onnx package's own parse of the same files."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from tensoraudit.errors import InputError
from tensoraudit.extract import onnx_graph
from tensoraudit.extract.onnx import graph_inputs, read_onnx
from tensoraudit.facts import ABSENT, Model, Node, Tensor, Unknown, Value

PACKAGES = Path(onnx.__file__).parents[1]
BACKEND_MODELS = sorted((PACKAGES / "onnx/backend/test/data").rglob("*.onnx"))
REAL_MODELS = sorted(
    path
    for package in ("silero_vad", "magika", "nudenet", "rapidocr_onnxruntime")
    for path in (PACKAGES / package).rglob("*.onnx")
)


def nodes(facts: Iterable[Any]) -> list[Node]:
    return [fact for fact in facts if isinstance(fact, Node)]


def values(facts: Iterable[Any]) -> dict[tuple[str, str], Value]:
    return {(fact.graph, fact.name): fact for fact in facts if isinstance(fact, Value)}


def save(tmp_path: Path, model: onnx.ModelProto, name: str = "m.onnx") -> Path:
    path = tmp_path / name
    path.write_bytes(model.SerializeToString())
    return path


def from_text(tmp_path: Path, text: str) -> Path:
    return save(tmp_path, parser.parse_model(text))


def reference_nodes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Every node of a model with the name of its graph, by a walk of our own over the protobuf objects."""

    def walk(graph: str, protos: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, onnx.NodeProto]]:
        for index, node in enumerate(protos):
            yield graph, node
            label = node.name or f"{node.op_type}_{index}"
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    yield from walk(f"{graph}/{label}.{attribute.name}", attribute.g.node)
                for i, inner in enumerate(attribute.graphs):
                    yield from walk(f"{graph}/{label}.{attribute.name}[{i}]", inner.node)

    yield from walk("main", model.graph.node)
    for function in model.functions:
        yield from walk(f"fn:{function.domain}.{function.name}", function.node)


def close(ours: Any, theirs: Any) -> bool:
    """Equal, where ours is the shortest decimal of the same float32."""
    if isinstance(ours, Unknown):
        return True
    if isinstance(theirs, bytes):
        return bool(ours == theirs.decode("utf-8", "backslashreplace"))
    if isinstance(theirs, float):
        return bool(np.array_equal(np.float32(ours), np.float32(theirs), equal_nan=True))
    if isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    return bool(ours == theirs)


def check_attributes(node: Node, proto: onnx.NodeProto) -> Counter[str]:
    seen: Counter[str] = Counter()
    assert set(node.attributes) == {attribute.name for attribute in proto.attribute}
    for attribute in proto.attribute:
        ours = node.attributes[attribute.name]
        kind = AttributeProto.AttributeType.Name(attribute.type)
        seen[kind] += 1
        if attribute.ref_attr_name:
            assert isinstance(ours, Unknown)
        elif attribute.type == AttributeProto.TENSOR:
            check_constant(ours, attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            assert ours.endswith(f".{attribute.name}")
        elif attribute.type not in (AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO, AttributeProto.GRAPHS):
            assert close(ours, helper.get_attribute_value(attribute)), (node.name, attribute.name)
    return seen


def check_constant(ours: Any, proto: TensorProto) -> None:
    count = int(np.prod(proto.dims, dtype=np.int64))
    if proto.data_location == TensorProto.EXTERNAL or count > 64:
        assert isinstance(ours, Unknown)
        return
    theirs = numpy_helper.to_array(proto)
    assert not isinstance(ours, Unknown), (proto.name, ours)
    assert np.shape(ours) == theirs.shape
    if theirs.dtype.kind in "OUS":
        assert np.array_equal(np.array(ours, dtype=object), theirs.astype(object))
    else:
        assert np.array_equal(np.array(ours).astype(theirs.dtype), theirs, equal_nan=theirs.dtype.kind in "fc")


def check_file(path: Path) -> Counter[str]:
    model = onnx.load(path, load_external_data=False)
    facts = read_onnx(path)
    head = facts[0]
    assert isinstance(head, Model)
    assert (head.version, head.producer) == (model.ir_version, model.producer_name)
    assert head.opsets == {
        each.domain.replace("ai.onnx", "") if each.domain == "ai.onnx" else each.domain: each.version
        for each in model.opset_import
    }
    assert head.metadata["problems"] == []
    expected = list(reference_nodes(model))
    ours = nodes(facts)
    assert [graph for graph, _ in sorted(expected, key=lambda pair: pair[0])] == sorted(node.graph for node in ours)
    seen: Counter[str] = Counter()
    by_place: dict[str, list[Node]] = {}
    for node in ours:
        by_place.setdefault(node.graph, []).append(node)
    places: Counter[str] = Counter()
    for graph, proto in expected:
        node = by_place[graph][places[graph]]
        places[graph] += 1
        assert (node.op, node.inputs, node.outputs) == (proto.op_type, tuple(proto.input), tuple(proto.output))
        assert node.at.node == node.name and node.at.path == str(path)
        seen += check_attributes(node, proto)
    check_values(model, values(facts), facts)
    seen["nodes"] = len(ours)
    return seen


def check_values(model: onnx.ModelProto, ours: dict[tuple[str, str], Value], facts: list[Any]) -> None:
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, tensor in stored.items():
        value = ours["main", name]
        assert (value.role, value.shape) == ("initializer", tuple(tensor.dims))
        assert value.dtype in (helper.tensor_dtype_to_np_dtype(tensor.data_type).name, "string")
        check_constant(value.constant, tensor)
    inputs = [each.name for each in model.graph.input if each.name not in stored]
    assert [value.name for value in facts[0].inputs] == inputs
    assert [value.name for value in facts[0].outputs] == [each.name for each in model.graph.output]
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if info.type.HasField("tensor_type") and ("main", info.name) in ours and info.name not in stored:
            assert_type(ours["main", info.name], info.type.tensor_type)


def assert_type(value: Value, declared: onnx.TypeProto.Tensor) -> None:
    if value.constant is not ABSENT:
        return
    assert value.dtype in (helper.tensor_dtype_to_np_dtype(declared.elem_type).name, "string")
    if not declared.HasField("shape"):
        assert isinstance(value.shape, Unknown)
        return
    assert isinstance(value.shape, tuple) and len(value.shape) == len(declared.shape.dim)
    for ours, dim in zip(value.shape, declared.shape.dim, strict=True):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            assert ours == dim.dim_value
        elif dim.dim_param:
            assert ours == dim.dim_param
        else:
            assert isinstance(ours, Unknown)


def test_all_backend_models_read_as_onnx_reads_them() -> None:
    total: Counter[str] = Counter()
    for path in BACKEND_MODELS:
        total += check_file(path)
    assert len(BACKEND_MODELS) >= 140
    assert {"INT", "INTS", "FLOAT", "STRING", "TENSOR"} <= set(total)


@pytest.mark.real
@pytest.mark.parametrize("path", REAL_MODELS, ids=lambda path: path.name)
def test_real_models_read_as_onnx_reads_them(path: Path) -> None:
    assert check_file(path)["nodes"] > 0


def test_the_backend_models_hold_subgraphs_and_functions() -> None:
    graphs = {node.graph for path in BACKEND_MODELS + REAL_MODELS for node in nodes(read_onnx(path))}
    assert any("then_branch" in graph for graph in graphs)


def test_subgraphs_functions_and_names(tmp_path: Path) -> None:
    path = from_text(
        tmp_path,
        """
        <ir_version: 9, opset_import: ["" : 18, "mine": 1], producer_name: "someone", producer_version: "3.1">
        g (bool c, float[batch, 3] x) => (float[batch, 3] y)
        <float[1] w = {2.0}>
        {
            [named] h = mine.scaled <factor = 0.1> (x)
            y = If (c) <
                then_branch = then_graph () => (float[batch, 3] t) { t = Mul (h, w) },
                else_branch = else_graph () => (float[batch, 3] e) { e = Identity (h) }
            >
        }
        <domain: "mine", opset_import: ["" : 17]>
        scaled <factor> (a) => (b) {
            f = Constant <value_float: float = @factor> ()
            b = Mul (a, f)
        }
        """,
    )
    facts = read_onnx(path, side="source")
    model = facts[0]
    assert isinstance(model, Model)
    assert (model.format, model.producer, model.version, model.side) == ("onnx", "someone", 9, "source")
    assert model.opsets == {"": 18, "mine": 1}
    assert model.metadata["producer_version"] == "3.1"
    assert model.metadata["functions"] == ["fn:mine.scaled"]
    assert model.metadata["problems"] == [] and model.metadata["external"] == []
    found = {(node.graph, node.op): node for node in nodes(facts)}
    assert list(found) == [
        ("main", "scaled"),
        ("main", "If"),
        ("main/If_1.then_branch", "Mul"),
        ("main/If_1.else_branch", "Identity"),
        ("fn:mine.scaled", "Constant"),
        ("fn:mine.scaled", "Mul"),
    ]
    call, branch = found["main", "scaled"], found["main", "If"]
    assert (call.name, call.domain, call.opset, call.attributes) == ("named", "mine", 1, {"factor": 0.1})
    assert branch.attributes == {"then_branch": "main/If_1.then_branch", "else_branch": "main/If_1.else_branch"}
    assert branch.at.node == "If_1" and branch.at.path == str(path)
    constant = found["fn:mine.scaled", "Constant"]
    assert constant.opset == 17, "a function imports its own opsets"
    assert constant.attributes["value_float"] == Unknown("the caller's attribute 'factor'")
    by_name = values(facts)
    assert by_name["main", "x"].shape == ("batch", 3) and by_name["main", "x"].role == "input"
    assert by_name["main", "w"].constant == (2.0,) and by_name["main", "w"].role == "initializer"
    assert by_name["main", "h"].role == "intermediate" and isinstance(by_name["main", "h"].dtype, Unknown)
    assert by_name["main", "y"].role == "output"
    assert by_name["main/If_1.then_branch", "t"].role == "output"
    assert by_name["fn:mine.scaled", "a"].role == "input"
    assert [(value.name, value.dtype, value.shape) for value in graph_inputs(path)] == [
        ("c", "bool", ()),
        ("x", "float32", ("batch", 3)),
    ]


def test_metadata_and_doc_strings_reach_the_node(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="r", doc_string="model.py(3): forward")
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.stack_trace", "File model.py, line 3"
    bare = helper.make_node("Relu", ["y"], ["z"], domain="ai.onnx", overload="fast")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xz"]
    model = helper.make_model(helper.make_graph([node, bare], "g", info[:1], info[1:]))
    first, second = nodes(read_onnx(save(tmp_path, model)))
    assert first.metadata == {
        "pkg.torch.onnx.stack_trace": "File model.py, line 3",
        "doc_string": "model.py(3): forward",
    }
    assert second.metadata is None
    assert (second.name, second.domain, second.overload) == ("Relu_1", "", "fast")


DTYPES = {
    TensorProto.FLOAT: [0.1, -2.5, 3e38, 1e-5],
    TensorProto.DOUBLE: [0.1, -2.5, 1e300, 1e-5],
    TensorProto.FLOAT16: [0.1, -2.5, 65504.0, 1e-5],
    TensorProto.BFLOAT16: [0.1, -2.5, 3e38, 1e-5],
    TensorProto.INT8: [-128, 127, 0, 5],
    TensorProto.UINT8: [255, 127, 0, 5],
    TensorProto.INT16: [-32768, 32767, 0, 5],
    TensorProto.UINT16: [65535, 32767, 0, 5],
    TensorProto.INT32: [-(2**31), 2**31 - 1, 0, 5],
    TensorProto.UINT32: [2**32 - 1, 2**31, 0, 5],
    TensorProto.INT64: [-(2**63), 2**63 - 1, 0, 5],
    TensorProto.UINT64: [2**64 - 1, 2**63, 0, 5],
    TensorProto.BOOL: [True, False, False, True],
    TensorProto.COMPLEX64: [1 + 2j, -0.5j, 0j, 3 + 0j],
    TensorProto.COMPLEX128: [1 + 2j, -0.5j, 0j, 3 + 0j],
    TensorProto.FLOAT8E4M3FN: [0.1, -2.5, 448.0, 0.002],
    TensorProto.FLOAT8E4M3FNUZ: [0.1, -2.5, 240.0, 0.002],
    TensorProto.FLOAT8E5M2: [0.1, -2.5, 57344.0, 0.002],
    TensorProto.FLOAT8E5M2FNUZ: [0.1, -2.5, 57344.0, 0.002],
    TensorProto.UINT4: [15, 7, 0, 5],
    TensorProto.INT4: [-8, 7, 0, 5],
    TensorProto.FLOAT4E2M1: [0.5, -6.0, 0.0, 3.0],
}


@pytest.mark.parametrize("raw", [False, True], ids=["typed", "raw"])
@pytest.mark.parametrize("dtype", DTYPES, ids=TensorProto.DataType.Name)
def test_constants_of_every_type(tmp_path: Path, dtype: int, raw: bool) -> None:
    if raw:
        array = np.array(DTYPES[dtype], dtype=object).astype(helper.tensor_dtype_to_np_dtype(dtype)).reshape(2, 2)
        tensor = numpy_helper.from_array(array, "w")
        assert tensor.HasField("raw_data")
    else:
        tensor = helper.make_tensor("w", dtype, [2, 2], DTYPES[dtype])
    info = helper.make_tensor_value_info("w", dtype, [2, 2])
    path = save(tmp_path, helper.make_model(helper.make_graph([], "g", [], [info], [tensor])))
    facts = read_onnx(path)
    value = values(facts)["main", "w"]
    assert value.dtype == helper.tensor_dtype_to_np_dtype(dtype).name.replace("float4_e2m1fn", "float4_e2m1")
    theirs = numpy_helper.to_array(tensor)
    ours = np.array(value.constant, dtype=object)
    assert ours.shape == (2, 2)
    assert np.array_equal(ours.astype(theirs.dtype), theirs), (ours, theirs)
    (stored,) = [fact for fact in facts if isinstance(fact, Tensor)]
    bits = {TensorProto.UINT4: 4, TensorProto.INT4: 4, TensorProto.FLOAT4E2M1: 4}.get(dtype, theirs.dtype.itemsize * 8)
    assert stored.bytes == 4 * bits // 8
    if raw:
        assert stored.offset is not None
        assert path.read_bytes()[stored.offset : stored.offset + stored.bytes] == tensor.raw_data


@pytest.mark.parametrize(
    "dtype",
    [
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.FLOAT8E8M0,
    ],
    ids=TensorProto.DataType.Name,
)
def test_every_code_of_the_small_floats(tmp_path: Path, dtype: int) -> None:
    """All 256 codes, in four constants of 64, against ml_dtypes (which onnx uses)."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    codes = np.arange(256, dtype=np.uint8).view(kind).reshape(4, 64)
    tensors = [numpy_helper.from_array(row, f"w{i}") for i, row in enumerate(codes)]
    found = values(read_onnx(save(tmp_path, helper.make_model(helper.make_graph([], "g", [], [], tensors)))))
    for i, row in enumerate(codes):
        ours = np.array(found["main", f"w{i}"].constant)
        assert np.array_equal(ours, row.astype(np.float64), equal_nan=True)


def test_floats_are_the_shortest_decimals_of_their_own_type(tmp_path: Path) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], epsilon=1e-5)
    many = helper.make_node("Constant", [], ["k"], value_floats=[0.1, 1e-12, float("inf")])
    scale = numpy_helper.from_array(np.array([0.1, 1e-12], np.float32), "s")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    facts = read_onnx(
        save(tmp_path, helper.make_model(helper.make_graph([many, node], "g", info[:1], info[1:], [scale])))
    )
    assert nodes(facts)[1].attributes == {"epsilon": 1e-5}
    assert values(facts)["main", "s"].constant == (0.1, 1e-12)
    constant = values(facts)["main", "k"]
    assert (constant.constant, constant.dtype, constant.shape) == ((0.1, 1e-12, float("inf")), "float32", (3,))


def test_constant_nodes_give_their_output_a_value(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.array([[1, -1]], np.int64))
    made = [
        helper.make_node("Constant", [], ["a"], value=tensor),
        helper.make_node("Constant", [], ["b"], value_int=7),
        helper.make_node("Constant", [], ["c"], value_strings=["x", "y"]),
        helper.make_node("Constant", [], ["d"], value=numpy_helper.from_array(np.zeros(65, np.float32))),
    ]
    facts = read_onnx(save(tmp_path, helper.make_model(helper.make_graph(made, "g", [], []))))
    found = values(facts)
    assert [found["main", name].constant for name in "abc"] == [((1, -1),), 7, ("x", "y")]
    assert [found["main", name].dtype for name in "abcd"] == ["int64", "int64", "string", "float32"]
    assert [found["main", name].shape for name in "abcd"] == [(1, 2), (), (2,), (65,)]
    assert found["main", "d"].constant == Unknown("a constant of 65 elements, more than 64")
    assert [fact.name for fact in facts if isinstance(fact, Tensor)] == ["a", "d"]


def test_initializers_that_are_also_inputs_need_no_feed(tmp_path: Path) -> None:
    """IR version 3 lists every initializer among the inputs."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xwy"]
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", info[:2], info[2:], [weight])
    path = save(tmp_path, helper.make_model(graph, ir_version=3))
    facts = read_onnx(path)
    assert [value.name for value in graph_inputs(path)] == ["x"]
    assert [value.name for value in facts[0].inputs] == ["x"]
    assert values(facts)["main", "w"].role == "initializer"
    assert sum(isinstance(fact, Value) and fact.name == "w" for fact in facts) == 1


def test_types_that_are_no_tensors_and_dims_that_are_no_sizes(tmp_path: Path) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", -1, None])
    kinds = {
        "s": helper.make_sequence_type_proto(tensor),
        "o": helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)),
        "m": helper.make_map_type_proto(TensorProto.INT64, tensor),
        "p": helper.make_sparse_tensor_type_proto(TensorProto.DOUBLE, [3]),
        "t": tensor,
        "u": helper.make_tensor_type_proto(TensorProto.STRING, None),
    }
    info = [helper.make_value_info(name, kind) for name, kind in kinds.items()]
    info.append(onnx.ValueInfoProto(name="untyped"))
    path = save(tmp_path, helper.make_model(helper.make_graph([], "g", info, [])))
    found = {value.name: value for value in graph_inputs(path)}
    assert [found[name].dtype for name in "sompu"] == [
        "sequence(float32)",
        "optional(sequence(float32))",
        "map(int64, float32)",
        "sparse(float64)",
        "string",
    ]
    assert found["p"].shape == (3,)
    assert isinstance(found["s"].shape, Unknown) and isinstance(found["u"].shape, Unknown)
    shape = found["t"].shape
    assert isinstance(shape, tuple)
    assert shape[0] == "n" and isinstance(shape[1], Unknown) and isinstance(shape[2], Unknown)
    assert isinstance(found["untyped"].dtype, Unknown)


# ---------------------------------------------------------------- wiring


def graph_of(tmp_path: Path, made: list[onnx.NodeProto], inputs: str = "x", outputs: str = "y") -> Path:
    info = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in inputs + outputs}
    graph = helper.make_graph(made, "g", [info[n] for n in inputs], [info[n] for n in outputs])
    return save(tmp_path, helper.make_model(graph))


def test_a_cycle_is_an_input_error_that_names_its_nodes(tmp_path: Path) -> None:
    made = [
        helper.make_node("Relu", ["x"], ["a"], name="outside"),
        helper.make_node("Add", ["a", "d"], ["b"], name="first"),
        helper.make_node("Relu", ["b"], ["c"], name="second"),
        helper.make_node("Relu", ["c"], ["d"], name="third"),
        helper.make_node("Relu", ["d"], ["y"], name="behind"),
    ]
    with pytest.raises(InputError, match="cycle in graph 'main'") as caught:
        read_onnx(graph_of(tmp_path, made))
    assert "first -> second -> third -> first" in str(caught.value)
    assert "outside" not in str(caught.value) and "behind" not in str(caught.value)


def test_a_node_that_reads_its_own_output_is_a_cycle(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Add_0 -> Add_0"):
        read_onnx(graph_of(tmp_path, [helper.make_node("Add", ["x", "y"], ["y"])]))


def test_a_cycle_through_a_subgraph(tmp_path: Path) -> None:
    inner = helper.make_graph([helper.make_node("Relu", ["y"], ["t"])], "b", [], [onnx.ValueInfoProto(name="t")])
    made = [helper.make_node("If", ["x"], ["y"], name="gate", then_branch=inner, else_branch=inner)]
    with pytest.raises(InputError, match="gate -> gate"):
        read_onnx(graph_of(tmp_path, made))


def test_nodes_out_of_order_are_a_problem_but_no_cycle(tmp_path: Path) -> None:
    made = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]
    model = read_onnx(graph_of(tmp_path, made))[0]
    assert model.metadata["problems"] == [{"kind": "unsorted", "graph": "main", "values": ["a"], "count": 1}]


def test_duplicate_and_undefined_values(tmp_path: Path) -> None:
    made = [
        helper.make_node("Relu", ["x"], ["y"], name="one"),
        helper.make_node("Add", ["x", "nowhere"], ["y"], name="two"),
    ]
    facts = read_onnx(graph_of(tmp_path, made))
    assert facts[0].metadata["problems"] == [
        {"kind": "duplicate", "graph": "main", "value": "y", "nodes": ["one", "two"]},
        {"kind": "undefined", "graph": "main", "value": "nowhere", "nodes": ["two"]},
    ]
    assert sum(isinstance(fact, Value) and fact.name == "y" for fact in facts) == 1


def test_a_subgraph_may_read_what_is_around_it_but_not_what_is_nowhere(tmp_path: Path) -> None:
    inner = helper.make_graph([helper.make_node("Add", ["a", "gone"], ["t"])], "b", [], [onnx.ValueInfoProto(name="t")])
    made = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner),
    ]
    problems = read_onnx(graph_of(tmp_path, made))[0].metadata["problems"]
    assert problems == [{"kind": "undefined", "graph": "main", "value": "gone", "nodes": ["If_1"]}]


def test_raw_data_that_does_not_fit_the_dims(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"\0" * 12)
    empty = TensorProto(name="v", data_type=TensorProto.FLOAT, dims=[4])
    facts = read_onnx(save(tmp_path, helper.make_model(helper.make_graph([], "g", [], [], [tensor, empty]))))
    assert facts[0].metadata["problems"] == [
        {"kind": "size", "graph": "main", "value": "w", "declared": 16, "stored": 12},
        {"kind": "size", "graph": "main", "value": "v", "declared": 16, "stored": 0},
    ]
    assert values(facts)["main", "w"].constant == Unknown("the file holds 3 of 4 elements")


# ---------------------------------------------------------------- damage


def test_a_model_without_a_graph(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without a graph"):
        read_onnx(save(tmp_path, onnx.ModelProto(ir_version=8)))


def nested(depth: int) -> onnx.GraphProto:
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
    for _ in range(depth):
        node = helper.make_node("If", ["x"], ["y"], then_branch=graph)
        graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.BOOL, []))
    return graph


def test_deep_subgraphs(tmp_path: Path) -> None:
    assert len(nodes(read_onnx(save(tmp_path, helper.make_model(nested(30)))))) == 31


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def test_subgraphs_without_end(tmp_path: Path) -> None:
    """2,000 graphs in each other, written by hand: the protobuf package cannot even build them."""
    graph = field(2, b"g")
    for _ in range(2_000):
        attribute = field(1, b"body") + field(6, graph) + varint(20 << 3) + varint(5)
        graph = field(1, field(4, b"Loop") + field(5, attribute))
    path = tmp_path / "deep.onnx"
    path.write_bytes(varint(1 << 3) + varint(8) + field(7, graph))
    with pytest.raises(InputError, match="deep"):
        read_onnx(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x08", "varint"),
        (b"\x08\x08\x3a\xff\xff\xff\xff\x0f", "declares 4,294,967,295 bytes"),
        (b"\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "declares"),
        (b"\x08" + b"\xff" * 11, "varint"),
        (b"\x08\x08\x3d\x00\x00\x00\x00", "wire type 5"),
        (b"\x08\x08\x3b\x3c", "wire type 3"),
        (b"\x00\x00", "field number 0"),
        (b"\x08\x08" + field(7, b"") + field(7, b""), "two graphs"),
        (b"\x08\x08" + field(7, b"\x08\x01"), "wire type"),
        (b"\x08\x08" + field(7, field(1, b"\x08\x01")), "wire type"),
        (b"\x08\x08" + field(7, field(5, b"\x08" + varint(2**64 - 1))), "impossible dims"),
        (b"\x08\x08" + field(7, field(1, field(5, field(1, b"k") + b"\xa0\x01\x02" + field(3, b"x")))), "wrong wire"),
    ],
    ids=["cut", "length-4G", "length-2^63", "varint-12-bytes", "wire-5", "group", "field-0", "two-graphs", "graph-wire",
         "node-wire", "dims", "attribute-wire"],
)  # fmt: skip
def test_damage_has_words(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_onnx(path)
    assert str(path) in str(caught.value)


def test_huge_dims_need_no_memory(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**62, 2**62])
    facts = read_onnx(save(tmp_path, helper.make_model(helper.make_graph([], "g", [], [], [tensor]))))
    (stored,) = [fact for fact in facts if isinstance(fact, Tensor)]
    assert stored.bytes == 4 * 2**124 and isinstance(values(facts)["main", "w"].constant, Unknown)


def test_long_lists_are_not_kept(tmp_path: Path) -> None:
    node = helper.make_node("TreeEnsemble", [], ["y"], nodes_values=[0.5] * 70_000, nodes_ids=[1] * 70_000, few=[1, 2])
    (found,) = nodes(read_onnx(graph_of(tmp_path, [node])))
    assert isinstance(found.attributes["nodes_values"], Unknown) and isinstance(found.attributes["nodes_ids"], Unknown)
    assert found.attributes["few"] == (1, 2)


def test_names_that_are_no_utf8_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = b"".join(field(1, field(1, raw) + field(2, raw + b"o") + field(4, b"Relu")) for raw in (b"\xff", b"\xfe"))
    path.write_bytes(b"\x08\x08" + field(7, made))
    assert [node.inputs for node in nodes(read_onnx(path))] == [("\\xff",), ("\\xfe",)]


def test_unpacked_numbers_as_old_writers_store_them(tmp_path: Path) -> None:
    """Repeated numbers one by one, which proto2 readers must accept beside the packed form."""
    floats = b"".join(varint(4 << 3 | 5) + np.float32(each).tobytes() for each in (1.5, -2.0))
    ints = b"".join(varint(7 << 3) + varint(each) for each in (3, 2**64 - 1))
    graph = b"".join(
        field(5, varint(1 << 3) + b"\x02" + varint(2 << 3) + bytes([dtype]) + body + field(8, name))
        for dtype, body, name in ((1, floats, b"f"), (7, ints, b"i"))
    )
    packed = field(5, field(1, b"\x01\x02") + varint(2 << 3) + b"\x07" + field(7, b"\x05\x06") + field(8, b"p"))
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x03" + field(7, graph + packed))
    found = values(read_onnx(path))
    assert found["main", "f"].constant == (1.5, -2.0)
    assert found["main", "i"].constant == (3, -1)
    assert found["main", "p"].constant == ((5, 6),)


def test_a_sparse_initializer(tmp_path: Path) -> None:
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.ones(1, np.float32), "s"),
        indices=numpy_helper.from_array(np.zeros((1, 2), np.int64)),
        dims=[3, 4],
    )
    graph = helper.make_graph([helper.make_node("Relu", ["s"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
    graph.sparse_initializer.append(sparse)
    facts = read_onnx(save(tmp_path, helper.make_model(graph)))
    value = values(facts)["main", "s"]
    assert (value.dtype, value.shape, value.role) == ("float32", (3, 4), "initializer")
    assert isinstance(value.constant, Unknown) and facts[0].metadata["problems"] == []


def test_a_small_file_may_not_ask_for_any_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "MAX_FACTS", 1_000)
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08" + field(7, b"\x0a\x00" * 5_000))
    with pytest.raises(InputError, match="more than 1,000 nodes"):
        read_onnx(path)


def test_problems_are_listed_up_to_a_hundred(tmp_path: Path) -> None:
    made = [helper.make_node("Relu", [f"gone{i}"], ["y"]) for i in range(300)]
    assert len(read_onnx(graph_of(tmp_path, made))[0].metadata["problems"]) == 100


def chain(tmp_path: Path, count: int) -> Path:
    made = [
        helper.make_node("Conv", [f"v{i}", "w"], [f"v{i + 1}"], name=f"layer.{i}/Conv", strides=[1, 1], group=1)
        for i in range(count)
    ]
    weight = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2])
    first, last = helper.make_tensor_value_info("v0", 1, [2]), helper.make_tensor_value_info(f"v{count}", 1, [2])
    return save(tmp_path, helper.make_model(helper.make_graph(made, "g", [first, weight], [last])), f"{count}.onnx")


@pytest.mark.slow
def test_reading_takes_time_and_memory_in_proportion_to_the_nodes(tmp_path: Path) -> None:
    def seconds(path: Path) -> float:
        start = time.process_time()
        read_onnx(path)
        return time.process_time() - start

    small, large = chain(tmp_path, 4_000), chain(tmp_path, 32_000)
    ratio = min(seconds(large) for _ in range(2)) / min(seconds(small) for _ in range(4))
    assert ratio < 24, "8 times the nodes; quadratic work would take 64 times the time"
    tracemalloc.start()
    try:
        facts = read_onnx(small)  # the tracer makes everything ten times as slow
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(facts) > 8_000
    assert peak < 4_000 * 2_500, "at most 2.5 kB per node: 250 MB for 100,000"


@pytest.mark.slow
def test_a_cycle_in_a_large_graph_is_found_at_once(tmp_path: Path) -> None:
    model = onnx.load(chain(tmp_path, 20_000))
    model.graph.node[100].input.append("v19000")
    start = time.process_time()
    with pytest.raises(InputError, match=r"layer\.100/Conv -> layer\.101/Conv -> .* -> \.\.\. -> layer\.100/Conv"):
        read_onnx(save(tmp_path, model, "cycle.onnx"))
    assert time.process_time() - start < 30
