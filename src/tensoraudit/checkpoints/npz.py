"""`.npz`: a zip of NumPy arrays. Headers alone are read, deflated ones no further than the header goes.

An array of Python objects is a pickle. It is never loaded; what it wants to import is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Final

from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.npy_header import MAX_HEADER, NpyError, NpyHeader, read_npy_header
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.artifacts.zips import SafeZip, ZipLimits
from tensoraudit.checkpoints.jax_tree import group_of
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.errors import InputError

LIMITS: Final = ZipLimits(ratio=1100, inflated=1 << 62, fold_case=False)
"""An array of zeros, a fresh optimiser's moments say, deflates as far as a bomb. No array is inflated whole here."""

_SUFFIX: Final = ".npy"
_USUAL_HEADER: Final = 256
_MAX_PICKLE: Final = 64 << 20
_MOST: Final = 1000


@dataclass(slots=True)
class _Found:
    entries: list[Entry] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    wishes: Wishes = field(default_factory=Wishes)

    def observe(self, observation: Observation) -> None:
        if len(self.observations) < _MOST:
            self.observations.append(observation)


def recognises(path: Path) -> bool:
    """Whether the file is a zip archive that holds NumPy arrays."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.read(2) != b"PK":
                return False
        archive = SafeZip(map_file(path), str(path), LIMITS)
    except (InputError, OSError):
        return path.suffix == ".npz"
    return path.suffix == ".npz" or any(name.endswith(_SUFFIX) for name in archive.names)


def read(path: Path) -> StoredCheckpoint:
    """Read the headers of all arrays. Raises InputError for an archive that is damaged or a bomb."""
    view = map_file(path)
    archive = SafeZip(view, str(path), LIMITS)
    found = _Found()
    for name in archive.names:
        if name.endswith(_SUFFIX):
            _read_array(archive, name, path.name, found)
    if not found.entries:
        found.observations.append(Observation("no_tensors", path.name, 0, "The archive holds no array", path.name))
    wanted = tuple(sorted(found.wishes.globals))
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format="npz",
        framework="numpy",
        files=(path.name,),
        entries=tuple(found.entries),
        imports=tuple(name for name in wanted if not is_harmless(name)),
        all_imports=wanted,
        metadata={"objects": found.objects[:_MOST], "others": list(_others(archive))[:_MOST]},
        observations=tuple(found.observations),
    )


def _others(archive: SafeZip) -> Iterator[str]:
    return (name for name in archive.names if not name.endswith(_SUFFIX))


def _read_array(archive: SafeZip, member: str, file: str, found: _Found) -> None:
    """Add one array to what was found. `member` is the name within the archive's common folder."""
    name = archive.prefix + member.removesuffix(_SUFFIX)
    try:
        header = _header(archive, member)
        span = archive.span(member)
    except (NpyError, InputError) as error:
        reason = error.message if isinstance(error, InputError) else str(error)
        found.observe(Observation("file_unread", name, reason, f"Array {name!r} {reason}", file))
        return
    held = archive.size(member) - header.size
    if header.dtype == "object":
        found.objects.append(name)
        _look_into_pickle(archive, member, header, found)
        part = Part(file, None, held, codec="pickle")
        found.entries.append(Entry(name, header.dtype, header.shape, (part,), "other"))
        return
    size = header.data_bytes if header.item else held
    if held < size:
        message = f"Array {name!r} holds {held:,} bytes and its shape needs {size:,}"
        found.observe(Observation("file_truncated", name, {"bytes": held, "needed": size}, message, file))
    stride = _fortran_stride(header.shape) if header.fortran and len(header.shape) > 1 else ()
    offset = None if span is None else span[0] + header.size
    part = Part(file, offset, size, stride=stride, codec=f"deflate:{member}" if span is None else "")
    found.entries.append(Entry(name, header.dtype, header.shape, (part,), group_of(name.split("/"))))


def _header(archive: SafeZip, member: str) -> NpyHeader:
    head = archive.head(member, _USUAL_HEADER)
    try:
        return read_npy_header(head)
    except NpyError:
        return read_npy_header(archive.head(member, MAX_HEADER))


def _fortran_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array whose first index moves fastest."""
    return tuple(accumulate(shape[:-1], mul, initial=1))


def _look_into_pickle(archive: SafeZip, member: str, header: NpyHeader, found: _Found) -> None:
    """Note what the pickle of an array of objects wants to import."""
    try:
        stream = Stream(archive.view(member, _MAX_PICKLE)[header.size :])
        interpret(stream, found.wishes)
    except (BrokenPickleError, InputError):
        found.wishes.globals.setdefault("?")
