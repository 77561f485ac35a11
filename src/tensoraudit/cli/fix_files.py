"""Writing a mended file: whole or not at all, with the mode that it had."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tensoraudit.errors import InputError


def write_file(path: Path, data: bytes, expected: bytes) -> None:
    """Put `data` in the place of `expected`. A file that is read-only, has several names, or no longer holds what was
    read is left alone. Raises InputError."""
    try:
        status = path.stat()
        _require_plain(path, status)
        if path.read_bytes() != expected:
            raise InputError("the file has changed since it was read", where=str(path), remedy="Run the command again.")
        _replace(path, data, status)
    except OSError as error:
        remedy = "Check that the folder can be written to and that the disk has room; the file is as it was."
        raise InputError(f"cannot be written: {error.strerror}", where=str(path), remedy=remedy) from None


def _require_plain(path: Path, status: os.stat_result) -> None:
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        raise InputError("the file is read-only", where=str(path), remedy="Make it writable, or apply --diff by hand.")
    if status.st_nlink > 1:
        message = "the file has other names (hard links), which would keep the old text"
        raise InputError(message, where=str(path), remedy="Apply --diff by hand.")


def _replace(path: Path, data: bytes, status: os.stat_result) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # only root may give a file away; what it may read and write stays all the same
            os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(stat.S_IMODE(status.st_mode))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
