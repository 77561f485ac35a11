"""Artifacts that are named, not stored: `file.py:name` and `package.module:name`; and what to say of a missing path.

Looks at the file system only. A module is not looked up, for finding `a.b` would import `a`.
"""

from __future__ import annotations

import keyword
import re
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Final

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.errors import InputError

_WINDOWS: Final = re.compile(r"^[A-Za-z]:[\\/]")
_EXAMPLE: Final = "Write file.py:name or package.module:name, for example model.py:build."


def exists(path: Path) -> bool:
    """Whether there is something under that path, if only a link that leads nowhere."""
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):  # too long a name, or a NUL in it
        return False


def artifact_from_name(spec: str) -> Artifact:
    """Return the Python object that `spec` names. Raises InputError when it names none, or a file that is missing."""
    head, colon, name = spec.rpartition(":")
    if not colon or "://" in spec or _WINDOWS.match(spec):
        raise _missing(spec)
    if head.endswith(".py") or "/" in head or "\\" in head:
        path = Path(head)
        if not exists(path):
            raise _missing(head)
        _check_attribute(spec, name)
        _check_source(path)
        return Artifact(spec, "python_object", "pytorch", path, attribute=name, size=path.stat().st_size)
    if Path(head).is_file():
        message = f"{head!r} is a file, but an object can only be named in a .py file or a module"
        raise InputError(message, where=spec, remedy=_EXAMPLE)
    _check_attribute(spec, name)
    if not _is_dotted(head):
        raise InputError(f"{head!r} is no module name", where=spec, remedy=_EXAMPLE)
    return Artifact(spec, "python_object", "pytorch", module=head, attribute=name)


def _check_attribute(spec: str, name: str) -> None:
    if not name:
        raise InputError("no name after the colon", where=spec, remedy=_EXAMPLE)
    if not _is_dotted(name):
        raise InputError(f"{name!r} is no name of a Python object", where=spec, remedy=_EXAMPLE)


def _check_source(path: Path) -> None:
    if path.is_dir():
        raise InputError("is a folder; an object is named in a file", where=str(path), remedy=_EXAMPLE)
    if path.suffix != ".py":
        raise InputError("is no .py file, so it holds no objects to name", where=str(path), remedy=_EXAMPLE)
    if b"\x00" in bytes(map_file(path)[:4096]):
        raise InputError("is named .py, but is no text", where=str(path), remedy=_EXAMPLE)


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _missing(spec: str) -> InputError:
    if "://" in spec:
        return InputError("is a URL; nothing is downloaded here", where=spec, remedy="Fetch the file and name it.")
    if not spec.strip():
        return InputError("no artifact was named", remedy="Name a file, a folder, file.py:name or package.module:name.")
    remedy = f"Did you mean {near!r}?" if (near := _near(spec)) else "Check the path."
    if _is_dotted(spec) and "." in spec:
        remedy += " An object of an installed package is written package.module:name."
    return InputError("does not exist", where=spec, remedy=remedy)


def _near(spec: str) -> str | None:
    """Return the path beside the missing one whose name is most like it."""
    path = Path(spec)
    try:
        found = (entry.name for entry in path.parent.iterdir())
        names = list(islice((name for name in found if name[0] != "." or path.name[:1] == "."), 2_000))
    except (OSError, ValueError):
        return None
    close = get_close_matches(path.name, names, n=1)
    return str(path.parent / close[0]) if close else None
