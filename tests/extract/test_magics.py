"""What IPython adds to Python, and that nothing else is touched: lines, columns and texts stay."""

import ast
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.extract.magics import ForeignCell, to_python


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install torch==2.5 'a?'\nx = 1", "pass\nx = 1"),
        ("!!ls\n?torch\n??torch\ntorch.load?\ntorch.load??  # help", "pass\npass\npass\npass\npass"),
        ("files = !ls *.pt", "files = get_ipython()"),
        ("a, b = %env HOME", "a, b = get_ipython()"),
        ("self.x[0] =!ls", "self.x[0] =get_ipython()"),
        ("if a:\n    !ls\n    %cd x", "if a:\n    pass\n    pass"),
        ("!pip install a \\\n   b \\\n   c\nx = 1", "pass\n\n\nx = 1"),
        (",f a b\n;f a b\n/f a b", "pass\npass\npass"),
        ("%%time\nf()\n!ls", "\nf()\npass"),
        ("\n# a remark\n%%capture out\nf()", "\n# a remark\n\nf()"),
        ("%%bash\nfor f in *; do\n  echo $f\ndone", "\n\n\n"),
        ("%%writefile notes.txt\nfree text?", "\n"),
        ("%time loss = step(x)", "pass; loss = step(x)"),
        ("    %timeit -n 3 -r2 f(x)\n    g()", "pass;            f(x)\ng()"),
        ("%timeit -n 3", "pass"),
        ("%time for x in y: f(x)", "for x in y: f(x)"),
        ("%prun -s cumulative -l 3 f(x)", "pass;                    f(x)"),
        ("y = %time f(x)", "y =       f(x)"),
        ("%%timeit f(x)\ng()", "pass;    f(x)\ng()"),
    ],
)
def test_magics_become_python(cell, expected):
    assert to_python(cell) == expected
    ast.parse(expected)


@pytest.mark.parametrize(
    "cell",
    [
        "x = (a\n% b)",
        'text = """\n!ls\n%cd\nwhat?\n"""',
        "x = a \\\n  % b",
        'x = "what?"',
        "f()  # really?",
        "x = 'a = !b'",
        "d = {'a': 1,\n!= b}",
        "x = 1",
        "",
    ],
)
def test_plain_python_is_left_alone(cell):
    assert to_python(cell) == cell


def test_beside_a_magic_only_the_magic_changes():
    """The text would not be parsed as it stands, so the lines themselves have to tell where statements begin."""
    cell = '%cd x\ntext = """\n!ls\nwhat? \'\n"""\ny = (a\n  % b,  # (\n  "?")\nz = a \\\n  % b\n'
    cell += "w = 'it\\'s # ?' # (\n!ls"
    lines = cell.split("\n")
    lines[0], lines[-1] = "pass", "pass"
    assert to_python(cell) == "\n".join(lines)
    ast.parse("\n".join(lines))


def test_the_statement_of_a_timed_line_keeps_its_column():
    cell = "%time  y = f(x)"
    assert to_python(cell).index("y") == cell.index("y")


def test_the_indentation_of_the_first_line_is_taken_off():
    assert to_python("  x = 1\n  if x:\n    y = 2\n") == "x = 1\nif x:\n  y = 2\n"


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("%%writefile train.py\nimport torch", "train.py"), ("%%mystery\nimport torch", "%%mystery")],
)
def test_python_that_is_not_of_this_module_is_said(cell, reason):
    with pytest.raises(ForeignCell, match=reason):
        to_python(cell)


def test_time_grows_with_the_text():
    assert len(to_python("%cd\n" + "x = ['\\''" * 200_000)) > 0


_PIECES = [
    "!ls",
    "%cd x",
    "%%time",
    "x = 1",
    "'''",
    '"',
    "(",
    ")",
    "\\",
    "?",
    "obj?",
    "# a",
    " ",
    "    ",
    "=!",
    "%time",
    "é",
]


@settings(max_examples=300)
@given(st.lists(st.lists(st.sampled_from(_PIECES), max_size=4).map("".join), max_size=6).map("\n".join))
def test_the_number_of_lines_never_changes(cell):
    with suppress(ForeignCell):
        assert to_python(cell).count("\n") == cell.count("\n")
