"""A checkpoint on the console: what it is, its tensors as a folded tree, its files and ties, what a resume finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.findings.result import Result
from tensoraudit.report import resumable, summary
from tensoraudit.report.amounts import amount, listed, size
from tensoraudit.report.checkpoint_tree import ROOM, Line, grow, lines, texts
from tensoraudit.report.clean import clean, one_line
from tensoraudit.report.style import Style

SHOWN: Final = 5
"""Files, ties and imports that are named before the rest is counted."""

_GROUPS: Final = ("model", "ema", "optimizer", "scheduler", "scaler", "rng", "loader", "other")
_FRAMEWORKS: Final = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "onnx": "ONNX", "numpy": "NumPy"}


def verdict(result: Result, stored: StoredCheckpoint) -> Iterator[RenderableType]:
    """Yield what it is, how much it holds, and what was found."""
    yield Text(one_line(f"{stored.path}: {described(stored)}"), style="bold")
    yield Text(f"{totals(stored)}.")
    counts = summary.count_findings(result.findings)
    yield Text(f"Rules found {counts}." if counts else "No rule finds fault with what its headers tell.")


def described(stored: StoredCheckpoint) -> str:
    """Return format, framework and writer: `torch_zip of PyTorch, written by torch 2.6`."""
    writer = f", written by {stored.writer}" if stored.writer else ""
    return f"{stored.format} of {_FRAMEWORKS.get(stored.framework, stored.framework)}{writer}"


def held(stored: StoredCheckpoint) -> str:
    """Return tensors and bytes: `104 tensors, 86.7 MiB`."""
    return f"{amount(len(stored.entries), 'tensor')}, {size(sum(entry.stored_bytes for entry in stored.entries))}"


def totals(stored: StoredCheckpoint) -> str:
    """Return tensors, elements, bytes and files: `104 tensors, 22,713,216 elements, 86.7 MiB in 1 file`."""
    elements = sum(entry.numel for entry in stored.entries if not entry.same_as)
    total = sum(entry.stored_bytes for entry in stored.entries)
    files = amount(len(stored.files), "file")
    return f"{amount(len(stored.entries), 'tensor')}, {amount(elements, 'element')}, {size(total)} in {files}"


def body(stored: StoredCheckpoint, style: Style) -> Iterator[RenderableType]:
    """Yield all that stands below the findings."""
    yield from _trees(stored, style)
    yield from _resume(stored)
    yield from _files(stored, style)
    yield from _ties(stored, style)
    yield from _imports(stored)


def _trees(stored: StoredCheckpoint, style: Style) -> Iterator[RenderableType]:
    found: list[Line] = []
    for group in _GROUPS:
        entries = [entry for entry in stored.entries if entry.group == group]
        room = None if style.verbose else ROOM if group == "model" else ROOM // 4
        found += lines(grow(group, entries), room) if entries else []
    if not found:
        return
    head, *rows = texts(found, unicode=style.unicode, width=None if style.verbose else style.width)
    yield Text(f"\n{head}", style="dim")
    for line, text in zip(found, rows, strict=True):
        yield Text(one_line_kept(text), style="" if line.guides else "bold")


def one_line_kept(text: str) -> str:
    """Return a line with its columns as they are, and nothing in it that moves the cursor."""
    return clean(text).replace("\n", " ").replace("\t", " ")


def _resume(stored: StoredCheckpoint) -> Iterator[RenderableType]:
    yield _heading("For a resume")
    found = {name: text for name, text in resumable.parts(stored).items() if text}
    if not resumable.is_for_training(stored):
        yield _line("weights only: the optimiser, the step and all other state of training would begin anew")
        return
    width = max(map(len, found), default=0)
    yield from (_line(f"there    {name:<{width}}  {text}") for name, text in found.items())
    yield _line(f"missing  {', '.join(resumable.missing(stored)) or 'nothing'}")


def _files(stored: StoredCheckpoint, style: Style) -> Iterator[RenderableType]:
    if len(stored.files) < 2:
        return
    held: Counter[str] = Counter()
    tensors: Counter[str] = Counter()
    for entry in stored.entries:
        for part in entry.parts:
            held[part.file] += 0 if entry.same_as else part.bytes
            tensors[part.file] += 1
    yield _heading(amount(len(stored.files), "file"))
    shown = stored.files if style.verbose else stored.files[:SHOWN]
    width = max(map(len, shown))
    yield from (_line(f"{name:<{width}}  {amount(tensors[name], 'piece')}, {size(held[name])}") for name in shown)
    rest = stored.files[len(shown) :]
    if rest:
        sizes = sorted(held[name] for name in rest)
        between = size(sizes[0]) if sizes[0] == sizes[-1] else f"{size(sizes[0])} to {size(sizes[-1])}"
        yield _line(
            f"and {len(rest):,} more with {amount(sum(tensors[name] for name in rest), 'piece')}, {between} each"
        )


def _ties(stored: StoredCheckpoint, style: Style) -> Iterator[RenderableType]:
    ties = [entry for entry in stored.entries if entry.same_as]
    if not ties:
        return
    yield _heading(f"{amount(len(ties), 'tensor')} tied to another")
    shown = ties if style.verbose else ties[:SHOWN]
    yield from (_line(f"{entry.full_name} is {entry.same_as}") for entry in shown)
    if len(ties) > len(shown):
        yield _line(f"and {len(ties) - len(shown):,} more")


def _imports(stored: StoredCheckpoint) -> Iterator[RenderableType]:
    if stored.imports:
        yield _heading("What its pickles want to import")
        yield _line(listed(stored.imports, 4 * SHOWN))


def _heading(text: str) -> RenderableType:
    return Text(f"\n{one_line(text)}", style="bold")


def _line(text: str) -> RenderableType:
    return Padding(Text(one_line_kept(text)), (0, 0, 0, 2))
