from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.facts import Unknown
from tensoraudit.findings.finding import Severity
from tensoraudit.report.json import document, plain, render, without_moving_parts

TOP = [
    "schema", "tool", "artifact", "targets", "grade", "exit_code", "fail_on", "migratability", "layers", "findings",
    "equivalence", "conversions", "probes", "suppressed", "settings", "notes", "timings",
]  # fmt: skip


def test_keys_of_the_contract(rich_result):
    data = json.loads(render(rich_result))
    assert list(data) == TOP
    assert data["schema"] == "tensoraudit-report/1"
    assert (data["targets"], data["grade"], data["exit_code"]) == (["onnx"], {"onnx": "F"}, 1)
    assert data["layers"] == {
        "onnx": {"graph": "critical", "memory": "low", "hardware": "none", "deployment": "low"}
    }  # fmt: skip
    finding = data["findings"][1]
    wanted = {
        "rule", "title", "severity", "state", "layer", "target", "where", "message", "why", "remedy", "fix",
        "references", "evidence", "fingerprint", "reason", "also", "causes",
    }  # fmt: skip
    assert set(finding) == wanted
    assert finding["where"] == {"path": "net.py", "line": 42, "node": None, "tensor": None, "variable": None}
    assert finding["evidence"][0]["value"] == 11.52
    row = data["equivalence"][0]
    assert set(row) == {
        "reference", "candidate", "what", "tensor", "inputs", "verdict", "linf", "error_ratio", "ulp", "top1_changes",
        "first_divergence", "reason", "target", "notes",
    }  # fmt: skip
    assert row["first_divergence"] == {
        "reference_node": "encoder.layer.0.norm (aten.layer_norm.default)", "candidate_node": "node_layer_norm",
        "source_line": "/home/me/net.py:42", "local_error": 1.7e-5, "cumulative_error": 3.1e-4, "reproducer": "repro/1",
        "candidate_line": "",
    }  # fmt: skip
    assert set(data["probes"][0]) == {
        "name", "framework", "version", "device", "status", "reason", "seconds", "peak_memory", "required", "target",
    }  # fmt: skip
    assert data["migratability"] == [
        {
            "target": "onnx", "route": "torch_onnx_dynamo", "types_supported": 2, "types_total": 3,
            "nodes_supported": 7, "nodes_total": 9,
            "unsupported": [
                {"op": "mylib.fft.default", "count": 2, "where": {
                    "path": "net.py", "line": 42, "node": "fft", "tensor": None, "variable": None,
                }},
            ],
            "custom": [
                {"op": "mylib.fft.default", "count": 2, "where": {
                    "path": "net.py", "line": 42, "node": "fft", "tensor": None, "variable": None,
                }},
            ],
            "control_flow": "none", "converted": True, "reason": "",
        },
    ]  # fmt: skip
    assert data["suppressed"][0]["reason"] == "by hand"
    assert data["conversions"][1]["details"]["source"]["line"] == 12


def test_findings_are_worst_first_whatever_order_they_came_in(rich_result):
    backwards = replace(rich_result, findings=tuple(reversed(rich_result.findings)))
    assert render(backwards) == render(rich_result)
    rules = [each["rule"] for each in document(rich_result)["findings"]]
    assert rules == ["EQV-001", "ONX-030", "ONX-012", "SUP-001", "ONX-014", "PRT-001"]


def test_same_result_same_bytes_but_for_time_and_memory(rich_result):
    later = replace(
        rich_result,
        timings={"convert": 9.0},
        probes=tuple(replace(each, seconds=7.0, peak_memory=1) for each in rich_result.probes),
        conversions=tuple(replace(each, seconds=7.0) for each in rich_result.conversions),
        settings=dict(reversed(rich_result.settings.items())),
    )
    assert render(later) != render(rich_result)
    assert without_moving_parts(document(later)) == without_moving_parts(document(rich_result))
    assert list(document(later)["settings"]) == list(document(rich_result)["settings"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), "NaN"),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        (Path("a/b"), "a/b"),
        ({"b": 1, "a": (2, {3})}, {"a": [2, [3]], "b": 1}),
        ({1: "x", "1": "y"}, {"1": "y"}),
        (Severity.HIGH, "high"),
        (Unknown("an input"), {"unknown": "an input"}),
        (object, "<class 'object'>"),
        (True, True),
        (None, None),
    ],
)
def test_plain(value, expected):
    result = plain(value)
    assert result == expected
    json.dumps(result, allow_nan=False)


def test_measured_infinity_is_valid_json(rich_result):
    rows = (replace(rich_result.equivalence[0], linf=math.inf, error_ratio=math.nan),)
    row = json.loads(render(replace(rich_result, equivalence=rows)), parse_constant=pytest.fail)["equivalence"][0]
    assert (row["linf"], row["error_ratio"]) == ("Infinity", "NaN")
