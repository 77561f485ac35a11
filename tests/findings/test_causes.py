from __future__ import annotations

from tensoraudit.facts import Measurement, Node, Site
from tensoraudit.facts.store import FactStore
from tensoraudit.findings.causes import add_causes, nodes_above
from tensoraudit.findings.result import Equivalence, FirstDivergence


def node(name, inputs, outputs, op="Op"):
    return Node(op, "", 20, name, {}, tuple(inputs), tuple(outputs), "main", Site(path="m.onnx"), "target")


CHAIN = FactStore(
    [
        node("pad", ["x"], ["a"]),
        node("conv", ["a", "w"], ["b"]),
        node("norm", ["b"], ["c"]),
        node("gelu", ["c"], ["y"]),
        node("other", ["x"], ["z"]),
    ]
)


def row(tensor="y", node="norm", line="", target="onnx"):
    first = FirstDivergence("ref", node, line, 1.0, 2.0) if node else None
    return Equivalence(
        "pytorch/cpu", "onnxruntime/cpu", "output", tensor, "random-0", "break", target=target, first_divergence=first
    )


def broken(finding, **more):
    return finding("EQV-001", "critical", "confirmed", where=Site(tensor="y"), **more)


def test_nodes_above_are_nearest_first():
    assert nodes_above(CHAIN, "y") == ["gelu", "norm", "conv", "pad"]
    assert nodes_above(CHAIN, "norm", 1) == ["norm", "conv"]
    assert nodes_above(CHAIN, "nothing") == []
    assert nodes_above(CHAIN, "") == []


def test_node_without_a_name_is_called_by_its_output():
    assert nodes_above(FactStore([node("", ["x"], ["t"])]), "t") == ["t"]


def test_localised_divergence_lists_what_is_near(finding):
    findings = [
        broken(finding),
        finding("ONX-4", where=Site(node="norm")),
        finding("ONX-3", where=Site(node="conv")),
        finding("ONX-9", where=Site(node="other")),
        finding("ONX-8", where=Site(node="gelu")),
    ]
    first, *rest = add_causes(findings, [row()], CHAIN)
    assert first.causes == ("ONX-4", "ONX-3")
    assert all(not each.causes for each in rest)


def test_source_line_of_the_divergence(finding):
    findings = [broken(finding), finding("PY-1", where=Site(path="net.py", line=7))]
    first, _ = add_causes(findings, [row(line="/home/me/net.py:7: y = gelu(x)")], CHAIN)
    assert first.causes == ("PY-1",)


def test_divergence_that_was_not_localised_lists_all_above_the_output(finding):
    findings = [broken(finding), finding("ONX-1", where=Site(node="pad")), finding("ONX-9", where=Site(node="other"))]
    first, *_ = add_causes(findings, [row(node=None)], CHAIN)
    assert first.causes == ("ONX-1",)


def test_refuted_notes_other_targets_and_other_divergences_are_no_causes(finding):
    at = Site(node="norm")
    findings = [
        broken(finding),
        finding("A-1", state="refuted", where=at),
        finding("A-2", state="advice", where=at),
        finding("A-3", target="jax", where=at),
        finding("EQV-002", where=at),
        finding("A-4", target="", where=at),
    ]
    assert add_causes(findings, [row()], CHAIN)[0].causes == ("A-4",)


def test_divergence_of_another_output_is_not_its_own(finding):
    findings = [broken(finding), finding("ONX-4", where=Site(node="norm")), finding("ONX-9", where=Site(node="other"))]
    first, *_ = add_causes(findings, [row(tensor="z", node="other"), row()], CHAIN)
    assert first.causes == ("ONX-4",)


def test_the_cause_of_a_port_explains_every_divergence_and_is_none_itself(finding):
    cause = finding("EQV-30", evidence=(Measurement("port.cause", "norm", "batchnorm-epsilon"),))
    explained, itself = add_causes([broken(finding), cause], [row(node="norm")], CHAIN)
    assert explained.causes == ("EQV-30",)
    assert itself.causes == ()
