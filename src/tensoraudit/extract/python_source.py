"""Facts from Python source, without importing any of it.

How a callee is written (see also `python_origins`):

| in the source | `Call.callee` |
| --- | --- |
| `th.load(f)` after `import torch as th` | `torch.load` |
| `opt.step()` after `opt = torch.optim.Adam(...)` | `torch.optim.Adam().step` |
| `self.conv(x)` where `__init__` sets `self.conv = nn.Conv2d(...)` | `torch.nn.Conv2d().__call__` |
| `self.conv(x)` where it is not known | `self.conv` |
| `x.item()` where x is a bare parameter | `?.item` |
| `x.item()` where x is annotated, or came from `torch.relu`, `F.pad`, a layer... | `torch.Tensor().item` |
| `net.half()` where net is of any class known to derive from Module | `torch.nn.Module().half` |
| `f(x)` where f is a bare parameter | `?.__call__` |
| a function `g` or class `Net` of the file `pkg/train.py`, through any re-export | `pkg.train.g`, `pkg.train.Net` |
| `m(x)` in `for m in layers`, where all of `layers` are `nn.Conv2d(...)` | `torch.nn.Conv2d().__call__` |
| `build().half()` where another file's `build` returns a module | `torch.nn.Module().half` |
| `f(3)` after `f = partial(nn.Conv2d, bias=False)` | `torch.nn.Conv2d`, with `splat` |
| `relu(x)` after `from torch.nn.functional import *` | `torch.nn.functional.relu`, ambiguous |

A name with several possible meanings gives one Call per meaning, all of the same `order` and place, all `ambiguous`.
A method's receiver stands in `args["self"]` as written (`Name("model")`), so that rules can ask for the same object.
Attributes of one of several imports give one Reference per meaning too; of one of several values they are `?.name`.
Items of `os.environ` are the names `os.environ.KEY`.
The result of a call, as an argument, is `Name("torch.arange()")`; an item of x is `Name("x[]")`.
Plain local variables give no Reference unless they are changed in place (`x += 1`, `x[0] = 1`).

All files are summarised before any is read (`python_unit`, `python_project`), so that names, return values, attributes,
bases and constants are known across the files of one reading. Positional arguments stand under their names for
functions and classes of the project as well. Time is linear in the source. Files that cannot be read or parsed come
back in `skipped`, with the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from pathlib import Path

from tensoraudit.collection import without_collection
from tensoraudit.extract.notebooks import is_notebook, read_notebook
from tensoraudit.extract.python_files import PythonFile, Skipped, UnreadableFile, find_files, read_text
from tensoraudit.extract.python_outline import Outline
from tensoraudit.extract.python_project import Project
from tensoraudit.extract.python_summary import Summary
from tensoraudit.extract.python_unit import Unit
from tensoraudit.facts import Fact, Side
from tensoraudit.halves import Exchange, alone, in_two

__all__ = ["PythonFacts", "Skipped", "read_python", "read_python_text"]

_KEPT_SOURCE = 8 << 20
"""Characters of source whose syntax trees are kept between the two readings of a project; the trees take some 40 times
as much. Files beyond it are parsed twice."""

_WORTH_A_COPY = 1 << 20
"""Bytes of source; a copy of the process takes as long to make as some 10,000 lines to read."""

_OWN_SHARE = 0.53
"""Of the source: the copy has its facts to pickle besides."""


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """The facts of all files in the order of their paths, the files that could not be read, and those that were."""

    facts: list[Fact]
    skipped: list[Skipped]
    files: int = 0
    lines: int = 0
    paths: tuple[Path, ...] = ()


def read_python(paths: Sequence[Path], *, root: Path | None = None, side: Side = "source") -> PythonFacts:
    """Read the Python files and notebooks that `paths` name; folders are searched (see `find_files`).

    `root` is the folder to which the paths in facts are relative and, for files outside any package, the folder from
    which modules are named. Nothing is raised for what a file contains.
    """
    found = list(find_files(paths, root))
    outline = Outline(file.module for file in found if isinstance(file, PythonFile))

    def work(files: Sequence[PythonFile | Skipped], exchange: Exchange) -> PythonFacts:
        units, summaries, skipped = _survey(files, outline)
        project = Project(chain.from_iterable(exchange(summaries)))
        return _read(units, project, side, skipped)

    with without_collection():
        halves = _halves(found)
        return _joined((halves and in_two(work, *halves)) or (work(found, alone),))


def _halves(found: Sequence[PythonFile | Skipped]) -> tuple[Sequence[PythonFile | Skipped], ...]:
    """Return the files in two parts that take the same time to read; () where it would not be worth a copy."""
    ends = list(accumulate(_size(file) for file in found))
    if not ends or ends[-1] < _WORTH_A_COPY:
        return ()
    middle = bisect_right(ends, _OWN_SHARE * ends[-1])
    return found[:middle], found[middle:]


def _size(file: PythonFile | Skipped) -> int:
    try:
        return file.path.stat().st_size if isinstance(file, PythonFile) else 0
    except OSError:
        return 0  # whoever reads it says why it cannot be


def _joined(parts: Sequence[PythonFacts]) -> PythonFacts:
    """Return the facts of all parts as if there were one."""
    return PythonFacts(
        list(chain.from_iterable(part.facts for part in parts)),
        sorted(chain.from_iterable(part.skipped for part in parts), key=attrgetter("path")),
        sum(part.files for part in parts),
        sum(part.lines for part in parts),
        tuple(chain.from_iterable(part.paths for part in parts)),
    )


def _survey(found: Sequence[PythonFile | Skipped], outline: Outline) -> tuple[list[Unit], list[Summary], list[Skipped]]:
    """Summarise files, so that each can be read with the others known."""
    skipped: list[Skipped] = []
    units: list[Unit] = []
    summaries: list[Summary] = []
    kept = 0
    for file in found:
        if isinstance(file, Skipped):
            skipped.append(file)
            continue
        try:
            text, cells, faults = _text_of(file)
            unit = Unit(file, text, cells)
            summaries.append(unit.summary(outline))
        except UnreadableFile as error:
            skipped.append(Skipped(file.shown, str(error)))
            continue
        skipped.extend(faults)
        units.append(unit)
        kept += len(text)
        if kept > _KEPT_SOURCE:
            unit.forget()
    return units, summaries, skipped


def _read(units: Sequence[Unit], project: Project, side: Side, skipped: list[Skipped]) -> PythonFacts:
    """Return the facts of files that were summarised, with those that could not be."""
    facts: list[Fact] = []
    read: list[Path] = []
    lines = 0
    for unit in units:
        try:
            facts.extend(unit.facts(project, side))
        except UnreadableFile as error:
            skipped.append(Skipped(unit.file.shown, str(error)))
            continue
        read.append(unit.file.path)
        lines += unit.text.count("\n") + 1
    return PythonFacts(facts, skipped, len(read), lines, tuple(read))


def _text_of(file: PythonFile) -> tuple[str, Sequence[tuple[int, int]], list[Skipped]]:
    """Return the text to parse and, of a notebook, where its cells begin in it and those that cannot be read."""
    if not is_notebook(file.path):
        return read_text(file.path), (), []
    notebook = read_notebook(file.path)
    faults = [Skipped(file.shown, fault.reason, fault.number, fault.line) for fault in notebook.faults]
    return notebook.text, notebook.starts, faults


def read_python_text(text: str, path: str = "<text>", *, side: Side = "source") -> PythonFacts:
    """Read one text, such as the example of a rule. It is a module without a name: what it defines has bare names."""
    unit = Unit(PythonFile(Path(path), path, ""), text)
    try:
        return PythonFacts(unit.facts(Outline(), side), [], 1, text.count("\n") + 1)
    except UnreadableFile as error:
        return PythonFacts([], [Skipped(path, str(error))])
