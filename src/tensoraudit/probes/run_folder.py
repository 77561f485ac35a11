"""The folder of one run: private, for tensors and temporary files, and gone when the run is over.

A run that was killed outright cannot clean up. Its folder may hold many gigabytes, so the next run removes it: the
lock in it is free exactly when its owner is gone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from tensoraudit.errors import InputError

PREFIX = "tensoraudit-"
_LOCK = "lock"
_YOUNG = 60.0  # seconds a folder is left alone, since its owner may be about to take the lock


class RunFolder:
    """A new private folder below the system's folder for temporary files (TMPDIR). Raises InputError."""

    def __init__(self) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
            self._lock = (self.path / _LOCK).open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise InputError(
                f"No folder for temporary files can be made: {problem.strerror}",
                remedy="Free some space, or set TMPDIR to a folder that you may write to.",
            ) from problem

    def remove(self) -> None:
        """Delete the folder and all in it; twice does no harm."""
        remove_tree(self.path)
        self._lock.close()


def remove_tree(folder: Path) -> None:
    """Delete a folder, also when user code left folders in it that forbid it."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for parent, _, _ in os.walk(folder):
            Path(parent).chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Delete the folders of this user's runs that were killed."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        try:
            if _is_abandoned(lock):
                remove_tree(lock.parent)
        except OSError:
            continue  # another run is removing it, or it is another user's


def _is_abandoned(lock: Path) -> bool:
    status = lock.parent.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        return False
    if time.time() - lock.stat().st_mtime < _YOUNG:
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
