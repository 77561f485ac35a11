from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.report.clean import clean, code_span, for_markdown, for_xml, one_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain /layer.0/Conv", "plain /layer.0/Conv"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("\x1bcreset", "reset"),
        ("a\x00b\x07c\x08d\re\x7ff\x85g", "abcdefg"),
        ("tab\tand\nline\r\nstay", "tab\tand\nline\nstay"),
        ("right\u202eleft\u2066", "rightleft"),
        ("naïve 模型 🙂", "naïve 模型 🙂"),
        ("half\udc80", "half\ufffd"),
        (3, "3"),
    ],
)
def test_clean(text, expected):
    assert clean(text) == expected


@given(st.text())
def test_cleaned_text_is_stable_encodable_and_without_control_characters(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert not any(ord(c) < 32 and c not in "\t\n" for c in cleaned)
    assert "\x1b" not in cleaned


@given(st.text())
def test_xml_text_survives_a_parser(text):
    element = ElementTree.Element("a")
    element.text = for_xml(text)
    parsed = ElementTree.fromstring(ElementTree.tostring(element, encoding="unicode"))
    assert (parsed.text or "") == for_xml(text)


@given(st.text())
def test_markdown_never_ends_a_cell_or_starts_a_tag(text):
    escaped = for_markdown(text)
    assert "\n" not in escaped
    assert "<" not in escaped
    assert "|" not in escaped.replace("\\\\", "").replace("\\|", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("a``b`", "``` a``b` ```"), ("", "`  `"), ("a|b", "`a\\|b`")],
)
def test_code_span(text, expected):
    assert code_span(text) == expected


def test_one_line():
    assert one_line(" a\n\n b\tc ") == "a b c"
