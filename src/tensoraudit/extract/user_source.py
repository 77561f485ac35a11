"""Which line of the user's own source a stack of frames comes down to. Knows nothing of model formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_INSIDE_TORCH: Final = re.compile(
    r"(?:^|[/\\](?:site|dist)-packages[/\\])torch[/\\]|[/\\]torch[/\\]nn[/\\]modules[/\\]"
)
"""PyTorch's own files: installed, given relative to its package, or in a checkout."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the original source: its file, number from 1, and text ("" when the model does not keep it)."""

    path: str
    line: int
    text: str


def choose_line(lines: Iterable[SourceLine]) -> SourceLine | None:
    """Return the first of `lines` (innermost frame first) that is in a file and outside torch."""
    return next((line for line in lines if not line.path.startswith("<") and not _INSIDE_TORCH.search(line.path)), None)


def shortener(root: Path | None) -> Callable[[str], str]:
    """Return what makes a path relative to `root` where it lies inside it."""
    if root is None:
        return lambda path: path
    prefix = f"{root.absolute().as_posix()}/"
    return lambda path: path.removeprefix(prefix)
