"""Zarr arrays as TensorStore writes them for Orbax: what `.zarray` and `zarr.json` say, and what a chunk holds.

A chunk at the edge of an array is stored whole, so the part of it that belongs to the array is cut out here. Formats:
the Zarr specification, versions 2 and 3, with the codecs bytes, zstd, gzip and sharding_indexed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.bounded_json import JsonLimits, read_json
from tensoraudit.artifacts.zstd import ZstdError, decompress
from tensoraudit.errors import InputError

NAMES: Final = (".zarray", "zarr.json")
"""What the description of an array is called, in version 2 and in version 3."""
_LIMITS: Final = JsonLimits(size=1 << 20, names=10_000, items=100_000)
_OTHER_TYPES: Final = {"bfloat16": 2}
"""Bytes per element of the types that NumPy lacks; the small floats and integers of ml_dtypes take one each."""
_SMALL_TYPES: Final = ("float8_", "float4_", "float6_", "int4", "uint4", "int2", "uint2")
_MAX_RANK: Final = 64
_MAX_CHUNK: Final = 256 << 20
_EMPTY: Final = (1 << 64) - 1
"""Where the index of a shard says that a chunk is not stored."""


class ZarrError(ValueError):
    """The description or a chunk cannot be read; the message is a clause."""


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """The description of an array. `chunks` are the sizes of what is one file or one value; `inner` those of the
    chunks in it, where it is a shard, else None. `packing` is "", "zstd", "gzip" or another codec's name. `item` is in
    bytes. `separator` and `prefix` make the key of a chunk from its indices."""

    dtype: str
    item: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    inner: tuple[int, ...] | None
    packing: str
    separator: str
    prefix: str

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return tuple(-(-size // chunk) for size, chunk in zip(self.shape, self.chunks, strict=True))

    def places(self, most: int) -> Iterator[tuple[int, ...]]:
        """Yield the indices of at most `most` chunks, in C order."""
        return islice(product(*map(range, self.grid)), most)

    def key(self, place: tuple[int, ...]) -> str:
        """Return the key of a chunk below the array's own."""
        digits = self.separator.join(map(str, place))
        if self.prefix:
            return f"{self.prefix}{self.separator}{digits}" if place else self.prefix
        return digits or "0"

    def box(self, place: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (start, shape) of what a chunk holds of the array, in elements."""
        start = tuple(index * chunk for index, chunk in zip(place, self.chunks, strict=True))
        sizes = zip(self.shape, start, self.chunks, strict=True)
        return start, tuple(min(chunk, size - begin) for size, begin, chunk in sizes)

    @property
    def is_plain(self) -> bool:
        """Whether a whole chunk's bytes are stored as they are."""
        return not self.packing and self.inner is None


def read_array(text: bytes, name: str, where: str) -> ZarrArray:
    """Read the description that has the given name (one of NAMES). Raises ZarrError."""
    try:
        found = read_json(text, where, _LIMITS)
        return _version_2(found) if name == NAMES[0] else _version_3(found)
    except InputError as error:
        raise ZarrError(error.message) from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ZarrError(f"describes an array without {error}") from error


def _version_2(found: Mapping[str, Any]) -> ZarrArray:
    if found["zarr_format"] != 2 or found.get("filters") or found.get("order", "C") != "C":
        raise ZarrError("describes an array in a form that Orbax does not write")
    dtype, item = _dtype(found["dtype"])
    shape, chunks = _sizes(found["shape"]), _sizes(found["chunks"])
    packing = str(found["compressor"]["id"])[:40] if found["compressor"] else ""
    separator = str(found.get("dimension_separator", "."))[:1]
    return _checked(ZarrArray(dtype, item, shape, chunks, None, packing, separator, ""))


def _version_3(found: Mapping[str, Any]) -> ZarrArray:
    grid, encoding = found["chunk_grid"], found["chunk_key_encoding"]
    if found["zarr_format"] != 3 or grid["name"] != "regular" or encoding["name"] != "default":
        raise ZarrError("describes an array in a form that Orbax does not write")
    dtype, item = _dtype(found["data_type"])
    codecs, inner = found["codecs"], None
    if codecs[0]["name"] == "sharding_indexed":
        inner = _sizes(codecs[0]["configuration"]["chunk_shape"])
        codecs = codecs[0]["configuration"]["codecs"]
    names = [str(codec["name"])[:40] for codec in codecs]
    if names[0] != "bytes" or len(names) > 2 or codecs[0].get("configuration", {}).get("endian", "little") != "little":
        raise ZarrError(f"describes an array with the codecs {', '.join(names)}")
    separator = str(encoding.get("configuration", {}).get("separator", "/"))[:1]
    chunks = _sizes(grid["configuration"]["chunk_shape"])
    return _checked(ZarrArray(dtype, item, _sizes(found["shape"]), chunks, inner, "".join(names[1:]), separator, "c"))


def _checked(array: ZarrArray) -> ZarrArray:
    right = len(array.chunks) == len(array.shape) and all(array.chunks)
    if array.inner is not None:
        pairs = zip(array.inner, array.chunks, strict=False)
        right = (
            right and len(array.inner) == len(array.chunks) and all(size and whole % size == 0 for size, whole in pairs)
        )
    if not right:
        raise ZarrError(f"describes chunks of {array.chunks} for an array of {array.shape}")
    return array


def _sizes(sizes: Any) -> tuple[int, ...]:
    right = isinstance(sizes, list) and len(sizes) <= _MAX_RANK
    if not right or any(type(size) is not int or not 0 <= size < 1 << 62 for size in sizes):
        raise ZarrError(f"describes an array of the impossible shape {str(sizes)[:60]}")
    return tuple(sizes)


def _dtype(name: Any) -> tuple[str, int]:
    if not isinstance(name, str) or len(name) > 40:
        raise ZarrError("describes an array of records")
    if name in _OTHER_TYPES or name.startswith(_SMALL_TYPES):
        return name, _OTHER_TYPES.get(name, 1)
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ZarrError(f"describes an array of the unknown type {name!r}") from error
    if dtype.hasobject:
        raise ZarrError("describes an array of Python objects")
    return (dtype.str if dtype.byteorder == ">" else dtype.name), dtype.itemsize


def read_chunk(array: ZarrArray, place: tuple[int, ...], stored: bytes) -> bytes:
    """Return what a stored chunk holds of the array, in C order. Raises ZarrError where it cannot be unpacked."""
    if prod(array.chunks) * array.item > _MAX_CHUNK:
        raise ZarrError(f"has chunks of {prod(array.chunks) * array.item:,} bytes, more than are unpacked here")
    inner = array.inner
    whole = _elements(array, array.chunks, stored) if inner is None else _shard(array, inner, stored)
    _, shape = array.box(place)
    return whole[tuple(map(slice, shape))].tobytes()


def _elements(array: ZarrArray, shape: tuple[int, ...], stored: bytes) -> np.ndarray[Any, np.dtype[np.void]]:
    """The elements of one packed chunk, each as so many bytes."""
    size = prod(shape) * array.item
    content = _unpacked(array.packing, stored, size)
    if len(content) != size:
        raise ZarrError(f"has a chunk of {len(content):,} bytes where {size:,} are needed")
    return np.frombuffer(content, np.dtype((np.void, array.item))).reshape(shape)


def _unpacked(packing: str, stored: bytes, size: int) -> bytes:
    if not packing:
        return stored
    try:
        if packing == "zstd":
            return decompress(stored, size)
        if packing in ("gzip", "zlib"):
            return zlib.decompressobj(wbits=47).decompress(stored, size + 1)
    except (ZstdError, zlib.error) as error:
        raise ZarrError(f"has a damaged chunk: {error}") from error
    raise ZarrError(f"has chunks that are packed with {packing}")


def _shard(array: ZarrArray, inner: tuple[int, ...], stored: bytes) -> np.ndarray[Any, np.dtype[np.void]]:
    """The elements of a shard: chunks one after another, and behind them an index of (offset, size) in bytes."""
    grid = tuple(chunk // size for chunk, size in zip(array.chunks, inner, strict=True))
    count = prod(grid)
    start = len(stored) - 16 * count - 4  # behind the index stands its checksum
    if start < 0:
        raise ZarrError("has a shard that is too short for its index")
    index = np.frombuffer(stored[start:-4], "<u8").reshape(count, 2)
    whole = np.zeros(array.chunks, np.dtype((np.void, array.item)))
    for place, (offset, length) in zip(product(*map(range, grid)), index.tolist(), strict=True):
        if offset == _EMPTY:
            continue
        if offset + length > start:
            raise ZarrError("has a shard whose index leads out of it")
        box = tuple(slice(at * size, (at + 1) * size) for at, size in zip(place, inner, strict=True))
        whole[box] = _elements(array, inner, stored[offset : offset + length])
    return whole
