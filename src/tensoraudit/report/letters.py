"""Grade letters, five lines high, so that they are seen before anything is read."""

from __future__ import annotations

from typing import Final

_SHAPES: Final = {
    "A": (" ### ", "#   #", "#####", "#   #", "#   #"),
    "B": ("#### ", "#   #", "#### ", "#   #", "#### "),
    "C": (" ####", "#    ", "#    ", "#    ", " ####"),
    "D": ("#### ", "#   #", "#   #", "#   #", "#### "),
    "F": ("#####", "#    ", "#### ", "#    ", "#    "),
    "?": ("#### ", "    #", "  ## ", "     ", "  #  "),
}
COLORS: Final = {"A": "green", "B": "green", "C": "yellow", "D": "red", "F": "bold red"}


def large(grade: str, *, unicode: bool) -> str:
    """Return a grade such as `C?` in five lines."""
    block = "█" if unicode else "#"
    shapes = [_SHAPES[letter] for letter in grade]
    return "\n".join("  ".join(shape[row] for shape in shapes).replace("#", block) for row in range(5))
