"""Where a fact was seen: a place in a file, a node, a tensor or a variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["source", "target", "both"]


@dataclass(frozen=True, slots=True)
class Site:
    """A place to show a user. Lines and columns count from 1; what does not apply is None."""

    path: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    node: str | None = None
    tensor: str | None = None
    variable: str | None = None


NOWHERE = Site()
"""The place of what is measured of a whole model."""
