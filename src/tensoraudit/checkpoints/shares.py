"""The comparison of blocks, shared by two threads: one block is looked at here, the next one beside it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np

from tensoraudit.checkpoints.element_types import Array, ElementType
from tensoraudit.checkpoints.rounding import Rounding
from tensoraudit.checkpoints.verdicts import Tally
from tensoraudit.checkpoints.workspace import STEP, Workspace

Workspaces = tuple[Workspace, Workspace]
ROWS: Final = 4
"""Rows of a workspace that a share needs."""


class Share:
    """What one thread sees of two tensors: sums and extremes, and whether all of it is a cast."""

    def __init__(self, types: tuple[ElementType, ElementType], workspace: Workspace) -> None:
        names = types[0].name, types[1].name
        self._types, self._workspace = types, workspace
        self.is_cast = names[0] != names[1]
        self.tally = Tally(names, loss=self.is_cast, workspace=workspace)
        self._rounding = Rounding(types, workspace)

    def add(self, reference: Array, candidate: Array) -> None:
        """Take in one block of words, in parts that a cache holds."""
        for start in range(0, reference.size, STEP):
            words = reference[start : start + STEP], candidate[start : start + STEP]
            values = self._numbers(0, words[0]), self._numbers(1, words[1])
            self.tally.add(*values)
            self.is_cast = self.is_cast and self._rounding.holds(words, values)

    @property
    def is_known(self) -> bool:
        """Whether `is_cast` was found by rounding; if not, it only says that the types differ."""
        return self._rounding.is_known

    def _numbers(self, side: int, words: Array) -> Array:
        kind = self._types[side]
        if kind.widen_into is None:
            return kind.widen(words)
        return kind.widen_into(words, self._workspace.row(2 + side, words.size, np.float32))


class Shares:
    """Two shares, added up at the end. A block must stay as it is while the two after it are taken in."""

    def __init__(
        self, thread: ThreadPoolExecutor, types: tuple[ElementType, ElementType], workspaces: Workspaces
    ) -> None:
        self.own, self._other = (Share(types, workspace) for workspace in workspaces)
        self._thread = thread
        self._running: Future[None] | None = None
        self._is_others_turn = False

    def add(self, reference: Array, candidate: Array) -> None:
        """Take in one block of words of each side."""
        if self._is_others_turn:
            self._wait()
        if self._is_others_turn and reference.size >= STEP:
            self._running = self._thread.submit(self._other.add, reference, candidate)
        else:
            self.own.add(reference, candidate)
        self._is_others_turn = not self._is_others_turn

    def finish(self) -> Share:
        """Return all of it as one share."""
        self._wait()
        self.own.tally.take(self._other.tally)
        self.own.is_cast = self.own.is_cast and self._other.is_cast
        return self.own

    def _wait(self) -> None:
        if self._running is not None:
            self._running.result()
            self._running = None
