"""The text of one Python file, and where its syntax nodes stand in it. Columns count characters, not bytes."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from tensoraudit.facts import Site

_STEP = 256
_INSIDE = bytes(range(0x80, 0xC0))
"""UTF-8 bytes that do not begin a character."""

LONGEST_SEGMENT = 200
"""Characters of the head of a `with` or `if` that a block keeps."""


class SourceText:
    """A file as text, with line ends already `\\n`.

    `cells` are (first line, number) of a notebook's cells in the text, in order: places are then within their cell.
    """

    def __init__(self, path: str, text: str, cells: Sequence[tuple[int, int]] = ()) -> None:
        self.path = path
        self.text = text
        self._cells = cells
        self._lines: list[bytes] = []
        self._wide_lines: dict[int, list[int]] = {} if text.isascii() else self._find_wide_lines()

    @property
    def lines(self) -> list[bytes]:
        """The lines as UTF-8, in which `ast` counts its offsets."""
        if not self._lines:
            self._lines = self.text.encode("utf-8", "surrogatepass").split(b"\n")
        return self._lines

    def site(self, node: ast.stmt | ast.expr | ast.excepthandler | ast.pattern) -> Site:
        """Return where `node` stands."""
        line, start = node.lineno, node.col_offset
        end_line, end = node.end_lineno or line, node.end_col_offset or start
        if line in self._wide_lines:
            start = self._characters(line, start)
        if end_line in self._wide_lines:
            end = self._characters(end_line, end)
        if self._cells:
            return self._in_cell(line, start + 1, end_line, end + 1)
        return Site(self.path, line, start + 1, end_line, end + 1)

    def _in_cell(self, line: int, column: int, end_line: int, end_column: int) -> Site:
        first, number = self._cells[max(0, bisect_right(self._cells, line, key=lambda cell: cell[0]) - 1)]
        before = first - 1
        return Site(self.path, line - before, column, end_line - before, end_column, cell=number)

    def _find_wide_lines(self) -> dict[int, list[int]]:
        return {number: [] for number, line in enumerate(self.lines, 1) if not line.isascii()}

    def _characters(self, line: int, offset: int) -> int:
        counts = self._wide_lines[line]
        text = self.lines[line - 1]
        if not counts:  # characters before every step, so that a long line is not counted again for each place on it
            starts = [len(text[at : at + _STEP].translate(None, _INSIDE)) for at in range(0, len(text), _STEP)]
            counts.extend(accumulate(starts, initial=0))
        step = offset // _STEP
        return counts[step] + len(text[step * _STEP : offset].translate(None, _INSIDE))

    def segment(self, node: ast.expr | ast.pattern) -> str:
        """Return the source of `node` on one line, shortened."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        if first == last:
            raw = self.lines[first][node.col_offset : node.end_col_offset]
        else:
            last = min(last, first + 10)
            raw = b"\n".join([self.lines[first][node.col_offset :], *self.lines[first + 1 : last + 1]])
        text = " ".join(raw[: 4 * LONGEST_SEGMENT].decode("utf-8", "ignore").split())
        return text if len(text) <= LONGEST_SEGMENT else f"{text[:LONGEST_SEGMENT]}..."
