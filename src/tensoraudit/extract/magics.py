"""IPython's additions to Python in the cells of a notebook, replaced so that lines and columns of the rest stay.

| in the cell | read as |
| --- | --- |
| `%matplotlib inline`, `!pip install x`, `?obj`, `obj??`, `,f a` | `pass` |
| `files = !ls`, `x = %env HOME` | `files = get_ipython()`: a call whose result is not known |
| `%time loss = step(x)`, `%timeit -n 3 f(x)` | the statement, which IPython runs in the notebook's own names |
| `loss = %time step(x)` | `loss = step(x)` |
| a cell of `%%time`, `%%capture` and other magics that run their body as Python | the body |
| a cell of `%%bash`, `%%html` and other languages | nothing |

What begins a line counts only where a statement may begin: not inside brackets, texts, or after a backslash.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

_BODY_IS_PYTHON: Final = frozenset({"time", "timeit", "capture", "prun", "memit", "wandb", "debug", "heat"})
"""Cell magics that run their body among the notebook's own names."""

_LINE_IS_PYTHON: Final = frozenset({"timeit", "prun", "memit"})
"""Cell magics that run what stands behind them too."""

_BODY_IS_FOREIGN: Final = frozenset({
    "!", "bash", "bigquery", "cmd", "cython", "file", "html", "HTML", "javascript", "js", "julia", "latex", "markdown",
    "perl", "R", "ruby", "script", "sh", "shell", "sql", "svg", "SVG", "sx", "system", "writefile",
})  # fmt: skip

_PECULIAR: Final = re.compile(r"^[ \t]*[%!?,;/]|\?[ \t]*(?:#.*)?$|=[ \t]*[%!]", re.MULTILINE)
_CELL_MAGIC: Final = re.compile(r"%%(!|\w+)[ \t]*(.*)")
_ESCAPED: Final = re.compile(r"([ \t]*)[%!?,;/]")
_TIMED: Final = re.compile(
    r"([ \t]*)(%%?(?:time|timeit|prun|memit)(?:[ \t]+(?:-[sTD][ \t]+\S+|-\w+(?:[ \t]+\d+)?+))*+[ \t]+)(\S.*)"
)
_TIMED_VALUE: Final = re.compile(r"([^=#]+=[ \t]*)(%time[ \t]+)(\S.*)")
_ASSIGNED: Final = re.compile(r"([^=#]+=[ \t]*)[%!]")
_TOKEN: Final = re.compile(r"""\\.|\"\"\"|'''|["'#()\[\]{}]""")
_QUOTES: Final = frozenset({'"""', "'''", '"', "'"})


class ForeignCell(Exception):  # noqa: N818 - a reason, met and reported inside this room
    """The cell may hold Python, but not of this module; the message says what it is."""


def to_python(cell: str) -> str:
    """Return the Python of a cell, with as many lines. Raises ForeignCell for one that nobody here can read."""
    text = _unindented(cell)
    if not _PECULIAR.search(text) or _is_python(text):
        return text
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    magic = _CELL_MAGIC.match(lines[first])
    if magic:
        if not _holds_python(magic[1], magic[2]):
            return "\n" * (len(lines) - 1)
        if magic[1] not in _LINE_IS_PYTHON:
            lines[first] = ""
    return "\n".join(_replaced(lines))


def _holds_python(name: str, rest: str) -> bool:
    if name in _BODY_IS_PYTHON:
        return True
    if name in {"writefile", "file"} and rest.endswith(".py"):
        raise ForeignCell(f"its text is written to {rest.rsplit(maxsplit=1)[-1]}, which is to be read itself")
    if name not in _BODY_IS_FOREIGN:
        raise ForeignCell(f"what %%{name} does with its text is not known")
    return False


def _unindented(cell: str) -> str:
    """IPython takes the indentation of the first line from all lines."""
    first = next((line for line in cell.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    return "\n".join(line.removeprefix(indent) for line in cell.split("\n")) if indent else cell


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _replaced(lines: list[str]) -> Iterator[str]:
    depth, quote, continued, blank = 0, "", False, False
    for line in lines:
        if blank:  # the rest of a shell command that a backslash carried on
            blank = line.endswith("\\")
            yield ""
            continue
        fresh = depth == 0 and not quote and not continued
        after, code = _scan(line, depth, quote)
        plain = _without_magic(line, code) if fresh else line
        if plain != line:
            blank = line.endswith("\\")
        else:
            (depth, quote), continued = after, code.endswith("\\")
        yield plain


def _without_magic(line: str, code: str) -> str:
    """Return a line on which a statement begins as Python; `code` is the line without its comment."""
    timed = _TIMED.match(line)
    if timed and _is_python(f"pass;{timed[3]}"):
        return f"{timed[1]}{'pass;':{len(timed[2])}}{timed[3]}"
    if timed and _is_python(timed[3]):  # `for` and the like follow no semicolon: the columns give way
        return f"{timed[1]}{timed[3]}"
    value = _TIMED_VALUE.match(line)
    if value and _is_python(f"x = {value[3]}"):
        return f"{value[1]}{'':{len(value[2])}}{value[3]}"
    if escaped := _ESCAPED.match(line):
        return f"{escaped[1]}pass"
    if assigned := _ASSIGNED.match(line):
        return f"{assigned[1]}get_ipython()"
    if code.rstrip().endswith("?"):
        return f"{line[: len(line) - len(line.lstrip())]}pass"
    return line


def _scan(line: str, depth: int, quote: str) -> tuple[tuple[int, str], str]:
    """Return the open brackets and the open quote after a line, and the line without its comment."""
    code = line
    for token in _TOKEN.finditer(line):
        text = token[0]
        if quote:
            quote = "" if text == quote else quote
        elif text in _QUOTES:
            quote = text
        elif text == "#":
            code = line[: token.start()]
            break
        elif text in "([{":
            depth += 1
        elif text in ")]}":
            depth = max(0, depth - 1)
    if len(quote) == 1 and not line.endswith("\\"):
        quote = ""
    return (depth, quote), code
