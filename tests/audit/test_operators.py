"""Where the operators of a model come from: its file, or its framework's worker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.graph_readers import GRAPH_READERS
from tensoraudit.audit.operators import has_operators, list_operators
from tensoraudit.audit.state import Audit, Sample, Side
from tensoraudit.facts import Model, Node, Site
from tensoraudit.options import Options
from tensoraudit.probes.outcome import Outcome

FIXTURES = Path(__file__).parents[2] / "fixtures"

LISTING = {
    "format": "tf_function",
    "nodes": [{"op": "MatMul", "domain": "tf", "name": "dense/MatMul", "graph": "main",
               "source": {"path": "/elsewhere/net.py", "line": 3}}],
    "configuration": {"module": "keras", "class_name": "Sequential", "config": {"name": "net", "layers": [
        {"module": "keras.layers", "class_name": "Dense", "config": {"name": "dense", "units": 2}},
    ]}},
}  # fmt: skip


class Workers:
    def __init__(self, outcome):
        self.outcome, self.asked = outcome, []

    def put(self, array):
        return {"file": "t0", "shape": list(array.shape)}

    def run(self, role, job, params):
        self.asked.append((role, job, params))
        return self.outcome


def audit(workers, facts=(), role="tensorflow"):
    sample = Sample("user", {"x": np.ones((2, 3), np.float32)}, "user")
    reference = Side(role, f"{role}.run", {"model": {"path": "net.py"}}, f"{role}/cpu")
    return Audit(
        options=Options(), progress=lambda text: None, pool=workers, spec="net.py:make", reference=reference,
        artifact=Artifact("net.py:make", "python_object", "tensorflow"), samples=(sample,), facts=tuple(facts),
    )  # fmt: skip


def test_a_worker_lists_what_no_file_shows():
    workers = Workers(Outcome("ok", result=LISTING))
    done = list_operators(audit(workers))
    role, job, params = workers.asked[0]
    assert (role, job) == ("tensorflow", "tensorflow.operators")
    assert params["model"] == {"path": "net.py"} and params["inputs"]["arrays"]["x"]["shape"] == [2, 3]
    nodes = {each.op: each for each in done.facts if isinstance(each, Node)}
    assert set(nodes) == {"MatMul", "Dense"} and nodes["Dense"].domain == "keras"
    assert nodes["MatMul"].at.path == "/elsewhere/net.py" and nodes["MatMul"].file == "net.py:make"
    assert [each.format for each in done.facts if isinstance(each, Model)] == ["tf_function"]
    assert [(probe.name, probe.required) for probe in done.probes] == [("operators", False)]


def test_layers_alone_are_no_operators():
    layer = Node("Dense", "keras", None, "d", {}, (), (), "main", Site("m.keras"), "source")
    workers = Workers(Outcome("ok", result=LISTING))
    done = list_operators(audit(workers, [layer]))
    assert [each.op for each in done.facts if isinstance(each, Node)] == ["Dense", "MatMul"]


def test_a_graph_that_is_known_is_not_asked_for():
    known = Node("MatMul", "tf", None, "m", {}, (), (), "main", Site("saved_model.pb"), "source")
    workers = Workers(Outcome("ok", result=LISTING))
    assert list_operators(audit(workers, [known])).facts == (known,) and not workers.asked
    target = Node("Gemm", "", None, "m", {}, (), (), "main", Site("m.onnx"), "target")
    assert not has_operators(audit(workers, [target]))


def test_a_model_that_cannot_be_traced_gives_a_reason():
    done = list_operators(audit(Workers(Outcome("failed", reason="the model cannot be traced: TypeError"))))
    assert done.facts == () and done.probes[0].reason == "the model cannot be traced: TypeError"
    assert not done.probes[0].required


@pytest.mark.parametrize(
    ("format_", "file", "domain", "op"),
    [
        ("saved_model", "tensorflow/affine", "tf", "MatMul"),
        ("keras", "tensorflow/dense.keras", "keras", "Dense"),
        ("keras_h5", "tensorflow/dense.h5", "keras", "Dense"),
        ("tflite", "tflite/image.tflite", "tflite", "CONV_2D"),
    ],
)
def test_files_are_read_in_this_process(format_, file, domain, op):
    facts = list(GRAPH_READERS[format_](FIXTURES / file, "source", FIXTURES))
    assert (domain, op) in {(each.domain, each.op) for each in facts if isinstance(each, Node)}
