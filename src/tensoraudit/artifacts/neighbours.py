"""Other files that an artifact names: judged before any of them is opened.

A name is a path relative to the artifact's folder and may not leave it: not by `..`, not as an absolute path, not
through a link. An index that names `/etc/passwd` as weights would else have a reader open it.
"""

from __future__ import annotations

import os
import re
import stat
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal

Status = Literal["ok", "missing", "not-a-file", "truncated", "outside", "absolute", "symlink"]


class Neighbours:
    """The files that an index or a model in the folder `root` may name: those in it and below.

    A link may lead to one of `others`, too: a model cache keeps all files of a model in one folder and links them from
    another.
    """

    def __init__(self, root: Path, *others: Path) -> None:
        self.root, self._others = root, others

    def status(self, name: str, least: int = 0) -> Status:
        """Return what is to be said of a name: "ok" for a regular file of at least `least` bytes."""
        windows = PureWindowsPath(name)
        if PurePosixPath(name).is_absolute() or windows.is_absolute() or windows.drive or windows.root:
            return "absolute"
        if _leaves(name):
            return "outside"
        path = self.root / name
        try:
            if not self._stays(path, name):
                return "symlink"
            found = path.stat()
        except (OSError, ValueError, RuntimeError):  # no such file, NUL or too long a name, a loop of links
            return "missing"
        if not stat.S_ISREG(found.st_mode):
            return "not-a-file" if name else "missing"
        return "truncated" if found.st_size < least else "ok"

    def _stays(self, path: Path, name: str) -> bool:
        if "/" not in name and not stat.S_ISLNK(os.lstat(path).st_mode):
            return True  # resolving costs ten times as much, and an index names a thousand files
        target = path.resolve()
        return any(target.is_relative_to(home) for home in self._homes)

    @cached_property
    def _homes(self) -> tuple[Path, ...]:
        return (self.root.resolve(), *(each.resolve() for each in self._others))


def _leaves(name: str) -> bool:
    depth = 0
    for part in re.split(r"[/\\]", name):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False
