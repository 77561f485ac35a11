"""Where a fact was seen: a place in a file, a node, a tensor or a variable."""

from __future__ import annotations

from typing import Literal

from tensoraudit.facts.record import record

Side = Literal["source", "target", "both"]


@record
class Site:
    """A place to show a user. Lines and columns count from 1; what does not apply is None.

    `cell` is the number of a notebook's cell, from 1 over all cells of any kind; `line` then counts within the cell.
    """

    path: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    node: str | None = None
    tensor: str | None = None
    variable: str | None = None
    cell: int | None = None


NOWHERE = Site()
"""The place of what is measured of a whole model."""
