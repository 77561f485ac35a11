"""The Python of a Jupyter notebook (nbformat 3 and 4): its code cells as one module. Knows nothing of facts.

Cells share one scope and run, as read here, from top to bottom. A cell that cannot be read leaves the others alone and
is named in `faults`; what makes the whole file unreadable ends in UnreadableFile. Outputs are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensoraudit.extract.magics import ForeignCell, to_python
from tensoraudit.extract.python_files import LARGEST_FILE, UnreadableFile, read_bytes
from tensoraudit.extract.python_syntax import NotPython, parse

SUFFIX: Final = ".ipynb"

LARGEST_NOTEBOOK: Final = 128 << 20
"""Bytes, outputs included: about the most that a browser still opens."""

_CELL_TYPES: Final = ("code", "markdown", "raw", "heading", "html")

MOST_VALUES: Final = 4_000_000
"""Values in the JSON. An embedded image is one and a plot of a million points is two million; each may take 60 bytes
of memory, so that a file of empty lists cannot take more than a few hundred megabytes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell as Python. `number` counts all cells of the notebook, of any kind, from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class CellFault:
    """A code cell that was not read: its number, the line within it where that is known, and why."""

    number: int
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = f"cell {self.number}, line {self.line}" if self.line else f"cell {self.number}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code cells that are Python, and those that could not be read."""

    cells: tuple[Cell, ...]
    faults: tuple[CellFault, ...]

    @property
    def text(self) -> str:
        """All cells as one module."""
        return "\n".join(cell.text for cell in self.cells)

    @property
    def starts(self) -> tuple[tuple[int, int], ...]:
        """For each cell the line of `text` on which it begins, and its number."""
        lines, found = 1, []
        for cell in self.cells:
            found.append((lines, cell.number))
            lines += cell.text.count("\n") + 1
        return tuple(found)


def is_notebook(path: Path) -> bool:
    """Tell whether a file is read as a notebook; its name decides, as for Jupyter."""
    return path.suffix.lower() == SUFFIX


def largest_file(path: Path) -> int:
    """Return how many bytes of a file are read at most; a larger one is refused."""
    return LARGEST_NOTEBOOK if is_notebook(path) else LARGEST_FILE


def read_notebook(path: Path) -> Notebook:
    """Read a notebook file. Raises UnreadableFile."""
    limit = f"larger than {LARGEST_NOTEBOOK >> 20} MB: clear its outputs"
    return notebook_from(read_bytes(path, largest_file(path), limit))


def notebook_from(data: bytes) -> Notebook:
    """Read the bytes of a notebook. Raises UnreadableFile."""
    document = _json(data)
    _require_python(document)
    cells: list[Cell] = []
    faults: list[CellFault] = []
    for number, source in _code_cells(document):
        try:
            cells.append(_cell(number, source))
        except (UnreadableFile, ForeignCell) as error:
            reason = f"not valid Python: {error.reason}" if isinstance(error, NotPython) else str(error)
            faults.append(CellFault(number, getattr(error, "line", None), reason))
    if faults and not cells:
        more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UnreadableFile(f"none of its code cells can be read; {faults[0]}{more}")
    if sum(len(cell.text) for cell in cells) > LARGEST_FILE:
        raise UnreadableFile(
            f"its code cells hold more than {LARGEST_FILE >> 20} MB: data, not code that a person wrote"
        )
    return Notebook(tuple(cells), tuple(faults))


def _cell(number: int, source: Any) -> Cell:
    if isinstance(source, UnreadableFile):
        raise source
    text = "".join(source) if isinstance(source, list) and all(isinstance(part, str) for part in source) else source
    if not isinstance(text, str):
        raise UnreadableFile("its source is neither a text nor a list of texts")
    if "\0" in text:
        raise UnreadableFile("contains NUL characters")
    text = to_python(text.replace("\r\n", "\n").replace("\r", "\n"))
    parse(text)
    return Cell(number, text)


def _json(data: bytes) -> Mapping[str, Any]:
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise UnreadableFile("holds more values than a notebook that a person wrote: clear its outputs")
    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"not valid utf-8 at byte {error.start}") from None
    except RecursionError:
        raise UnreadableFile("its JSON is nested too deeply") from None
    except ValueError as error:
        raise UnreadableFile(f"no notebook: its JSON is broken: {error}") from None
    if not isinstance(document, dict):
        raise UnreadableFile("no notebook: its JSON is not an object")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableFile(f"no notebook: the key {twice[:40]!r} stands twice in one object of its JSON")
    return found


def _require_python(document: Mapping[str, Any]) -> None:
    version = document.get("nbformat")
    if version not in (3, 4):
        told = f"its nbformat is {version!r:.20}" if "nbformat" in document else "it has no nbformat"
        raise UnreadableFile(f"no notebook that can be read here: {told}, not 3 or 4")
    metadata = _mapping(document.get("metadata"))
    stated = (_mapping(metadata.get("language_info")).get("name"), _mapping(metadata.get("kernelspec")).get("language"))
    language = next((name for name in stated if isinstance(name, str) and name), "python")
    if not _is_python(language):
        raise UnreadableFile(f"its language is {language[:40]}, not Python")


def _is_python(language: Any) -> bool:
    return isinstance(language, str) and language.lower().removeprefix("i").startswith("python")


def _code_cells(document: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield number and source of every code cell, or why nobody can tell whether it is one. nbformat 3 has worksheets,
    and calls the source `input`."""
    old = document["nbformat"] == 3
    sheets = document.get("worksheets") if old else [document]
    if not isinstance(sheets, list):
        raise UnreadableFile("no notebook: its worksheets are not a list")
    number = 0
    for sheet in sheets:
        rows = _mapping(sheet).get("cells")
        if not isinstance(rows, list):
            raise UnreadableFile("no notebook: its cells are not a list")
        for row in rows:
            number += 1
            cell = _mapping(row)
            kind = cell.get("cell_type")
            if kind == "code" and _is_python(cell.get("language", "python") if old else "python"):
                yield number, cell.get("input" if old else "source")
            elif kind not in _CELL_TYPES:
                yield number, UnreadableFile(f"its cell_type is {kind!r:.40}, which is not known")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
