from __future__ import annotations

import pytest

from tensoraudit.facts import Site
from tensoraudit.findings.places import is_nowhere, on_line, parse_source_line, same_place


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Site(path="a.py", line=3), Site(path="a.py", line=3, column=9), True),
        (Site(path="a.py", line=3), Site(path="a.py", line=4), False),
        (Site(path="a.py", line=3), Site(path="b.py", line=3), False),
        (Site(path="x.onnx", node="n"), Site(path="y.onnx", node="n"), True),
        (Site(node="n"), Site(tensor="n"), False),
        (Site(variable="V"), Site(variable="V"), True),
        (Site(path="m.pt"), Site(path="m.pt"), True),
        (Site(path="m.pt"), Site(path="m.pt", line=3), False),
        (Site(), Site(), False),
    ],
)
def test_same_place(first, second, same):
    assert same_place(first, second) is same
    assert same_place(second, first) is same


def test_nowhere():
    assert is_nowhere(Site())
    assert not is_nowhere(Site(path="a"))
    assert not is_nowhere(Site(tensor="t"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/net.py:12", ("/a/net.py", 12)),
        ("net.py:12: y = f(x)[1:2]", ("net.py", 12)),
        ("C:\\a\\net.py:7", ("C:\\a\\net.py", 7)),
        ("", None),
        ("aten.add", None),
    ],
)
def test_parse_source_line(text, expected):
    assert parse_source_line(text) == expected


def test_on_line_takes_relative_and_absolute_paths_and_spans():
    site = Site(path="pkg/net.py", line=10, end_line=12)
    assert on_line(site, "/home/me/pkg/net.py", 11)
    assert on_line(Site(path="/home/me/pkg/net.py", line=10), "pkg/net.py", 10)
    assert not on_line(site, "/home/me/other/net.py", 11)
    assert not on_line(site, "/home/me/pkg/net.py", 13)
    assert not on_line(site, "xnet.py", 11)
    assert not on_line(Site(path="net.py"), "net.py", 1)
