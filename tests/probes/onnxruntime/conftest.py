"""Small models built node by node, and a session that needs no worker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tensoraudit.probes.protocol import LocalSession

FLOAT = TensorProto.FLOAT
BF16 = TensorProto.BFLOAT16


class Workbench:
    """Writes models, wraps arrays as samples and reads references back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir()
        self.session = LocalSession(folder / "run")

    value = staticmethod(helper.make_tensor_value_info)
    node = staticmethod(helper.make_node)

    @staticmethod
    def weight(name: str, array: np.ndarray) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(array, name)

    def model(self, nodes, inputs, outputs, weights=(), *, name="model.onnx", opset=20, ir=10, **more) -> str:
        graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(weights))
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir, **more)
        path = self.folder / name
        path.write_bytes(model.SerializeToString())
        return str(path)

    def sample(self, name: str = "s", **arrays):
        given = {key: a if isinstance(a, dict) else self.session.put(np.asarray(a)) for key, a in arrays.items()}
        return {"name": name, "arrays": given}

    def read(self, refs):
        return {name: np.array(self.session.get(ref)) for name, ref in refs.items()}


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


@pytest.fixture
def mlp(bench: Workbench) -> str:
    """logits = relu(x @ w + b), n = argmax(logits); w is 3x5, dynamic batch."""
    generator = np.random.default_rng(7)
    w, b = generator.standard_normal((3, 5), dtype=np.float32), generator.standard_normal(5, dtype=np.float32)
    nodes = [
        bench.node("MatMul", ["x", "w"], ["h"], name="/fc/MatMul"),
        bench.node("Add", ["h", "b"], ["a"], name="/fc/Add"),
        bench.node("Relu", ["a"], ["logits"], name="/act/Relu"),
        bench.node("ArgMax", ["logits"], ["n"], name="/ArgMax", axis=-1, keepdims=0),
    ]
    outputs = [bench.value("logits", FLOAT, ["batch", 5]), bench.value("n", TensorProto.INT64, ["batch"])]
    inputs = [bench.value("x", FLOAT, ["batch", 3])]
    return bench.model(nodes, inputs, outputs, [bench.weight("w", w), bench.weight("b", b)])


@pytest.fixture
def mlp_weights(mlp: str) -> dict[str, np.ndarray]:
    return {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(mlp).graph.initializer}
