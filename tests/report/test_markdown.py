from __future__ import annotations

from tensoraudit.report.markdown import render
from tensoraudit.report.style import Style


def test_everything_is_said(rich_result):
    text = render(rich_result, Style())
    assert text.startswith("# tensoraudit: `net.py:make`\n\n## onnx: grade F\n\n**Do not ship to onnx: ")
    for words in (
        "### critical, confirmed: EQV-001 Title of EQV-001",
        "`net.py:42`: Message of ONX-030.",
        "- **Fix:** `eps=1e-5 -> eps=1e-12`",
        "- **Explained by:** ONX-030",
        "## Porting notes",
        "| layer | onnx |\n| --- | --- |\n| graph | critical |\n| memory | low |",
        "run.dynamo on cuda: missing \\(no CUDA device is active\\)",
        "## Refuted by a run",
        "## Suppressed",
    ):
        assert words in text, words


def test_tables_keep_their_columns(rich_result):
    lines = render(rich_result, Style()).splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) == 13
    for line in tables:
        columns = line.replace("\\\\", "").replace("\\|", "").count("|") - 1
        assert columns in {2, 5, 6}, line


def test_names_from_models_are_text(rich_result):
    text = render(rich_result, Style())
    message = next(line for line in text.splitlines() if "is odd" in line)
    assert "\\[bold\\]&amp;\\|\\`" in message
    assert "&lt;script&gt;" in message
    assert not any(character in text for character in "\x1b\x00\u202e\udc80")


def test_quiet_is_verdict_and_findings_only(rich_result):
    text = render(rich_result, Style(quiet=True))
    assert "## Findings" in text
    for heading in ("Conversions", "Equivalence", "Where it leaks", "Refuted", "Suppressed", "Porting"):
        assert heading not in text


def test_what_could_not_be_told_is_no_pass(unsure_result):
    text = render(unsure_result, Style())
    assert "grade C?" in text
    assert "Cannot tell" in text
    assert "| graph | unknown |" in text
