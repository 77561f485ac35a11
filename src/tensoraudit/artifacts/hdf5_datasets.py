"""Datasets of an HDF5 file: shape, type, and where their bytes stand. No data is read.

HDF5 File Format Specification 3.0, IV.A.2: dataspace, datatype, layout and filter messages.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, NamedTuple

from tensoraudit.artifacts.hdf5 import Hdf5Error, Hdf5File, Message

DATASPACE, DATATYPE, LAYOUT, FILTERS, EXTERNAL_FILES = 0x01, 0x03, 0x08, 0x0B, 0x07
_MOST_RANK: Final = 32
_COMPACT, _CONTIGUOUS, _CHUNKED, _VIRTUAL = 0, 1, 2, 3
_FLOATS: Final = {
    (2, 5, 10): "float16", (2, 8, 7): "bfloat16", (4, 8, 23): "float32", (8, 11, 52): "float64",
    (1, 4, 3): "float8_e4m3fn", (1, 5, 2): "float8_e5m2",
}  # fmt: skip
"""By bytes, bits of the exponent and bits of the mantissa."""


class Dataset(NamedTuple):
    """`offset` is where the bytes begin, None where they do not stand in one piece as they are: then `codec` says how
    ("chunks", "external", "virtual", "big_endian", "strings", "shared", "fill" for never written, "empty" for no value
    at all). `bytes` is their number when unpacked. `dtype` is numpy's name; "string" for texts, "void16" for two bytes
    without a meaning."""

    shape: tuple[int, ...]
    dtype: str
    offset: int | None
    bytes: int
    codec: str = ""


def dataset(file: Hdf5File, found: list[Message]) -> Dataset | None:
    """Return the dataset whose messages are given, None for an object that is none. Raises Hdf5Error."""
    by_kind = {message.kind: message for message in found}
    if not {DATASPACE, DATATYPE, LAYOUT} <= by_kind.keys():
        return None
    shape = _shape(file, by_kind[DATASPACE].start)
    described = by_kind[DATATYPE]
    # A type that is stored on its own and shared by datasets: its place is told, and no writer of weights does it.
    dtype, size, codec = ("shared type", 0, "shared") if described.shared else _type(file, described.start)
    number = 0 if shape is None else prod(shape) * size
    if number >> 62:
        raise Hdf5Error(f"a dataset of {number:,} bytes")
    offset, where = _place(file, by_kind, number) if number else (0, "")
    if codec or shape is None:
        offset, where = None, codec or "empty"
    return Dataset(shape or (), dtype, offset, number, where)


def _shape(file: Hdf5File, at: int) -> tuple[int, ...] | None:
    """The sizes of the axes, None for a dataset without elements."""
    version, rank = file.number(at, 1), file.number(at + 1, 1)
    if version not in (1, 2) or rank > _MOST_RANK:
        raise Hdf5Error(f"a dataset of {rank} axes (version {version})")
    if version == 2 and file.number(at + 3, 1) == 2:
        return None
    first = at + (8 if version == 1 else 4)
    return tuple(file.length(first + number * file.length_size) for number in range(rank))


def _type(file: Hdf5File, at: int) -> tuple[str, int, str]:
    """(name, bytes of an element, codec) of a datatype."""
    kind, bits, size = file.number(at, 1) & 0x0F, file.number(at + 1, 3), file.number(at + 4, 4)
    name = _TYPES.get(kind, _other)(file, at, size)
    ordered = kind in (0, 1, 4) and size > 1
    codec = "big_endian" if ordered and bits & 1 else "strings" if kind in (3, 9) else ""
    return name, size, codec


def _integer(file: Hdf5File, at: int, size: int) -> str:
    signed = file.number(at + 1, 1) & 8
    return f"{'' if signed else 'u'}int{8 * size}"


def _float(file: Hdf5File, at: int, size: int) -> str:
    exponent, mantissa = file.number(at + 13, 1), file.number(at + 15, 1)
    return _FLOATS.get((size, exponent, mantissa), f"float{8 * size} of {exponent} and {mantissa} bits")


def _other(file: Hdf5File, at: int, size: int) -> str:
    return f"void{8 * size}"


def _text(file: Hdf5File, at: int, size: int) -> str:
    return "string"


def _compound(file: Hdf5File, at: int, size: int) -> str:
    """Complex numbers are two floats under the names r and i."""
    names = file.bytes_at(at + 8, 2) == b"r\x00" and file.number(at + 1, 2) == 2
    return f"complex{8 * size}" if names and size in (8, 16) else f"void{8 * size}"


def _enumeration(file: Hdf5File, at: int, size: int) -> str:
    """h5py keeps truth values as an enumeration of FALSE and TRUE."""
    names = file.number(at + 1, 2) == 2 and b"FALSE\x00" in file.bytes_at(at + 20, min(40, len(file.view) - at - 20))
    return "bool" if names and size == 1 else _integer(file, at + 8, size)


_TYPES: Final[dict[int, Callable[[Hdf5File, int, int], str]]] = {
    0: _integer, 1: _float, 3: _text, 6: _compound, 8: _enumeration, 9: _text,
}  # fmt: skip


def _place(file: Hdf5File, by_kind: dict[int, Message], number: int) -> tuple[int | None, str]:
    """(offset, codec) of a dataset of that many bytes."""
    at, end = by_kind[LAYOUT].start, by_kind[LAYOUT].start + by_kind[LAYOUT].size
    version = file.number(at, 1)
    if version in (1, 2):
        layout, body = file.number(at + 2, 1), at + 8
    elif version in (3, 4, 5):
        layout, body = file.number(at + 1, 1), at + 2
    else:
        raise Hdf5Error(f"a layout of version {version}")
    if EXTERNAL_FILES in by_kind:
        return None, "external"
    if layout in (_CHUNKED, _VIRTUAL):
        return None, "chunks" if layout == _CHUNKED else "virtual"
    if layout == _CONTIGUOUS:
        return _contiguous(file, body, number)
    if layout != _COMPACT:
        raise Hdf5Error(f"a layout of kind {layout}")
    rank = file.number(at + 1, 1)
    start, width = (body + 4 * rank, 4) if version < 3 else (body, 2)
    stored = file.number(start, width)
    if stored < number or start + width + number > end:
        raise Hdf5Error(f"{number:,} bytes of a dataset in a header of {stored:,}")
    return start + width, ""


def _contiguous(file: Hdf5File, body: int, number: int) -> tuple[int | None, str]:
    address = file.address(body)
    if file.is_nowhere(address):
        return None, "fill"
    if number and address + number > len(file.view):
        raise Hdf5Error(f"a dataset of {number:,} bytes at byte {address:,}, {len(file.view):,} are there")
    return address, ""
