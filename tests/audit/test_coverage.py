"""What a target takes of a model, from facts and a worker that answers what the test says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.control_flow import CONTROL, control_flow
from tensoraudit.audit.coverage import TAKES, measure_coverage, operator_name
from tensoraudit.audit.migration import TOOLS
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.facts import Model, Node, Site
from tensoraudit.findings.result import Conversion
from tensoraudit.language.metrics import METRICS, WORDS
from tensoraudit.options import Options
from tensoraudit.probes.outcome import Outcome
from tensoraudit.routes.coverage import TOOLS as KNOWN


class Workers:
    """A pool whose converters know the operators `known`."""

    def __init__(self, known=(), status="ok", reason=""):
        self.known, self.status, self.reason, self.asked = known, status, reason, []

    def run(self, role, job, params):
        self.asked.append((role, job, params))
        if self.status != "ok":
            return Outcome(self.status, reason=self.reason)
        supported = [each for each in params["operators"] if each in self.known]
        return Outcome("ok", result={"supported": supported})


def node(op, domain="", line=None, side="source", **more):
    return Node(op, domain, None, op, {}, (), (), "main", Site("net.py", line, node=op), side, **more)


def audit(facts, workers, *, framework="pytorch", target="onnx", route="torch_onnx_dynamo", status="ok", **more):
    return Audit(
        options=Options(target=(target,)),
        progress=lambda text: None,
        pool=workers,
        artifact=Artifact("net.py:make", "python_object", framework),
        facts=tuple(facts),
        conversions=(Conversion(target, route, status, ships=True),),
        **more,
    )


def measured(done):
    return {(row.metric, row.subject): row.value for row in done.measurements}


ATEN = [*(node("aten.conv2d.default", "aten", n) for n in (3, 4, 5)), node("aten.relu.default", "aten", 6),
        node("mylib.fft.default", "mylib", 9), node("mylib.fft.default", "mylib", 8),
        node("_operator.getitem", "_operator", 7)]  # fmt: skip


def test_types_and_nodes_are_counted_apart():
    workers = Workers(known={"aten.conv2d.default", "aten.relu.default"})
    done = measure_coverage(audit(ATEN, workers))
    (row,) = done.migratability
    assert (row.types_supported, row.types_total, row.nodes_supported, row.nodes_total) == (2, 3, 4, 6)
    (use,) = row.unsupported
    assert (use.op, use.count, use.at.line) == ("mylib.fft.default", 2, 9) and row.custom == row.unsupported
    assert row.converted and row.route == "torch_onnx_dynamo" and not row.reason
    found = measured(done)
    assert found["coverage.types", "model"] == pytest.approx(2 / 3)
    assert found["coverage.nodes", "model"] == pytest.approx(4 / 6)
    assert found["coverage.unsupported", "mylib.fft.default"] == 2
    assert {row.target for row in done.measurements} == {"onnx"}
    role, job, params = workers.asked[0]
    assert (role, job, params["tool"]) == ("pytorch", "pytorch.coverage", "torch_onnx_dynamo")
    assert [probe.required for probe in done.probes] == [False]


def test_the_first_tool_of_a_path_decides():
    file = Model("onnx", "", 10, {"": 17, "com.microsoft": 1}, (), (), {}, Site("m.onnx"), "both")
    facts = [node("Conv"), node("Gelu", "com.microsoft"), file]
    workers = Workers(known={"Conv"})
    done = measure_coverage(
        audit(facts, workers, framework="onnx", target="jax", route="onnx2torch+torch_export+torchax")
    )
    role, job, params = workers.asked[0]
    assert (role, job) == ("pytorch", "pytorch.coverage")
    assert params == {
        "tool": "onnx2torch", "operators": ["Conv", "com.microsoft::Gelu"], "opsets": {"": 17, "com.microsoft": 1},
    }  # fmt: skip
    assert [use.op for use in done.migratability[0].custom] == ["com.microsoft::Gelu"]


def test_layers_for_a_keras_route_and_operators_for_another():
    facts = [node("Dense", "keras"), node("Scale", "keras", metadata={"module": "net", "registered_name": "net>Scale"}),
             node("MatMul", "tf"), node("Const", "tf")]  # fmt: skip
    layers = Workers(known={"Dense"})
    done = measure_coverage(audit(facts, layers, framework="tensorflow", target="jax", route="keras_jax"))
    assert layers.asked[0][2]["operators"] == ["Dense", "net>Scale"]
    assert [use.op for use in done.migratability[0].custom] == ["net>Scale"]
    graph = Workers(known={"MatMul"})
    done = measure_coverage(audit(facts, graph, framework="tensorflow", target="onnx", route="tf2onnx"))
    assert graph.asked[0][2]["operators"] == ["MatMul"]
    assert (done.migratability[0].types_supported, done.migratability[0].types_total) == (1, 1)


@pytest.mark.parametrize(
    ("facts", "workers", "reason"),
    [
        (ATEN, Workers(status="unsupported", reason="no onnxscript"), "no onnxscript"),
        (ATEN, Workers(status="crashed", reason="signal 11"), "signal 11"),
        ([], Workers(), "its operators are not known"),
        ([node("add", "stablehlo")], Workers(), "the model is known as stablehlo"),
    ],
)
def test_what_cannot_be_told_says_why_and_is_no_pass(facts, workers, reason):
    done = measure_coverage(audit(facts, workers))
    (row,) = done.migratability
    assert reason in row.reason and (row.types_total, row.nodes_total) == (0, 0)
    assert ("coverage.types", "model") not in measured(done)
    assert not any(probe.required for probe in done.probes)


def test_nothing_was_converted():
    done = measure_coverage(replace(audit(ATEN, Workers()), conversions=()))
    assert done.migratability[0].reason == "no converter was tried" and done.measurements == ()


def test_a_comparison_has_no_migration():
    given = replace(audit(ATEN, Workers()), candidate_artifact=Artifact("m.onnx", "onnx", "onnx"))
    assert measure_coverage(given).migratability == ()


# Control flow


def flow(source, target=(), *, status="ok", formats=("jaxpr",)):
    path = Path("/run/model.onnx")
    facts = [node(op, "jax") for op in source]
    facts += [replace(node(op, side="target"), at=Site(str(path))) for op in target]
    facts += [Model(each, "", None, {}, (), (), {}, Site("m"), "source") for each in formats]
    candidate = Candidate("jax2onnx", "onnxruntime", {"path": str(path)}, "onnx", True, path)
    made = audit(facts, Workers(), framework="jax", route="jax2onnx", candidates=(candidate,))
    return control_flow(made, "onnx", Conversion("onnx", "jax2onnx", status, True))


@pytest.mark.parametrize(
    ("source", "target", "word", "text"),
    [
        (["add"], ["Add"], "none", "none"),
        (["scan", "cond"], ["Loop", "If", "Add"], "kept", "kept (cond, scan became If, Loop)"),
        (["while", "while"], ["GRU"], "kept", "kept as operators (while x2 became GRU)"),
        (["scan"], ["Add"], "lost", "frozen or unrolled (scan in the source, none in the target)"),
        ([], [], "unknown", "unknown (the graph of the source is not known)"),
    ],
)
def test_branches_and_loops(source, target, word, text):
    found = flow(source, target)
    assert (found.word, found.text) == (word, text)


def test_control_flow_that_nobody_could_see():
    assert flow(["scan"], status="failed").word == "unknown"
    assert flow(["aten.add.Tensor"], ["Add"], formats=("torch_trace",)).word == "unknown"
    exported = flow(["aten.add.Tensor"], ["Add"], formats=("torch_export",))
    assert exported.word == "none" and "fixed at the sample" in exported.text


# Tables that must fit together


def test_every_converter_has_a_kind_of_graph_and_a_registry():
    assert set(TAKES) == set(TOOLS) == set(KNOWN)


def test_words_and_metrics_are_those_of_the_rule_language():
    assert {metric for metric, probe in METRICS.items() if probe == "coverage"} == {
        "coverage.types", "coverage.nodes", "coverage.unsupported", "coverage.control_flow",
    }  # fmt: skip
    assert set(WORDS["coverage.control_flow"]) == {"none", "kept", "lost", "unknown"}
    assert "scan" in CONTROL and "prim::If" in CONTROL


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (node("aten::conv2d", "aten"), "aten::conv2d"),
        (node("aten.conv2d.default", "aten"), "aten.conv2d.default"),
        (node("cond", "higher_order"), "cond"),
        (node("Gelu", "com.microsoft"), "com.microsoft::Gelu"),
        (node("Conv"), "Conv"),
        (node("FlexErf", "tflite.flex"), "FlexErf"),
        (node("Scale", "keras", metadata={"module": "net"}), "net.Scale"),
    ],
)
def test_names_of_operators(fact, name):
    assert operator_name(fact) == name
