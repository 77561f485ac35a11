"""The header of a NumPy array file (.npy), read as text: a description that `numpy.load` would parse as Python.

NumPy writes it as the repr of a dict of three keys, and so does every other writer. Three patterns find the values, so
nothing is evaluated. Format: numpy/lib/format.py of NumPy 2.4, versions 1.0 to 3.0.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

MAGIC: Final = b"\x93NUMPY"
MAX_HEADER: Final = 1 << 16
"""Bytes of a header that are read; NumPy itself refuses more than 10,000 unless it is told to trust the file."""

_DESCR: Final = re.compile(r"'descr':\s*(?:'([^']{1,64})'|(\[))")
_ORDER: Final = re.compile(r"'fortran_order':\s*(True|False)")
_SHAPE: Final = re.compile(r"'shape':\s*\(([\d\sL,]*)\)")
_OBJECT_FIELD: Final = re.compile(r"'[|<>=]?O\d*'")
_MAX_RANK: Final = 64


class NpyError(ValueError):
    """The bytes are no header of an array; the message is a clause."""


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a header says.

    `dtype` is numpy's name, with its sign where the bytes are big-endian (">f4"); "object" for pickled Python objects,
    "structured" for records. `size` is how many bytes the header takes, `item` how many an element does.
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool
    size: int
    item: int

    @property
    def data_bytes(self) -> int:
        """The bytes that the elements take, 0 of objects (they are one pickle) and of records (see `item`)."""
        return prod(self.shape) * self.item


def read_npy_header(head: bytes) -> NpyHeader:
    """Read a header from the first bytes of a file. Raises NpyError for what is none, or is longer than the bytes."""
    if head[:6] != MAGIC or len(head) < 10:
        raise NpyError("is no NumPy array")
    wide = head[6] > 1
    if head[6] > 3 or (wide and len(head) < 12):
        raise NpyError(f"is of version {head[6]} of the array format, which NumPy does not read either")
    start = 12 if wide else 10
    size = start + struct.unpack_from("<I" if wide else "<H", head, 8)[0]
    if size > len(head):
        raise NpyError(f"declares a header of {size:,} bytes")
    text = head[start:size].decode("utf-8" if head[6] == 3 else "latin-1", "replace")
    descr, order, shape = _DESCR.search(text), _ORDER.search(text), _SHAPE.search(text)
    if descr is None or order is None or shape is None:
        raise NpyError("has a header without descr, fortran_order and shape")
    dtype, item = _dtype(descr[1]) if descr[1] else ("object" if _OBJECT_FIELD.search(text) else "structured", 0)
    return NpyHeader(dtype, _sizes(shape[1]), order[1] == "True", size, item)


def _dtype(descr: str) -> tuple[str, int]:
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError, SyntaxError, OverflowError) as error:
        raise NpyError(f"has elements of type {descr!r}, which NumPy does not know") from error
    if dtype.hasobject:
        return "object", 0
    big = dtype.byteorder == ">"
    return (dtype.str if big else dtype.name), dtype.itemsize


def _sizes(text: str) -> tuple[int, ...]:
    digits = [part.strip(" \t\r\nL") for part in text.split(",")]
    digits = digits[:-1] if digits[-1] == "" else digits
    if len(digits) > _MAX_RANK or not all(part.isdecimal() and len(part) < 19 for part in digits):
        raise NpyError(f"has the impossible shape ({text[:60]})")
    return tuple(map(int, digits))
