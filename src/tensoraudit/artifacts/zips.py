"""Zip archives opened with suspicion: what is declared is checked before anything is inflated; nothing goes to disk.

PyTorch and NumPy write plain archives: every entry once, stored or deflated, one after the other. Whatever departs from
that (names that climb out, links, two entries of one name, entries that overlap, ratios of a bomb) is no model and is
refused here, so that the formats built on zip need not think of it. Knows nothing of what the entries mean.

What is judged here must be what PyTorch will read, though it reads with another library (miniz). Two readers of one zip
can be made to see different content, so the ways to do that are refused too: a directory that is not where both look
for it, and names that differ in case only, which miniz takes for one.
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
_ZIP64_END = b"PK\x06\x06"
_ZIP64_LOCATOR = b"PK\x06\x07"
_LOCAL = b"PK\x03\x04"
_LOCAL_HEADER = 30
_DRIVE = re.compile(r"^[A-Za-z]:")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SLACK = 1 << 20
"""Inflated bytes that no ratio counts for: a few repeated lines may well shrink a thousandfold, and cannot hurt."""
_BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError,
    OverflowError, struct.error, zlib.error, IndexError,
)  # fmt: skip
_AGAIN = "Copy or download the file again."
_SAVE = "Save the model again with its framework's own function (torch.save, torch.export.save, model.save)."


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """What an archive may declare, in bytes where not said otherwise.

    `directory` bounds the central directory (46 bytes and the name per entry), which Python keeps in memory at about
    ten times its size. `ratio` is the largest inflated size per deflated byte: TorchScript source inflates by about 10
    to 40, a bomb by up to 1,032, the most that deflate can do. `inflated` bounds all deflated entries together.
    `fold_case` takes names that differ in case only for one, as PyTorch does.
    """

    directory: int = 32 << 20
    ratio: int = 200
    inflated: int = 1 << 30
    fold_case: bool = True


class SafeZip:
    """A checked archive over mapped bytes.

    `names` are its files in their order, without `prefix`, the folder that all share. Look-ups do not tell upper from
    lower case, as PyTorch's do not, unless the limits say so. Raises InputError for an archive that is damaged or that
    no honest writer makes.
    """

    def __init__(self, view: memoryview, where: str, limits: ZipLimits = ZipLimits()) -> None:
        self.where, self._view, self._limits = where, view, limits
        _check_directory(view, where, limits.directory)
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
        self.names = tuple(info.filename.removeprefix(self.prefix) for info in files)
        self._entries = {self._key(name): info for name, info in zip(self.names, files, strict=True)}

    def __contains__(self, name: str) -> bool:
        return self._key(name) in self._entries

    def _key(self, name: str) -> str:
        return name.lower() if self._limits.fold_case else name

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

    def head(self, name: str, size: int) -> bytes:
        """Return the first `size` bytes of an entry's content, or all of a shorter one; inflates no more than that."""
        info = self._entry(name)
        try:
            with self._archive.open(info) as entry:
                return entry.read(size)
        except _BROKEN as error:
            raise self._broken(error) from error

    def span(self, name: str) -> tuple[int, int] | None:
        """Return (offset, size) in bytes of a stored entry within the file, None for a deflated one."""
        info = self._entry(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        header = self._view[info.header_offset : info.header_offset + _LOCAL_HEADER]
        name_size, extra_size = struct.unpack("<HH", header[26:30])
        start = info.header_offset + _LOCAL_HEADER + name_size + extra_size
        if bytes(header[:4]) != _LOCAL or start + info.file_size > len(self._view):
            raise InputError(f"entry {name!r} is cut short", where=self.where, remedy=_AGAIN)
        return start, info.file_size

    def view(self, name: str, limit: int = 64 << 20) -> memoryview:
        """Return an entry's bytes, without a copy (and without `limit`) where it is stored."""
        span = self.span(name)
        if span is None:
            return memoryview(self.read(name, limit))
        return self._view[span[0] : span[0] + span[1]]

    def _entry(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._entries[self._key(name)]
        except KeyError:
            raise InputError(f"has no entry {name!r}", where=self.where, remedy=_SAVE) from None

    def _check_entry(self, info: zipfile.ZipInfo) -> None:
        packed, whole = info.compress_size, info.file_size
        is_stored = info.compress_type == zipfile.ZIP_STORED
        refusals = (
            (_is_unsafe_name(info.filename), "has a name that leads out of the archive"),
            (info.flag_bits & 0x1, "is encrypted"),
            (stat.S_ISLNK(info.external_attr >> 16), "is a symbolic link"),
            (info.compress_type not in _METHODS, f"is packed by method {info.compress_type}, which PyTorch never uses"),
            (is_stored and packed != whole, "is stored, but declares two sizes"),
            (packed > len(self._view), "ends beyond the file"),
            (whole > _SLACK + self._limits.ratio * packed, f"unpacks {packed:,} bytes to {whole:,}, as a bomb does"),
        )
        for refused, words in refusals:
            if refused:
                raise InputError(f"entry {info.filename!r} {words}", where=self.where, remedy=_SAVE)

    def _check_places(self, infos: list[zipfile.ZipInfo]) -> None:
        """Refuse two entries of one name, and entries that share bytes (the way a small file unpacks to petabytes)."""
        seen: set[str] = set()
        end, inflated = 0, 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            name = self._key(info.filename)
            if name in seen:
                raise InputError(f"holds entry {info.filename!r} twice", where=self.where, remedy=_SAVE)
            if info.header_offset < end:
                raise InputError(f"entry {info.filename!r} overlaps another", where=self.where, remedy=_SAVE)
            seen.add(name)
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
            raise OSError(f"position {at} before the start")  # the type that zipfile expects of a file
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        chunk = self._view[self._at : self._at + len(buffer)]
        buffer[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)


def _check_directory(view: memoryview, where: str, limit: int) -> None:
    """Judge the central directory by what its end record declares, before `zipfile` keeps an object per entry."""
    found = _directory(view)
    if found is None:
        raise InputError("is a truncated zip archive (its directory is missing)", where=where, remedy=_AGAIN)
    offset, size, end = found
    if size > limit:
        raise InputError(f"has a zip directory of {size:,} bytes, as a zip bomb does", where=where, remedy=_SAVE)
    if offset + size != end:
        message = "has a zip directory that is not where its end record says, so that programs may read it differently"
        raise InputError(message, where=where, remedy=_SAVE)


def _directory(view: memoryview) -> tuple[int, int, int] | None:
    """Return (offset, size, where it must end) of the central directory in bytes, None when there is no end record."""
    tail = bytes(view[-(_END_SIZE + 0xFFFF) :])
    at = len(tail) - _END_SIZE if tail[-_END_SIZE:-18] == _END and tail[-2:] == b"\0\0" else tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        return None
    size, offset = struct.unpack_from("<LL", tail, at + 12)
    end = len(view) - len(tail) + at
    locator = at - 20
    if locator >= 0 and tail[locator : locator + 4] == _ZIP64_LOCATOR:
        (end,) = struct.unpack_from("<Q", tail, locator + 8)
        record = bytes(view[end : end + 56])
        if record[:4] != _ZIP64_END or len(record) < 56:
            return None
        size, offset = struct.unpack_from("<QQ", record, 40)
    return offset, size, end


def _is_unsafe_name(name: str) -> bool:
    absolute = name.startswith(("/", "\\")) or bool(_DRIVE.match(name))
    return not name or absolute or ".." in re.split(r"[/\\]", name)


def _common_folder(names: list[str]) -> str:
    first = names[0].split("/", 1)[0] + "/" if names else ""
    return first if first and all(name.startswith(first) for name in names) else ""
