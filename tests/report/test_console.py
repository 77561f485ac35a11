from __future__ import annotations

from dataclasses import replace

import pytest

from tensoraudit.report.clean import clean
from tensoraudit.report.console import render
from tensoraudit.report.letters import large
from tensoraudit.report.style import Style


def test_verdict_comes_first_with_a_large_letter(rich_result):
    lines = render(rich_result, Style(width=100)).splitlines()
    head = [line for line in lines if line][:5]
    assert head[0].startswith("█████  Do not ship to onnx: 1 critical, 1 high, 1 medium and 1 low findings")
    assert [line[:5].rstrip() for line in head] == ["█████", "█", "████", "█", "█"]
    assert "1 break, 1 unverified, 1 noise, 1 equivalent" in " ".join(" ".join(head).replace("█", "").split())


def test_order_of_what_follows(rich_result):
    text = render(rich_result, Style(width=100))
    order = [
        "CRITICAL confirmed EQV-001", "HIGH confirmed ONX-030", "MEDIUM suspected ONX-012", "LOW certain SUP-001",
        "Porting notes", "Conversions", "Equivalence", "Where it leaks", "Probes that did not run", "Refuted by a run",
        "Suppressed", "Notes", "Exit code 1: findings at or above --fail-on high.",
    ]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_finding_has_place_evidence_cause_and_remedy(rich_result):
    text = " ".join(render(rich_result, Style(width=100)).split())
    for words in (
        "at: net.py:42", "measured: output.error_ratio of logits: 12", "cause: Why of ONX-030.",
        "remedy: Remedy of ONX-030.", "fix: eps=1e-5 -> eps=1e-12", "explained by: ONX-030",
        "not proven: an input decides", "local error 1.7e-05, cumulative 0.00031",
        "cause: aten::frobnicate has no translation (net.py:12)",
    ):  # fmt: skip
        assert words in text, words


def test_measurements_beyond_a_few_are_counted(finding_of, result_of):
    from tensoraudit.facts import Measurement

    rows = tuple(Measurement("output.verdict", f"y{n}", "break") for n in range(9))
    text = render(result_of([finding_of("A-1", "high", "certain", evidence=rows)]), Style())
    assert text.count("measured:") == 4
    assert "5 more in the JSON report" in text


@pytest.mark.parametrize("width", [60, 40, 100, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_the_terminal(rich_result, width, unicode):
    lines = render(rich_result, Style(width=width, unicode=unicode)).splitlines()
    assert max(map(len, lines)) <= width


def test_narrow_terminals_lose_nothing(rich_result):
    narrow = "".join(render(rich_result, Style(width=60)).split())
    for words in ("torch_onnx_dynamo@onnxruntime/cpu", "against:pytorch/cpu", "errorratio:12", "graphcritical"):
        assert words in narrow


def test_plain_characters_where_the_encoding_has_no_others(clean_result):
    text = render(clean_result, Style(unicode=False))
    text.encode("ascii")
    assert text.splitlines()[1].startswith(" ###   Ready to move to onnx: nothing was found.")


def test_without_colours_there_is_no_escape_sequence(rich_result):
    text = render(rich_result, Style())
    assert clean(text) == text
    assert "\x1b" in render(rich_result, Style(colors="standard"))


def test_names_from_models_move_no_cursor_and_are_no_markup(rich_result):
    text = render(rich_result, Style(colors="standard", width=200))
    assert "\x1b[2J" not in text
    assert "owned" not in text
    assert "<script>alert('1')</script>[bold]&|`" in text
    assert "\u202e" not in text


def test_quiet_is_verdict_and_findings_only(rich_result):
    text = render(rich_result, Style(quiet=True))
    assert "Do not ship" in text
    assert "EQV-001" in text
    for heading in (
        "Conversions",
        "Equivalence",
        "Where it leaks",
        "Refuted",
        "Suppressed",
        "Porting",
        "Exit code",
        "against",
    ):
        assert heading not in text


def test_verbose_has_tracebacks_and_every_tensor(rich_result):
    assert "Traceback: long" not in render(rich_result, Style())
    text = render(rich_result, Style(verbose=True, width=160))
    assert "traceback: Traceback: long" in text
    assert "the candidate differs from itself" in " ".join(text.split())


def test_what_could_not_be_told_is_no_pass(unsure_result):
    text = " ".join(render(unsure_result, Style()).split())
    assert "Cannot tell whether this is ready for onnx" in text
    assert "required run.dynamo on cpu: crashed (signal 11)" in text
    assert "No output was compared" in text
    assert "graph unknown" in text
    assert "Exit code 3" in text


def test_several_targets_each_have_a_letter_and_a_column(finding_of, result_of):
    findings = [finding_of("A-1", "high", "certain"), finding_of("A-2", "low", "certain", target="jax")]
    text = render(result_of(findings, targets=["onnx", "jax"]), Style())
    assert "target: jax" in text
    assert any(line.split() == ["layer", "onnx", "jax"] for line in text.splitlines())
    assert any(line.split() == ["graph", "high", "low"] for line in text.splitlines())


def test_without_targets_the_findings_are_counted(finding_of, result_of):
    assert "1 high finding" in render(result_of([finding_of("A-1", "high", "certain")], targets=[]), Style())
    assert "Nothing was found." in render(replace(result_of(targets=[])), Style())


def test_letters():
    assert large("C?", unicode=False).splitlines() == [
        " ####  #### ",
        "#          #",
        "#        ## ",
        "#           ",
        " ####    #  ",
    ]
    assert "█" in large("A", unicode=True)
