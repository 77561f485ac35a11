"""What a TensorFlow `.index` file says of each tensor: type, shape, and where in which data file its bytes stand.

Field numbers are those of tensor_bundle.proto and tensor_slice.proto (TensorFlow 2.21). A tensor that was saved in
slices has an entry without bytes that lists them, and one entry per slice under a key made of name and slice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import Final, NamedTuple

from tensoraudit.artifacts.protobuf import BYTES, FIXED32, VARINT, fields, signed
from tensoraudit.artifacts.saved_model import DTYPES
from tensoraudit.checkpoints.sstable import TableError, items

_TYPES: Final = {
    **DTYPES, 11: "int8", 12: "uint8", 13: "int32", 15: "int16", 16: "uint16", 21: "variant", 24: "float8_e5m2",
    25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz", 29: "int4",
    30: "uint4",
}  # fmt: skip
"""The quantised types are named as what they are stored in."""
ITEM_BYTES: Final = {
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "uint32": 4,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1, "int4": 1, "uint4": 1,
    "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e4m3b11fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip
"""Bytes of an element in a data file; texts and variants have no fixed size."""
_MOST_RANK: Final = 64
_MOST_SLICES: Final = 1_000_000
_MOST_SHARDS: Final = 100_000

Slice = tuple[tuple[int, int], ...]
"""(start, length) per axis; a length of -1 is the whole axis."""


class Stored(NamedTuple):
    """An entry of the index. `checksum` is the masked CRC32C of its bytes; `slices` are empty for one stored whole."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    slices: tuple[Slice, ...]

    @property
    def needed(self) -> int:
        """The bytes that its shape and type need; those it has where the type has no fixed size or it is in slices."""
        width = ITEM_BYTES.get(self.dtype)
        return self.size if width is None or self.slices else prod(self.shape) * width


@dataclass(slots=True)
class Index:
    """All of an index. `pieces` are the entries of slices by their keys (bytes), `tensors` the others by name."""

    shards: int = 1
    big_endian: bool = False
    tensors: dict[str, Stored] = field(default_factory=dict)
    pieces: dict[bytes, Stored] = field(default_factory=dict)

    def piece(self, name: str, place: Slice) -> Stored | None:
        """Return the entry of one slice of a tensor."""
        return self.pieces.get(_slice_key(name, place))


def read_index(view: memoryview) -> Index:
    """Read an index. Raises TableError or WireError for damage and for what TensorFlow never writes."""
    index = Index()
    shapes: dict[bytes, tuple[int, ...]] = {}
    slices = 0
    first = True
    for key, value in items(view):
        if first:
            if key:
                raise TableError("no header as its first entry")
            _header(value, index)
            first = False
            continue
        stored = _stored(value, shapes)
        slices += len(stored.slices)
        if slices > _MOST_SLICES:
            raise TableError(f"more than {_MOST_SLICES:,} slices")
        if key.startswith(b"\0"):
            index.pieces[key] = stored
        else:
            index.tensors[str(key, "utf-8", "backslashreplace")] = stored
    if first:
        raise TableError("no entry at all")
    return index


def _header(value: bytes, index: Index) -> None:
    for number, wire, at, _ in fields(value, 0, len(value)):
        if (number, wire) == (1, VARINT):
            index.shards = at
        elif (number, wire) == (2, VARINT):
            index.big_endian = at == 1
    if not 0 < index.shards <= _MOST_SHARDS:
        raise TableError(f"a header that declares {index.shards:,} data files")


def _stored(value: bytes, shapes: dict[bytes, tuple[int, ...]]) -> Stored:
    """One entry; `shapes` remembers what was read, for a model has few different ones."""
    numbers = [0] * 6
    shape: tuple[int, ...] = ()
    checksum = 0
    slices: list[Slice] = []
    for number, wire, at, stop in fields(value, 0, len(value)):
        if wire == VARINT and number < 6:
            numbers[number] = at
        elif number == 2 and wire == BYTES:
            raw = value[at:stop]
            known = shapes.get(raw)
            shape = shapes[raw] = _shape(raw) if known is None else known
        elif number == 6 and wire == FIXED32:
            checksum = int.from_bytes(value[at:stop], "little")
        elif number == 7 and wire == BYTES:
            slices.append(_slice(value[at:stop]))
    dtype = _TYPES.get(numbers[1], f"type {numbers[1]}")
    return Stored(dtype, shape, numbers[3], numbers[4], numbers[5], checksum, tuple(slices))


def _shape(data: bytes) -> tuple[int, ...]:
    sizes = []
    for number, wire, at, stop in fields(data, 0, len(data)):
        if (number, wire) == (2, BYTES):
            sizes.append(_size(data, at, stop))
        if len(sizes) > _MOST_RANK:
            raise TableError(f"a tensor of more than {_MOST_RANK} axes")
    return tuple(sizes)


def _size(data: bytes, start: int, end: int) -> int:
    size = next((at for number, wire, at, _ in fields(data, start, end) if (number, wire) == (1, VARINT)), 0)
    if size >> 63:
        raise TableError(f"a tensor with an axis of {signed(size)} elements")
    return size


def _slice(data: bytes) -> Slice:
    extents: list[tuple[int, int]] = []
    for number, wire, at, stop in fields(data, 0, len(data)):
        if (number, wire) == (1, BYTES) and len(extents) < _MOST_RANK:
            found = {n: signed(value) for n, w, value, _ in fields(data, at, stop) if w == VARINT}
            extents.append((found.get(1, 0), found.get(2, -1)))
    return tuple(extents)


def _slice_key(name: str, place: Slice) -> bytes:
    """The key of a slice: a code whose order as bytes is that of (0, name, rank, start, length, ...)."""
    escaped = re.sub(rb"[\x00\xff]", lambda found: found[0] + bytes((found[0][0] ^ 0xFF,)), name.encode())
    numbers = b"".join(_ordered(start) + _ordered(length) for start, length in place)
    return b"\0" + escaped + b"\0\x01" + bytes((1, len(place))) + numbers


def _ordered(value: int) -> bytes:
    """A signed number of n bytes: n leading bits say how many, all bits turned for a negative one."""
    size = 1
    magnitude = ~value if value < 0 else value
    while magnitude >> (7 * size - 1):
        size += 1
    mark = ((1 << size) - 1) << (7 * size)
    return ((value & ((1 << 8 * size) - 1)) ^ mark).to_bytes(size, "big")
