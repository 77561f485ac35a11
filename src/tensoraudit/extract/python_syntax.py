"""Parsing of Python text: whatever the parser can raise becomes one reason with a line."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from tensoraudit.extract.python_files import UnreadableFile


class NotPython(UnreadableFile):
    """The text is not valid Python; `line` counts from 1, None when no single line is at fault."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        place = f" (line {line})" if line else ""
        super().__init__(f"not valid Python{place}: {reason}")
        self.reason, self.line = reason, line


def inner_expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions right below `node`, in the order of the source."""
    for name in node._fields:
        value = getattr(node, name, None)
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.expr):
                yield child


def parse(text: str) -> ast.Module:
    """Return the syntax tree of `text`. Raises UnreadableFile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes and the like are the file's own business
        try:
            return ast.parse(text)
        except SyntaxError as error:
            raise NotPython(error.msg, error.lineno) from None
        except (MemoryError, RecursionError):
            raise UnreadableFile("nested too deeply to parse") from None
        except (ValueError, OverflowError) as error:
            raise NotPython(str(error)) from None
