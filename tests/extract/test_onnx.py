"""read_onnx against the onnx package's own parse of the same files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from tensoraudit.errors import InputError
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
    assert head.opsets == {each.domain.replace("ai.onnx", "") if each.domain == "ai.onnx" else each.domain: each.version for each in model.opset_import}
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
