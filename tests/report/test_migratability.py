"""The summary at the head of every report: what the target's route takes of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensoraudit.facts import Site
from tensoraudit.findings.result import Migratability, OperatorUse
from tensoraudit.report import console, html, markdown
from tensoraudit.report.migratability import lines
from tensoraudit.report.style import Style


def test_the_sentences(rich_result):
    assert list(lines(rich_result, "onnx")) == [
        "Operator coverage: torch_onnx_dynamo knows 2 of 3 operator types (66 %), 7 of 9 nodes.",
        "Not known to torch_onnx_dynamo: mylib.fft.default x2 (net.py:42, node fft); it converted all the same, and "
        "what was measured decides.",
        "Custom operators: mylib.fft.default x2 (net.py:42, node fft).",
        "Control flow: none.",
    ]
    assert list(lines(rich_result, "tensorflow")) == []


def test_what_cannot_be_told_is_no_coverage_of_nothing(clean_result):
    row = Migratability("onnx", "tf2onnx+onnx2torch", reason="tf2onnx is not installed")
    told = list(lines(replace(clean_result, migratability=(row,)), "onnx"))
    assert told == ["Operator coverage: unknown (tf2onnx is not installed).", "Control flow: unknown."]


def test_all_but_one_is_not_a_hundred_percent(clean_result):
    row = Migratability("onnx", "jax2onnx", 399, 400, 9_999, 10_000, (OperatorUse("frob", 1),))
    told = list(lines(replace(clean_result, migratability=(row,)), "onnx"))
    assert told[0].startswith("Operator coverage: jax2onnx knows 399 of 400 operator types (99 %)")
    assert told[1] == "Not known to jax2onnx: frob."


def test_a_long_list_is_cut_and_says_so(clean_result):
    uses = tuple(OperatorUse(f"op{n}", 1, Site(path="m.py", line=n)) for n in range(1, 9))
    row = Migratability("onnx", "jax2onnx", 0, 8, 0, 8, uses)
    told = list(lines(replace(clean_result, migratability=(row,)), "onnx"))
    assert "op5 (m.py:5) and 3 more in the JSON report" in told[1] and "op6" not in told[1]


@pytest.mark.parametrize("render", [console.render, markdown.render, html.render])
def test_every_report_for_people_says_it_before_the_findings(rich_result, render):
    text = render(rich_result, Style(width=100))
    assert 0 < text.index("2 of 3 operator types") < text.index("Message of ONX-030")
    assert "2 of 3 operator types" not in render(replace(rich_result, migratability=()), Style(width=100))
