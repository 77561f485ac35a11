"""Bytes of one stored piece of a tensor, read from its file with every offset checked first.

Plain reads into memory of the caller, not a map: a file that is cut short meanwhile is an error and no signal, and what
was read does not count as memory that is in use. Only pieces with strides are mapped, because their elements lie apart.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints import keras_tree, onnx_weights, orbax
from tensoraudit.checkpoints.element_types import Array, ElementType, element_type, unshared
from tensoraudit.checkpoints.npz import LIMITS
from tensoraudit.checkpoints.schema import Part
from tensoraudit.errors import InputError

_OPEN: Final = 64
"""Files kept open at once; a tensor in more shards than that opens them again."""
_UNPACKERS: Final[Mapping[str, Callable[[Path, Part], bytes]]] = {
    "chunks": keras_tree.inflate,
    "varint": onnx_weights.inflate,
    "zarr": orbax.inflate,
}
"""What unpacks a piece, by the word that its codec begins with."""
_STEP: Final = 1 << 48
"""Elements that a stride may step over: more than any file holds."""
_INFLATED: Final = 1 << 30
"""Bytes that a packed piece may unpack to; it is held whole."""


class UnreadableValues(Exception):  # noqa: N818 (a clause, raised and caught where values are read)
    """The bytes of a tensor cannot be had. `reason` is a clause that says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Buffers:
    """Memory for blocks that are read, used and forgotten: fresh pages for each would cost as much as the reading.

    The last `kept` blocks, of at most `most` bytes, are whole; older ones are overwritten.
    """

    def __init__(self, most: int, kept: int) -> None:
        self._most, self._next = most, 0
        self._kept = [np.empty(most, np.uint8) for _ in range(kept)]

    def empty(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return an array of `count` words; of fresh memory where they take more than the buffers hold."""
        size = count * dtype.itemsize
        if size > self._most:
            return np.empty(count, dtype)
        self._next = (self._next + 1) % len(self._kept)
        return self._kept[self._next][:size].view(dtype)


def first_number(root: Path, part: Part, dtype: str) -> int | float | None:
    """Return the first element of a piece, None where it cannot be read or is no real number."""
    kind = element_type(dtype)
    if kind is None or kind.per_byte > 1 or dtype == "bool":
        return None
    try:
        with PartFiles(root) as files:
            number = kind.widen(files.words(part, kind, 0, 1))[0].item()
    except (UnreadableValues, OSError):
        return None
    return number if isinstance(number, int | float) else None


class PartFiles:
    """The open files of one tensor; a context that closes them. Blocks are read into `buffers`, if there are any."""

    def __init__(self, root: Path, buffers: Buffers | None = None) -> None:
        self._root, self._buffers = root, buffers
        self._open: dict[str, tuple[int, int]] = {}
        self._inflated: dict[Part, Array] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open."""
        for descriptor, _ in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self._inflated.clear()

    def words(self, part: Part, dtype: ElementType, first: int, count: int) -> Array:
        """Return the words of `count` elements from element `first` of a piece whose bytes stand in C order."""
        if dtype.per_byte == 1:
            return self._stored_words(part, dtype, first, count)
        before = first % dtype.per_byte
        return unshared(self._stored_words(part, dtype, first - before, before + count))[before : before + count]

    def _stored_words(self, part: Part, dtype: ElementType, first: int, count: int) -> Array:
        """Words as the file has them: where elements share bytes, the bytes that they lie in."""
        if part.codec:
            begin, number = (dtype.stored_bytes(each) // dtype.word.itemsize for each in (first, count))
            found = self._unpacked(part, dtype)[begin : begin + number]
            if found.size < number:
                held, wanted = (each * dtype.word.itemsize for each in (begin + found.size, begin + number))
                raise UnreadableValues(f"{part.file} holds {held:,} bytes of it, its shape asks for {wanted:,}")
            return found
        offset = _offset_of(part)
        begin, size = dtype.stored_bytes(first), dtype.stored_bytes(count)
        if begin + size > part.bytes:
            raise UnreadableValues(f"{part.file} holds {part.bytes:,} bytes of it, its shape asks for {begin + size:,}")
        descriptor, length = self._file(part.file)
        if offset + begin + size > length:
            raise UnreadableValues(
                f"{part.file} ends at byte {length:,}, before its {size:,} bytes at {offset + begin:,}"
            )
        count = size // dtype.word.itemsize
        into = np.empty(count, dtype.word) if self._buffers is None else self._buffers.empty(count, dtype.word)
        return _read(descriptor, part.file, offset + begin, into)

    def strided(self, part: Part, dtype: ElementType, shape: tuple[int, ...]) -> Array:
        """Return a view of a piece whose elements lie `part.stride` apart, in the file itself."""
        stride = part.stride
        if (
            len(stride) != len(shape)
            or min(stride, default=0) < 0
            or max(stride, default=0) > _STEP
            or dtype.per_byte > 1
        ):
            raise UnreadableValues(f"{part.file} gives strides {list(stride)} for the shape {list(shape)}")
        span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        if part.codec:
            flat = self._unpacked(part, dtype)
            if span > flat.size:
                raise UnreadableValues(f"{part.file} holds {flat.size:,} elements, its strides lead to {span:,}")
        else:
            flat = self._mapped(part.file, _offset_of(part), span, dtype)
        steps = tuple(step * dtype.word.itemsize for step in stride)
        return np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)

    def _mapped(self, file: str, offset: int, span: int, dtype: ElementType) -> Array:
        descriptor, length = self._file(file)
        end = offset + span * dtype.word.itemsize
        if end > length:
            raise UnreadableValues(f"{file} ends at byte {length:,}, its elements at {end:,}")
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        view = mmap.mmap(descriptor, end - start, offset=start, access=mmap.ACCESS_READ)
        return np.frombuffer(view, dtype.word, span, offset - start)

    def _unpacked(self, part: Part, dtype: ElementType) -> Array:
        """The whole of a packed piece: deflate cannot be entered in the middle. One piece is kept."""
        if part not in self._inflated:
            self._inflated.clear()
            self._inflated[part] = self._inflate(part, dtype)
        return self._inflated[part]

    def _inflate(self, part: Part, dtype: ElementType) -> Array:
        kind, _, member = part.codec.partition(":")
        _check_name(part.file)
        if kind in _UNPACKERS:
            return self._unpacked_by(_UNPACKERS[kind], part, dtype)
        if kind != "deflate" or not member:
            raise UnreadableValues(f"its bytes are packed ({part.codec}) in {part.file}")
        try:
            content = SafeZip(map_file(self._root / part.file), part.file, LIMITS).view(member, limit=_INFLATED)
        except InputError as error:
            raise UnreadableValues(f"{part.file} cannot be unpacked: {error.message}") from error
        if len(content) < part.bytes or part.bytes % dtype.word.itemsize:
            raise UnreadableValues(f"{member} in {part.file} unpacks to {len(content):,} bytes, not {part.bytes:,}")
        return np.frombuffer(content[len(content) - part.bytes :], dtype.word)

    def _unpacked_by(self, unpack: Callable[[Path, Part], bytes], part: Part, dtype: ElementType) -> Array:
        try:
            content = unpack(self._root, part)
        except (ValueError, InputError) as error:
            raise UnreadableValues(f"its bytes in {part.file} cannot be unpacked: it {error}") from error
        if len(content) != part.bytes or part.bytes % dtype.word.itemsize:
            raise UnreadableValues(f"{part.file} unpacks to {len(content):,} bytes, not {part.bytes:,}")
        return np.frombuffer(content, dtype.word)

    def _file(self, name: str) -> tuple[int, int]:
        if name not in self._open:
            if len(self._open) >= _OPEN:
                os.close(self._open.pop(next(iter(self._open)))[0])
            self._open[name] = _open_file(self._root, name)
        return self._open[name]


def _offset_of(part: Part) -> int:
    if part.offset is None or part.offset < 0:
        packed = f" ({part.codec})" if part.codec else ""
        raise UnreadableValues(f"its bytes do not stand in {part.file} as they are{packed}")
    return part.offset


def _check_name(name: str) -> None:
    """Links are the readers' to judge: a download cache keeps every shard behind one."""
    if Path(name).is_absolute() or ".." in name.split("/"):
        raise UnreadableValues(f"{name} leads out of the checkpoint's folder")


def _open_file(root: Path, name: str) -> tuple[int, int]:
    """Open a regular file below the root; return its descriptor and its length in bytes."""
    _check_name(name)
    path = root / name
    try:
        # Without O_NONBLOCK the opening of a pipe would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as error:
        raise UnreadableValues(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise UnreadableValues(f"{name} is no regular file")
    return descriptor, found.st_size


def _read(descriptor: int, name: str, offset: int, into: Array) -> Array:
    """Fill an array from a file."""
    view = into.view(np.uint8).data
    done = 0
    while done < len(view):
        try:
            count = os.preadv(descriptor, [view[done:]], offset + done)
        except OSError as error:
            raise UnreadableValues(f"{name} cannot be read ({error.strerror})") from error
        if count == 0:
            raise UnreadableValues(f"{name} ends at byte {offset + done:,}, in the middle of a tensor")
        done += count
    return into
