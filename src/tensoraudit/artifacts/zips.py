"""Zip archives opened with suspicion: what is declared is checked before anything is inflated; nothing goes to disk.

PyTorch and NumPy write plain archives: every entry once, stored or deflated, one after the other. Whatever departs from
that (names that climb out, links, two entries of one name, entries that overlap, ratios of a bomb) is no model and is
refused here, so that the formats built on zip need not think of it. Knows nothing of what the entries mean.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass

from tensoraudit.errors import InputError

_END = b"PK\x05\x06"
_END_SIZE = 22
_ZIP64_LOCATOR = b"PK\x06\x07"
_LOCAL_HEADER = 30
_DRIVE = re.compile(r"^[A-Za-z]:")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError,
    OverflowError, struct.error, zlib.error, IndexError,
)  # fmt: skip
_AGAIN = "Copy or download the file again."
_SAVE = "Save the model again with torch.save, torch.jit.save or torch.export.save."


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """What an archive may declare, in bytes where not said otherwise.

    `directory` bounds the central directory (46 bytes and the name per entry), which Python keeps in memory at about
    ten times its size. `ratio` is the largest inflated size per deflated byte: TorchScript source inflates by about 10
    to 40, a bomb by up to 1,032, the most that deflate can do. `inflated` bounds all deflated entries together.
    """

    directory: int = 32 << 20
    ratio: int = 200
    inflated: int = 1 << 30


class SafeZip:
    """A checked archive over mapped bytes. Names are given without the folder that all entries share (`prefix`)."""

    def __init__(self, view: memoryview, where: str, limits: ZipLimits = ZipLimits()) -> None:
        self.where, self._view, self._limits = where, view, limits
        _check_directory_size(view, where, limits.directory)
        try:
            self._archive = zipfile.ZipFile(io.BufferedReader(_ViewFile(view)))
            infos = self._archive.infolist()
        except _BROKEN as error:
            raise self._broken(error) from error
        for info in infos:
            self._check_entry(info)
        self._check_places(infos)
        files = [info for info in infos if not info.is_dir()]
        self.prefix = _common_folder([info.filename for info in files])
        self._entries = {info.filename.removeprefix(self.prefix): info for info in files}

    @property
    def names(self) -> tuple[str, ...]:
        """Every file in the archive, in its order, without `prefix`."""
        return tuple(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        """Return the inflated size of an entry in bytes."""
        return self._entry(name).file_size

    def read(self, name: str, limit: int = 64 << 20) -> bytes:
        """Return an entry's content. Raises InputError above `limit` bytes and for damage (checksum, lengths)."""
        info = self._entry(name)
        if info.file_size > limit:
            message = f"entry {name!r} has {info.file_size:,} bytes, more than the {limit:,} that are read of it"
            raise InputError(message, where=self.where, remedy=_SAVE)
        try:
            return self._archive.read(info)
        except _BROKEN as error:
            raise self._broken(error) from error

    def span(self, name: str) -> tuple[int, int] | None:
        """Return (offset, size) in bytes of a stored entry within the file, None for a deflated one."""
        info = self._entry(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        header = self._view[info.header_offset : info.header_offset + _LOCAL_HEADER]
        name_size, extra_size = struct.unpack("<HH", header[26:30])
        return info.header_offset + _LOCAL_HEADER + name_size + extra_size, info.file_size

    def view(self, name: str, limit: int = 64 << 20) -> memoryview:
        """Return an entry's bytes, without a copy (and without `limit`) where it is stored."""
        span = self.span(name)
        if span is None:
            return memoryview(self.read(name, limit))
        return self._view[span[0] : span[0] + span[1]]

    def _entry(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._entries[name]
        except KeyError:
            raise InputError(f"has no entry {name!r}", where=self.where, remedy=_SAVE) from None

    def _check_entry(self, info: zipfile.ZipInfo) -> None:
        refusals = (
            (_is_unsafe_name(info.filename), "has a name that leads out of the archive"),
            (info.flag_bits & 0x1, "is encrypted"),
            (stat.S_ISLNK(info.external_attr >> 16), "is a symbolic link"),
            (info.compress_type not in _METHODS, f"is packed by method {info.compress_type}, which PyTorch never uses"),
            (info.file_size > len(self._view) and info.compress_type == zipfile.ZIP_STORED, "ends beyond the file"),
            (
                _inflates_too_much(info, self._limits.ratio),
                f"unpacks {info.compress_size:,} bytes to {info.file_size:,}",
            ),
        )
        for refused, words in refusals:
            if refused:
                raise InputError(f"entry {info.filename!r} {words}", where=self.where, remedy=_SAVE)

    def _check_places(self, infos: list[zipfile.ZipInfo]) -> None:
        """Refuse two entries of one name, and entries that share bytes (the way a small file unpacks to petabytes)."""
        seen: set[str] = set()
        end, inflated = 0, 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.filename in seen:
                raise InputError(f"holds entry {info.filename!r} twice", where=self.where, remedy=_SAVE)
            if info.header_offset < end:
                raise InputError(f"entry {info.filename!r} overlaps another", where=self.where, remedy=_SAVE)
            seen.add(info.filename)
            end = info.header_offset + _LOCAL_HEADER + info.compress_size
            inflated += info.file_size if info.compress_type == zipfile.ZIP_DEFLATED else 0
        if end > len(self._view):
            raise InputError("is a truncated zip archive", where=self.where, remedy=_AGAIN)
        if inflated > self._limits.inflated:
            raise InputError(f"unpacks to {inflated:,} bytes, as a zip bomb does", where=self.where, remedy=_SAVE)

    def _broken(self, error: Exception) -> InputError:
        return InputError(f"is a damaged or truncated zip archive ({error})", where=self.where, remedy=_AGAIN)


class _ViewFile(io.RawIOBase):
    """The seekable file that `zipfile` wants, over a view."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        at = (0, self._at, len(self._view))[whence] + offset
        if at < 0:
            raise ValueError(f"position {at} before the start")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        chunk = self._view[self._at : self._at + len(buffer)]
        buffer[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)


def _check_directory_size(view: memoryview, where: str, limit: int) -> None:
    """Judge the central directory by what its end record declares, before `zipfile` keeps an object per entry."""
    size = _directory_size(view)
    if size is None:
        raise InputError("is a truncated zip archive (its directory is missing)", where=where, remedy=_AGAIN)
    if size > limit:
        raise InputError(f"has a zip directory of {size:,} bytes, as a zip bomb does", where=where, remedy=_SAVE)


def _directory_size(view: memoryview) -> int | None:
    tail = bytes(view[-(_END_SIZE + 0xFFFF) :])
    at = len(tail) - _END_SIZE if tail[-_END_SIZE:-18] == _END else tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        return None
    (size,) = struct.unpack_from("<L", tail, at + 12)
    locator = at - 20
    if locator >= 0 and tail[locator : locator + 4] == _ZIP64_LOCATOR:
        (end64,) = struct.unpack_from("<Q", tail, locator + 8)
        record = bytes(view[end64 : end64 + 56])
        if len(record) == 56:
            (size,) = struct.unpack_from("<Q", record, 40)
    return int(size)


def _is_unsafe_name(name: str) -> bool:
    absolute = name.startswith(("/", "\\")) or bool(_DRIVE.match(name))
    return not name or absolute or ".." in re.split(r"[/\\]", name)


def _inflates_too_much(info: zipfile.ZipInfo, ratio: int) -> bool:
    slack = 1 << 20  # a few repeated lines may well shrink a thousandfold; they cannot hurt
    return info.compress_type == zipfile.ZIP_DEFLATED and info.file_size > slack + ratio * info.compress_size


def _common_folder(names: list[str]) -> str:
    first = names[0].split("/", 1)[0] + "/" if names else ""
    return first if first and all(name.startswith(first) for name in names) else ""
