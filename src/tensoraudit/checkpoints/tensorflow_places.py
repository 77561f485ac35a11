"""Where a TensorFlow checkpoint is: from a prefix, an index, a data file, or a folder and its `checkpoint` file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.checkpoints.schema import Observation
from tensoraudit.checkpoints.sstable import TableError, is_table, items
from tensoraudit.errors import InputError

INDEX: Final = ".index"
_STATE: Final = "checkpoint"
_MOST_STATE: Final = 1 << 20
_MOST_FILES: Final = 100_000
_MOST_LISTED: Final = 1_000
_DATA: Final = re.compile(r"\.data-\d{5,}-of-\d{5,}$")
_LINE: Final = re.compile(rb'^\s*(model_checkpoint_path|all_model_checkpoint_paths)\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.M)
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|.)")
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint's prefix, and what the folder's state file says; `state` is its text, None without one."""

    prefix: Path
    state: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    observations: tuple[Observation, ...] = ()


def is_checkpoint(path: Path) -> bool:
    """Whether something of a TensorFlow checkpoint is named. Never raises."""
    try:
        if path.is_dir():
            return _state_of(path) is not None or next(_prefixes(path), None) is not None
        if _prefix_of(path) is not None or _is_old(path):
            return True
        return path.name == _STATE and _state_of(path.parent) is not None
    except (OSError, ValueError):
        return False


def find_checkpoint(path: Path) -> Place:
    """Return the checkpoint that a path names; of a folder the one that its state file names, or else the newest.

    Raises InputError where it names none, or where nothing of what the state file names is there.
    """
    if _is_old(path):
        raise _of_old_form(path)
    prefix = None if path.is_dir() else _prefix_of(path)
    if prefix is None:
        return _in_folder(path if path.is_dir() else path.parent)
    if not _index_of(prefix).is_file():
        message = "is a data file of a checkpoint without its index"
        raise InputError(message, where=str(path), remedy=f"Put {prefix.name}{INDEX} beside it.")
    return Place(prefix)


def _index_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + INDEX)


def _prefix_of(path: Path) -> Path | None:
    """The prefix that a file belongs to, or that is named itself."""
    if path.name.endswith(INDEX) and path.is_file():
        return path.with_name(path.name.removesuffix(INDEX)) if _is_index(path) else None
    if _DATA.search(path.name):
        return path.with_name(_DATA.sub("", path.name))
    return path if path.name and not path.exists() and _is_index(_index_of(path)) else None


def _is_index(path: Path) -> bool:
    """Whether a file is the index of a checkpoint, and no table of another program."""
    try:
        return next(items(map_file(path)), (b"?", b""))[0] == b""
    except (InputError, TableError):
        return path.name.endswith(INDEX) and _damaged(path)


def _is_old(path: Path) -> bool:
    """Whether a file is a checkpoint of TensorFlow's first form, a single table."""
    if path.name.endswith(INDEX) or not path.is_file():
        return False
    try:
        view = map_file(path)
        return is_table(view) and next(items(view), (b"?", b""))[0] == b""
    except (InputError, TableError):
        return False


def _of_old_form(path: Path) -> InputError:
    message = "is a checkpoint of TensorFlow's first form, which no TensorFlow writes since 1.0 unless it is asked to"
    remedy = "Restore it in TensorFlow and save it with tf.compat.v1.train.Saver(write_version=2)."
    return InputError(message, where=str(path), remedy=remedy)


def _damaged(path: Path) -> bool:
    """Whether a file that is no table has data files of a checkpoint beside it: then it is a damaged index."""
    start = path.name.removesuffix(INDEX) + ".data-"
    return path.is_file() and any(each.name.startswith(start) for each in islice(path.parent.iterdir(), _MOST_FILES))


def _prefixes(folder: Path) -> Iterator[Path]:
    for path in islice(folder.iterdir(), _MOST_FILES):
        if path.name.endswith(INDEX) and path.is_file() and _is_index(path):
            yield path.with_name(path.name.removesuffix(INDEX))


def _state_of(folder: Path) -> tuple[str, list[str]] | None:
    """(the newest checkpoint, all of them) as the state file names them; None where there is none."""
    path = folder / _STATE
    if not path.is_file():
        return None
    with path.open("rb") as file:
        found = _LINE.findall(file.read(_MOST_STATE))
    newest = [_unescaped(text) for name, text in found if name == b"model_checkpoint_path"]
    others = [_unescaped(text) for name, text in found if name != b"model_checkpoint_path"]
    return (newest[-1], others) if newest else None


def _unescaped(text: bytes) -> str:
    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes((int(code, 8) & 0xFF,)) if code.isdigit() else _LETTERS.get(code, code)

    return str(_ESCAPE.sub(one, text), "utf-8", "backslashreplace")


def _in_folder(folder: Path) -> Place:
    state = _state_of(folder)
    there = sorted(_prefixes(folder), key=_age)
    if state is None:
        if not there:
            raise InputError("holds no checkpoint", where=str(folder), remedy="Name a folder with an .index file.")
        return Place(there[-1], metadata=_others(there, there[-1]))
    newest, named = state
    observations = [each for name in dict.fromkeys((newest, *named[:_MOST_LISTED])) for each in _lost(folder, name)]
    prefix = folder / Path(newest).name
    if not _index_of(prefix).is_file():
        if not there:
            raise _of_old_form(folder / newest) if _is_old(folder / Path(newest).name) else _nothing(folder, newest)
        prefix = there[-1]
    metadata = {"newest": newest, "all": named[:_MOST_LISTED], **_others(there, prefix)}
    return Place(prefix, newest, metadata, tuple(observations))


def _age(prefix: Path) -> tuple[float, str]:
    return (_index_of(prefix).stat().st_mtime, prefix.name)


def _others(there: list[Path], chosen: Path) -> dict[str, Any]:
    return {"others": [each.name for each in there if each != chosen][:_MOST_LISTED]}


def _nothing(folder: Path, newest: str) -> InputError:
    message = f"names {newest!r} as the newest checkpoint, and no checkpoint is there"
    return InputError(message, where=str(folder / _STATE), remedy="Copy the .index and the .data files as well.")


def _is_in(path: Path, folder: Path) -> bool:
    """Whether a whole path, which `Saver` writes, leads into the folder itself."""
    return path.is_absolute() and path.parent == folder.resolve()


def _lost(folder: Path, name: str) -> Iterator[Observation]:
    """What is wrong with a checkpoint that the state file names."""
    path = Path(name)
    if len(path.parts) != 1 and not _is_in(path, folder):
        message = f"The state file names {name!r}, which is outside of its folder; the folder itself is looked in."
        yield Observation("file_outside", name, name, message, _STATE)
    if not _index_of(folder / (path.name or "?")).is_file():
        message = f"The state file names {name!r}, and {path.name}{INDEX} is not there."
        yield Observation("file_missing", name, name, message, _STATE)
