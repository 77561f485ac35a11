"""Places count characters, against Python's own count."""

import ast
import time

from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.extract.python_text import SourceText


@given(st.text(alphabet="aé€😀 ", max_size=700))
def test_columns_count_characters(text):
    source = f"x = '{text}'; f()"
    call = ast.parse(source).body[1]
    site = SourceText("a.py", source).site(call)
    assert (site.column, site.end_column) == (source.index("f()", len(text) + 6) + 1, len(source) + 1)


def test_only_lines_that_need_it_are_counted():
    source = "é = 1\nf()\n'é', g()"
    nodes = ast.parse(source).body
    text = SourceText("a.py", source)
    assert [(text.site(node).line, text.site(node).column, text.site(node).end_column) for node in nodes] == [
        (1, 1, 6), (2, 1, 4), (3, 1, 9),
    ]  # fmt: skip


def test_one_long_line_costs_no_more_than_many():
    source = "x = ['é', " + ", ".join(["f()"] * 50_000) + "]"
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    text = SourceText("a.py", source)
    start = time.perf_counter()
    assert text.site(calls[-1]).column == source.rindex("f()") + 1
    assert len({text.site(call).column for call in calls}) == 50_000
    assert time.perf_counter() - start < 30  # counting from the start of the line each time takes minutes


def test_a_segment_is_one_short_line():
    source = "f(a,\n   'é')\n" + "g(" + "a" * 500 + ")"
    first, second = (node.value for node in ast.parse(source).body)
    text = SourceText("a.py", source)
    assert text.segment(first) == "f(a, 'é')"
    assert text.segment(second) == f"g({'a' * 198}..."
