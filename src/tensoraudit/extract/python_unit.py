"""One Python file on its two ways through the reader: first its summary, for the other files of the project, then its
facts, with theirs known."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tensoraudit.extract.python_files import PythonFile, UnreadableFile
from tensoraudit.extract.python_inference import Inference
from tensoraudit.extract.python_outline import Outline
from tensoraudit.extract.python_scopes import ModuleTable, collect, enter, release
from tensoraudit.extract.python_statements import StatementReader
from tensoraudit.extract.python_summarise import summarise
from tensoraudit.extract.python_summary import Summary
from tensoraudit.extract.python_syntax import parse
from tensoraudit.extract.python_text import SourceText
from tensoraudit.facts import Fact, Side

_SCOPES_PER_FILE = 1 << 18
"""More than the definitions that fit into the largest file: the ids of two files never meet."""


@dataclass(slots=True, eq=False)
class Unit:
    """A file that was read. `cells` are where a notebook's begin in the text; `tree` and `module` are kept from the
    first way to the second while there is room for them (`Unit.forget`)."""

    file: PythonFile
    text: str
    cells: Sequence[tuple[int, int]] = ()
    tree: ast.Module | None = field(default=None, repr=False)
    module: ModuleTable | None = field(default=None, repr=False)

    def summary(self, outline: Outline) -> Summary:
        """Return what other files may know of this one. Raises UnreadableFile."""
        try:
            module = self._enter(outline)[1]
            return summarise(module, Inference(module))
        except RecursionError:
            self.forget()
            raise UnreadableFile("nested too deeply to read") from None

    def facts(self, world: Outline, side: Side) -> list[Fact]:
        """Return the facts of this file in the project `world`, and forget its tree. Raises UnreadableFile."""
        try:
            tree, module = self._enter(world)
            source = SourceText(self.file.shown, self.text, self.cells)
            return StatementReader(module, source, side, first_scope(self.file.shown, side)).read_module(tree)
        except RecursionError:
            raise UnreadableFile("nested too deeply to read") from None
        finally:
            self.forget()

    def _enter(self, world: Outline) -> tuple[ast.Module, ModuleTable]:
        if self.tree is None or self.module is None:
            self.tree = parse(self.text)
            self.module = collect(self.tree, self.file.module, is_package=self.file.is_package, world=world)
        else:
            enter(self.module, world)
        return self.tree, self.module

    def forget(self) -> None:
        """Let the tree and tables go. They hold references to each other, which are cut."""
        if self.module is not None:
            release(self.module)
        self.tree = self.module = None


def first_scope(path: str, side: Side) -> int:
    """Return where the scope ids of a file begin: the same in every run, and apart for every file and side, so that
    facts read one by one can be put together."""
    digest = hashlib.blake2b(f"{side}\0{path}".encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return (int.from_bytes(digest) >> 5) * _SCOPES_PER_FILE  # 53 bits in all: exact in JSON too
