from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tensoraudit.facts import Site
from tensoraudit.report.sarif import artifact_location, log, render

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))


def checked(result):
    data = json.loads(render(result))
    jsonschema.Draft4Validator(SCHEMA).validate(data)
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    return run


def by_rule(run):
    return {each["ruleId"]: each for each in run["results"]}


def test_schema_is_the_one_of_this_version_and_refuses_nonsense():
    assert "2.1.0" in SCHEMA["title"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate({"version": "2.1.0", "runs": [{"tool": {}}]})


@pytest.mark.parametrize("name", ["rich_result", "clean_result", "unsure_result"])
def test_every_result_is_valid(request, name):
    checked(request.getfixturevalue(name))


def test_rules_have_help_and_results_point_at_them(rich_result):
    run = checked(rich_result)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(rule["id"] for rule in rules)
    assert len(rules) == 8
    for each in run["results"]:
        assert rules[each["ruleIndex"]]["id"] == each["ruleId"]
    rule = rules[[rule["id"] for rule in rules].index("ONX-030")]
    assert rule["help"]["text"] == "Why of ONX-030.\n\nRemedy of ONX-030.\n\neps=1e-5  ->  eps=1e-12"
    assert rule["helpUri"] == "https://example.org/issues/1"
    assert rule["defaultConfiguration"]["level"] == "error"


def test_levels_and_kinds_follow_what_counts(rich_result):
    results = by_rule(checked(rich_result))
    assert {rule: (each["kind"], each["level"]) for rule, each in results.items()} == {
        "EQV-001": ("fail", "error"),
        "ONX-030": ("fail", "error"),
        "ONX-012": ("fail", "note"),  # medium, but only suspected
        "SUP-001": ("fail", "note"),
        "ONX-014": ("pass", "none"),
        "PRT-001": ("informational", "none"),
        "ONX-020": ("fail", "error"),
        "ONX-021": ("fail", "warning"),
    }


def test_places(rich_result):
    results = by_rule(checked(rich_result))
    location = results["ONX-030"]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "net.py", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 42, "startColumn": 9}
    assert results["ONX-014"]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20net.py"
    (output,) = results["EQV-001"]["locations"]
    assert output["logicalLocations"] == [{"name": "logits", "fullyQualifiedName": "logits", "kind": "tensor"}]
    assert output["physicalLocation"]["artifactLocation"]["uri"] == "net.py%3Amake", "the artifact itself"
    (node,) = results["ONX-012"]["locations"][0]["logicalLocations"]
    assert "\x1b" not in node["name"]


def test_suppressions_and_baseline(rich_result, clean_result, finding_of, result_of):
    results = by_rule(checked(rich_result))
    assert results["ONX-020"]["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "by hand"}
    ]  # fmt: skip
    assert results["ONX-021"]["suppressions"][0]["kind"] == "external"
    assert (results["ONX-021"]["baselineState"], results["ONX-030"]["baselineState"]) == ("unchanged", "new")
    assert results["ONX-030"]["suppressions"] == []
    assert "baselineState" not in by_rule(checked(result_of([finding_of("A-1", "low", "certain")])))["A-1"]


def test_fingerprints_and_evidence(rich_result):
    result = by_rule(checked(rich_result))["ONX-030"]
    assert result["partialFingerprints"] == {"tensoraudit/v1": rich_result.findings[1].fingerprint}
    assert result["properties"]["evidence"][0]["metric"] == "output.error_ratio"
    assert result["properties"]["state"] == "confirmed"


def test_first_divergence_stands_in_the_message(rich_result):
    text = by_rule(checked(rich_result))["EQV-001"]["message"]["text"]
    assert "First divergence: encoder.layer.0.norm" in text
    assert "net.py:42" in text


def test_execution_is_successful_unless_a_required_probe_did_not_run(rich_result, unsure_result):
    (fine,) = checked(rich_result)["invocations"]
    assert (fine["executionSuccessful"], fine["exitCode"]) == (True, 1)
    notes = {each.get("descriptor", {}).get("id"): each["level"] for each in fine["toolExecutionNotifications"]}
    assert notes == {"probe/run.dynamo": "note", "conversion/torch_onnx_torchscript": "note", None: "note"}
    (unsure,) = checked(unsure_result)["invocations"]
    assert (unsure["executionSuccessful"], unsure["exitCode"]) == (False, 3)
    (note,) = unsure["toolExecutionNotifications"]
    assert note["level"] == "error"
    assert "crashed (signal 11)" in note["message"]["text"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.py", {"uri": "a/b.py", "uriBaseId": "%SRCROOT%"}),
        ("./a.py", {"uri": "a.py", "uriBaseId": "%SRCROOT%"}),
        ("a b#c?.py", {"uri": "a%20b%23c%3F.py", "uriBaseId": "%SRCROOT%"}),
        ("package.module:name", {"uri": "package.module%3Aname", "uriBaseId": "%SRCROOT%"}),
        ("/home/me/ü.onnx", {"uri": "file:///home/me/%C3%BC.onnx"}),
        ("C:\\models\\a b.onnx", {"uri": "file:///C:/models/a%20b.onnx"}),
        ("caf\udce9.py", {"uri": "caf%E9.py", "uriBaseId": "%SRCROOT%"}),
        (".", {"uri": ".", "uriBaseId": "%SRCROOT%"}),
    ],
)
def test_uris(path, expected):
    assert artifact_location(path) == expected


def test_lines_that_make_no_sense_are_left_out(finding_of, result_of):
    findings = [
        finding_of("A-1", "low", "certain", where=Site(path="a.py", line=0)),
        finding_of("A-2", "low", "certain", where=Site(path="a.py", line=5, column=2, end_line=3, end_column=4)),
    ]
    results = by_rule(checked(result_of(findings)))
    assert "region" not in results["A-1"]["locations"][0]["physicalLocation"]
    assert results["A-2"]["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 5, "startColumn": 2, "endColumn": 4,
    }  # fmt: skip


def test_two_equal_results_give_equal_logs(rich_result):
    assert log(rich_result) == log(rich_result)
