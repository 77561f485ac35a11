"""The rules of the grade and of the exit code, one sentence at a time.

One letter per target. Start from the worst open finding: none A, low B, medium C, high D, critical F. `suspected`
and `unverified` count one step milder; `refuted` does not count. While a required probe has not run the grade is
at best C and carries `?`. Beside the letter stands the four-layer map: each cell the worst open severity.

0 every required probe ran and no finding reaches --fail-on; 1 findings at or above --fail-on; 3 a required probe
crashed, timed out or is missing, and nothing else failed.
"""

from __future__ import annotations

import pytest

from tensoraudit.findings.grade import exit_code, grade, grades, layers

STATES_IN_FULL = ["certain", "likely", "confirmed", "contradictory"]


@pytest.mark.parametrize("state", STATES_IN_FULL)
@pytest.mark.parametrize(("severity", "letter"), [("low", "B"), ("medium", "C"), ("high", "D"), ("critical", "F")])
def test_letter_of_the_worst_open_finding(finding, severity, letter, state):
    assert grade([finding("A-1", severity, state)], [], "onnx") == letter


def test_nothing_found_is_a():
    assert grade([], [], "onnx") == "A"


def test_the_worst_of_several_counts(finding):
    findings = [finding("A-1", "low"), finding("A-2", "critical"), finding("A-3", "medium")]
    assert grade(findings, [], "onnx") == "F"


@pytest.mark.parametrize("state", ["suspected", "unverified"])
@pytest.mark.parametrize(("severity", "letter"), [("low", "A"), ("medium", "B"), ("high", "C"), ("critical", "D")])
def test_suspected_and_unverified_count_one_step_milder(finding, severity, letter, state):
    assert grade([finding("A-1", severity, state)], [], "onnx") == letter


@pytest.mark.parametrize("state", ["refuted", "advice"])
@pytest.mark.parametrize("severity", ["low", "medium", "high", "critical"])
def test_refuted_and_notes_do_not_count(finding, severity, state):
    assert grade([finding("A-1", severity, state)], [], "onnx") == "A"


@pytest.mark.parametrize("status", ["crashed", "timeout", "missing", "unsupported", "failed"])
@pytest.mark.parametrize(
    ("severity", "letter"),
    [(None, "C?"), ("low", "C?"), ("medium", "C?"), ("high", "D?"), ("critical", "F?")],
)
def test_while_a_required_probe_has_not_run(finding, probe, severity, letter, status):
    findings = [finding("A-1", severity)] if severity else []
    assert grade(findings, [probe("ok"), probe(status)], "onnx") == letter


def test_a_probe_that_is_not_required_leaves_the_grade_alone(probe):
    assert grade([], [probe("ok"), probe("crashed", required=False)], "onnx") == "A"


def test_each_target_has_its_own_letter(finding, probe):
    findings = [finding("A-1", "critical", target="jax"), finding("A-2", "low", target="onnx")]
    probes = [probe("crashed", target="tensorflow")]
    targets = ["onnx", "jax", "tensorflow"]
    assert grades(findings, probes, targets) == {"onnx": "B", "jax": "F", "tensorflow": "C?"}


def test_what_has_no_target_concerns_all(finding, probe):
    assert grades([finding("A-1", "medium", target="")], [], ["onnx", "jax"]) == {"onnx": "C", "jax": "C"}
    assert grades([], [probe("missing", target="")], ["onnx", "jax"]) == {"onnx": "C?", "jax": "C?"}


def test_map_has_the_worst_severity_of_every_layer(finding):
    findings = [
        finding("A-1", "high", layer="graph"),
        finding("A-2", "low", layer="graph"),
        finding("A-3", "critical", "suspected", layer="hardware"),
        finding("A-4", "critical", "refuted", layer="memory"),
        finding("A-5", "medium", layer="deployment", target="jax"),
    ]
    findings = [_with_layer(each) for each in findings]
    assert layers(findings, [], ["onnx", "jax"]) == {
        "onnx": {"graph": "high", "memory": "none", "hardware": "high", "deployment": "none"},
        "jax": {"graph": "none", "memory": "none", "hardware": "none", "deployment": "medium"},
    }


def _with_layer(finding):
    from dataclasses import replace

    from tensoraudit.findings.finding import Layer

    return replace(finding, layer=Layer(finding.layer))


def test_an_empty_cell_is_unknown_while_a_required_probe_has_not_run(finding, probe):
    found = [_with_layer(finding("A-1", "low", layer="memory"))]
    assert layers(found, [probe("timeout")], ["onnx"]) == {
        "onnx": {"graph": "unknown", "memory": "low", "hardware": "unknown", "deployment": "unknown"}
    }


REACHES = {
    "low": {"low", "medium", "high", "critical"},
    "medium": {"medium", "high", "critical"},
    "high": {"high", "critical"},
    "critical": {"critical"},
    "never": set(),
}


@pytest.mark.parametrize("severity", ["low", "medium", "high", "critical"])
@pytest.mark.parametrize("fail_on", list(REACHES))
def test_findings_at_or_above_fail_on_are_1(finding, probe, severity, fail_on):
    expected = 1 if severity in REACHES[fail_on] else 0
    assert exit_code([finding("A-1", severity)], [probe("ok")], fail_on) == expected


def test_nothing_found_and_every_probe_ran_is_0(probe):
    assert exit_code([], [probe("ok"), probe("missing", required=False)], "low") == 0


@pytest.mark.parametrize("status", ["crashed", "timeout", "missing", "unsupported", "failed"])
def test_required_probe_that_did_not_run_is_3(probe, status):
    assert exit_code([], [probe("ok"), probe(status)], "high") == 3
    assert exit_code([], [probe(status)], "never") == 3


def test_findings_come_before_cannot_tell(finding, probe):
    assert exit_code([finding("A-1", "high")], [probe("crashed")], "high") == 1
    assert exit_code([finding("A-1", "medium")], [probe("crashed")], "high") == 3


@pytest.mark.parametrize(
    ("severity", "state", "code"),
    [
        ("critical", "suspected", 1),
        ("high", "suspected", 0),
        ("high", "unverified", 0),
        ("critical", "refuted", 0),
        ("critical", "advice", 0),
        ("high", "contradictory", 1),
    ],
)
def test_the_gate_counts_as_the_letter_does(finding, severity, state, code):
    assert exit_code([finding("A-1", severity, state)], [], "high") == code
