"""Where Orbax keeps the arrays of one item: in an OCDBT database, or each in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.artifacts.ocdbt import MANIFEST, Place, read_database
from tensoraudit.checkpoints.zarr_arrays import NAMES, ZarrArray, ZarrError, read_array
from tensoraudit.errors import InputError

_MAX_TEXT: Final = 1 << 20
_MAX_VALUE: Final = 512 << 20


class ArrayStore(Protocol):
    """Values by key. `place` gives (file relative to the item's folder, offset, bytes), the offset None for a value
    that does not stand in a file as it is; None where there is no such key."""

    def place(self, key: str) -> tuple[str, int | None, int] | None: ...  # noqa: D102

    def value(self, key: str, limit: int) -> bytes | None:
        """Return a value of at most `limit` bytes. Raises InputError for a larger one."""
        ...


class FolderStore:
    """Each value is a file below the item's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._beside = folder, Neighbours(folder)

    def place(self, key: str) -> tuple[str, int | None, int] | None:
        """Return where the file is, None where it is missing or leads out of the folder."""
        if self._beside.status(key) != "ok":
            return None
        return key, 0, (self._folder / key).stat().st_size

    def value(self, key: str, limit: int) -> bytes | None:
        """Return the file's content."""
        place = self.place(key)
        if place is None:
            return None
        _check_size(key, place[2], limit, self._folder)
        return bytes(map_file(self._folder / key)) if place[2] else b""


class DatabaseStore:
    """Each value is a key of the database in the item's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._beside = folder, Neighbours(folder)
        self._keys = read_database(folder)

    def arrays(self) -> Iterator[str]:
        """Yield the names of all arrays that the database describes."""
        for key in self._keys:
            name, _, last = key.rpartition("/")
            if last in NAMES:
                yield name

    def place(self, key: str) -> tuple[str, int | None, int] | None:
        """Return where the value is; one that is kept in the tree itself has no offset."""
        found = self._keys.get(key)
        if isinstance(found, Place):
            return found.file, found.offset, found.length
        return None if found is None else (MANIFEST, None, len(found))

    def value(self, key: str, limit: int) -> bytes | None:
        """Return the value."""
        found = self._keys.get(key)
        if not isinstance(found, Place):
            return found
        _check_size(key, found.length, limit, self._folder)
        status = self._beside.status(found.file, found.offset + found.length)
        if status != "ok":
            raise InputError(f"keeps {key!r} in {found.file!r}, which is {status}", where=str(self._folder))
        return bytes(map_file(self._folder / found.file)[found.offset : found.offset + found.length])


def _check_size(key: str, size: int, limit: int, folder: Path) -> None:
    if size > limit:
        raise InputError(f"keeps {size:,} bytes as {key!r}, more than {limit:,}", where=str(folder))


def open_store(folder: Path) -> ArrayStore:
    """Return the store of an item. Raises InputError where its database cannot be read."""
    manifest = folder / MANIFEST
    return _database(folder, manifest.stat().st_mtime_ns) if manifest.is_file() else FolderStore(folder)


@lru_cache(maxsize=4)
def _database(folder: Path, changed: int) -> DatabaseStore:
    """The database as it was at a time: whoever reads values asks for it once per chunk."""
    return DatabaseStore(folder)


def find_array(store: ArrayStore, name: str, where: str) -> ZarrArray | None:
    """Return the description of an array, None where the store has none. Raises ZarrError or InputError."""
    for description in NAMES:
        text = store.value(f"{name}/{description}", _MAX_TEXT)
        if text is not None:
            return read_array(text, description, where)
    return None


def chunk_of(store: ArrayStore, key: str) -> bytes:
    """Return a stored chunk. Raises ZarrError where it is missing or too large."""
    try:
        found = store.value(key, _MAX_VALUE)
    except InputError as error:
        raise ZarrError(error.message) from error
    if found is None:
        raise ZarrError(f"does not hold {key!r}")
    return found
