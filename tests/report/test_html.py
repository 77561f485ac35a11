from __future__ import annotations

from html.parser import HTMLParser

import pytest

from tensoraudit.report.html import render

VOID = {"meta", "br", "img", "link"}


class Page(HTMLParser):
    """Collects tags, links and text, and checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.words = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"} or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize("name", ["rich_result", "clean_result", "unsure_result"])
def test_page_is_well_formed_and_needs_nothing_else(request, name):
    page = Page(render(request.getfixturevalue(name)))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.links == []


def test_everything_is_said(rich_result):
    text = Page(render(rich_result)).text
    for words in (
        "Do not ship to onnx", "EQV-001", "net.py:42", "Remedy of ONX-030.", "eps=1e-5 -> eps=1e-12",
        "an input decides", "explained by ONX-030", "https://example.org/issues/1",
        "aten::frobnicate has no translation (net.py:12)",
        "1.7e-05", "no CUDA device is active", "Refuted by a run ONX-014", "by hand (comment)", "not read: broken.py",
        "Porting notes", "version 0.1.0", "Exit code 1",
    ):  # fmt: skip
        assert words in text, words


def test_names_from_models_are_text(rich_result):
    text = render(rich_result)
    assert "<script>" not in text
    assert "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;[bold]&amp;" in text
    assert "&amp;lt;" not in text, "escaped twice"
    assert not any(character in text for character in "\x1b\x00\u202e\udc80")


def test_what_could_not_be_told_is_no_pass(unsure_result):
    text = Page(render(unsure_result)).text
    assert "C?" in text
    assert "Cannot tell" in text
    assert "unknown" in text
    assert "required run.dynamo on cpu: crashed (signal 11)" in text
