"""A file's bytes without a copy.

Everything in this package reads through a read-only memory map: a header of a few kilobytes costs its pages, not the
size of the file. Knows nothing of formats. (A file that another process cuts short while it is mapped ends this one
with SIGBUS; no reader of weights is spared that, torch and ONNX Runtime map the same way.)
"""

from __future__ import annotations

import mmap
import stat
from pathlib import Path

from tensoraudit.errors import InputError

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def map_file(path: Path) -> memoryview:
    """Return the bytes of a regular, non-empty file as a read-only view that lives as long as it is referenced.

    Raises InputError for a file that is missing, empty, unreadable, a folder or a device (opening a pipe would wait
    for ever).
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"is {_kind(mode)}, no regular file", where=str(path), remedy="Name a file.")
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise InputError("is an empty file", where=str(path), remedy="Save or copy the model again.")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:  # a NUL character in the name, or a file that became empty in between
        raise InputError(f"cannot be opened ({error})", where=repr(str(path)), remedy="Check the path.") from error


def _kind(mode: int) -> str:
    return next((words for test, words in _KINDS if test(mode)), "a folder" if stat.S_ISDIR(mode) else "special")


def _unreadable(path: Path, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        dangling = path.is_symlink()
        what = "is a symbolic link to a file that does not exist" if dangling else "does not exist"
        return InputError(what, where=str(path), remedy="Check the path.")
    return InputError(
        f"cannot be read ({error.strerror})", where=str(path), remedy="Check the path and its permissions."
    )
