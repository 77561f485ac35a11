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
| a function `g` or class `Net` of the file `pkg/train.py` | `pkg.train.g`, `pkg.train.Net` |
| `relu(x)` after `from torch.nn.functional import *` | `torch.nn.functional.relu`, ambiguous |

A name with several possible meanings gives one Call per meaning, all of the same `order` and place, all `ambiguous`.
A method's receiver stands in `args["self"]` as written (`Name("model")`), so that rules can ask for the same object.
Attribute reads and writes with several meanings are `?.name`. Items of `os.environ` are the names `os.environ.KEY`.
The result of a call, as an argument, is `Name("torch.arange()")`; an item of x is `Name("x[]")`.
Plain local variables give no Reference unless they are changed in place (`x += 1`, `x[0] = 1`).

Time is linear in the source. Files that cannot be read or parsed come back in `skipped`, with the reason.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tensoraudit.extract.python_files import PythonFile, Skipped, UnreadableFile, find_files, read_text
from tensoraudit.extract.python_scopes import collect, release
from tensoraudit.extract.python_statements import StatementReader
from tensoraudit.extract.python_text import SourceText
from tensoraudit.facts import Fact, Side

__all__ = ["PythonFacts", "Skipped", "read_python", "read_python_text"]

_SCOPES_PER_FILE = 1 << 18
"""More than the definitions that fit into the largest file: the ids of two files never meet."""


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """The facts of all files in the order of their paths, and the files that could not be read."""

    facts: list[Fact]
    skipped: list[Skipped]
    files: int = 0
    lines: int = 0


def read_python(paths: Sequence[Path], *, root: Path | None = None, side: Side = "source") -> PythonFacts:
    """Read the Python files that `paths` name; folders are searched (see `find_files`).

    `root` is the folder to which the paths in facts are relative and, for files outside any package, the folder from
    which modules are named. Nothing is raised for what a file contains.
    """
    facts: list[Fact] = []
    skipped: list[Skipped] = []
    files = lines = 0
    with _without_collector():
        for found in find_files(paths, root):
            if isinstance(found, Skipped):
                skipped.append(found)
                continue
            try:
                text = read_text(found.path)
                facts.extend(_read(text, found, side))
            except UnreadableFile as error:
                skipped.append(Skipped(found.shown, str(error)))
                continue
            files += 1
            lines += text.count("\n") + 1
    return PythonFacts(facts, skipped, files, lines)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Syntax trees and facts hold no cycles: looking for some took a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_python_text(text: str, path: str = "<text>", *, side: Side = "source") -> PythonFacts:
    """Read one text, such as the example of a rule. It is a module without a name: what it defines has bare names."""
    shown = PythonFile(Path(path), path, "")
    try:
        return PythonFacts(_read(text, shown, side), [], 1, text.count("\n") + 1)
    except UnreadableFile as error:
        return PythonFacts([], [Skipped(path, str(error))])


def _read(text: str, file: PythonFile, side: Side) -> list[Fact]:
    try:
        tree = _parse(text)
        module = collect(tree, file.module, is_package=file.is_package)
        try:
            source = SourceText(file.shown, text)
            return StatementReader(module, source, side, _first_scope(file.shown, side)).read_module(tree)
        finally:
            release(module)
    except RecursionError:
        raise UnreadableFile("nested too deeply to read") from None


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes and the like are the file's own business
        try:
            return ast.parse(text)
        except SyntaxError as error:
            place = f" (line {error.lineno})" if error.lineno else ""
            raise UnreadableFile(f"not valid Python{place}: {error.msg}") from None
        except MemoryError:
            raise UnreadableFile("nested too deeply to parse") from None
        except (ValueError, OverflowError) as error:
            raise UnreadableFile(f"not valid Python: {error}") from None


def _first_scope(path: str, side: Side) -> int:
    """Return where the scope ids of a file begin: the same in every run, and apart for every file and side, so that
    facts read one by one can be put together."""
    digest = hashlib.blake2b(f"{side}\0{path}".encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return (int.from_bytes(digest) >> 5) * _SCOPES_PER_FILE  # 53 bits in all: exact in JSON too
