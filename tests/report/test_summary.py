from __future__ import annotations

import math

import pytest

from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.result import Probe
from tensoraudit.report import summary


def probe(status="ok", reason="", **more):
    return Probe("run.dynamo", "onnxruntime", "", "cpu", status, reason, required=True, target="onnx", **more)


@pytest.mark.parametrize(
    ("severity", "state", "sentence"),
    [
        ("critical", "certain", "Do not ship to onnx: 1 critical finding."),
        ("high", "certain", "Not ready to move to onnx: 1 high finding."),
        ("medium", "certain", "Move to onnx with care: 1 medium finding."),
        ("low", "certain", "Ready to move to onnx, with small remarks: 1 low finding."),
        ("high", "suspected", "Move to onnx with care: 1 high finding (1 not proven)."),
        ("low", "suspected", "Ready to move to onnx: 1 low finding (1 not proven), too mild to count."),
        ("critical", "refuted", "Ready to move to onnx: nothing was found."),
    ],
)
def test_verdict(result_of, finding_of, severity, state, sentence):
    assert summary.verdict(result_of([finding_of("A-1", severity, state)], [probe()]), "onnx") == sentence


def test_verdict_while_a_required_probe_has_not_run(result_of, finding_of):
    missing = [probe("crashed", "signal 11"), probe("timeout")]
    assert summary.verdict(result_of([], missing[:1]), "onnx") == (
        "Cannot tell whether this is ready for onnx: the required probe run.dynamo crashed (signal 11)."
    )
    assert summary.verdict(result_of([finding_of("A-1", "low", "certain")], missing), "onnx") == (
        "Cannot tell whether this is ready for onnx: the required probe run.dynamo crashed (signal 11), "
        "and 1 more did not run. So far: 1 low finding."
    )
    assert summary.verdict(result_of([finding_of("A-1", "critical", "certain")], missing[1:]), "onnx") == (
        "Do not ship to onnx: 1 critical finding. Besides, the required probe run.dynamo timeout."
    )


def test_verdict_when_nothing_was_run_is_no_promise(result_of, finding_of):
    assert summary.verdict(result_of(), "onnx") == "Nothing was run: rules over files alone found nothing."
    assert "found 1 high finding" in summary.verdict(result_of([finding_of("A-1", "high", "likely")]), "onnx")


def test_counts_by_severity(finding_of):
    findings = [finding_of("A", s, t) for s, t in [("high", "likely"), ("critical", "certain"), ("high", "unverified")]]
    assert summary.count_findings(findings) == "1 critical and 2 high findings (1 not proven)"
    assert summary.count_findings([finding_of("A", "low", "advice"), finding_of("A", "low", "refuted")]) == ""


def test_compared_numbers(rich_result, result_of):
    assert list(summary.compared(rich_result, "onnx")) == [
        "torch_onnx_dynamo@onnxruntime/cpu against pytorch/cpu: 2 outputs on 2 input sets: 1 break, 1 unverified, "
        "1 noise, 1 equivalent; largest difference 0.00031, largest error ratio 12."
    ]
    assert list(summary.compared(result_of(), "onnx")) == [
        "No output was compared, so nothing is known of its numbers."
    ]  # fmt: skip


def test_largest_takes_nan_as_the_largest():
    assert summary.largest([1.0, None, 3.0]) == 3.0
    assert math.isnan(summary.largest([1.0, math.nan]))
    assert summary.largest([None]) is None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Site(), ""),
        (Site(path="a.py", line=3), "a.py:3"),
        (Site(path="a.onnx", node="n"), "a.onnx, node n"),
        (Site(tensor="t"), "tensor t"),
        (Site(variable="V"), "variable V"),
    ],
)
def test_place(where, expected):
    assert summary.place(where) == expected


def test_evidence():
    assert summary.evidence(Measurement("a.b", "y", 1.23456, unit="ulp", detail="s")) == "a.b of y: 1.2 ulp (s)"
    assert summary.evidence(Measurement("a.b", "y", ["h"])) == "a.b of y: ['h']"
    long = Measurement("a.b", "y", 1, detail="random-0: much to say")
    assert summary.evidence(long, told="At y: random-0: much to say.") == "a.b of y: 1"
    assert summary.evidence(long, longest=9) == "a.b of y: 1 (random-0: ...)"


def test_required_probes_come_first_among_those_that_did_not_run(rich_result, result_of):
    probes = [Probe("a", "f", "", "cuda", "missing"), probe("crashed"), probe()]
    assert [each.name for each in summary.not_run(result_of([], probes))] == ["run.dynamo", "a"]
    assert [each.device for each in summary.not_run(rich_result)] == ["cuda"]


def test_exit_sentence(result_of):
    assert summary.exit_sentence(result_of([], [probe()], fail_on="low")).endswith("nothing reaches --fail-on low.")
    assert summary.exit_sentence(result_of([], [probe("missing")])).startswith("Exit code 3: cannot tell")
