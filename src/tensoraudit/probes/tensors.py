"""Tensors between processes: raw files in the run folder, and the references that name them.

A reference is plain JSON: {"file": "j3-17.bin", "dtype": "float32", "shape": [2, 3], "logical": "bfloat16"?,
"offset": 64?}. The file holds the values in C order, little-endian, nothing else. With an `offset` in bytes it is a
pack of many tensors, because opening a file can cost more than a small tensor's arithmetic. `dtype` is the numpy dtype
of the file; `logical` names the framework's dtype when numpy has no twin of it, and the values were then widened
exactly.

Both sides use this module, so it runs on Python 3.9 and imports numpy only. It must not know jobs or workers.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
# Extension dtypes (ml_dtypes) that arrive in numpy arrays, and the numpy dtype that holds all of their values exactly.
WIDENED = {
    **dict.fromkeys(("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), "float32"),
    **dict.fromkeys(("float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn"), "float32"),
    **dict.fromkeys(("int2", "int4"), "int8"),
    **dict.fromkeys(("uint2", "uint4"), "uint8"),
}
ALIGNMENT = 64  # bytes; what vector instructions like best
MAX_DIMENSIONS = 32  # what numpy 1.x can hold
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}\.bin", re.ASCII)


class UnsupportedArrayError(TypeError):
    """The array's dtype cannot be carried (strings, objects, dates, structures)."""


class StorageError(OSError):
    """The run folder cannot take the tensor, mostly because the disk is full."""


class TensorReferenceError(ValueError):
    """A reference that names no tensor file of this run folder."""


class TensorFolder:
    """Write and read the tensor files of one run folder.

    Two processes that write into one folder need different prefixes.
    """

    def __init__(self, folder: Path, prefix: str = "t") -> None:
        self.folder = folder
        self.prefix = prefix
        self._numbers = count(1)
        self._pack: str | None = None

    def pack(self) -> None:
        """Put what follows into one file: `discard` of one of these tensors then drops all of them."""
        self._pack = f"{self.prefix}-{next(self._numbers)}.bin"
        (self.folder / self._pack).touch()

    def put(self, array: Any, logical: str | None = None) -> dict[str, Any]:
        """Write an array of any layout and byte order and return its reference.

        Raises UnsupportedArrayError for a dtype that is not carried, StorageError when the file cannot be written.
        """
        plain = np.asarray(array)
        if plain.dtype.name in WIDENED:
            logical = logical or plain.dtype.name
            plain = plain.astype(WIDENED[plain.dtype.name])
        if plain.dtype.name not in DTYPES:
            raise UnsupportedArrayError(f"An array of dtype {plain.dtype} cannot be carried between processes")
        reference: dict[str, Any] = {
            "file": self._pack or f"{self.prefix}-{next(self._numbers)}.bin",
            "dtype": plain.dtype.name,
            "shape": [int(size) for size in plain.shape],
        }
        if logical is not None:
            reference["logical"] = logical
        offset = self._write(reference["file"], np.ascontiguousarray(plain, dtype=plain.dtype.newbyteorder("<")))
        if self._pack is not None:
            reference["offset"] = offset
        return reference

    def _write(self, name: str, values: np.ndarray[Any, Any]) -> int:
        path = self.folder / name
        try:
            with path.open("xb" if self._pack is None else "ab") as file:
                offset = file.tell()
                file.write(bytes(-offset % ALIGNMENT))
                file.write(values.reshape(-1).view(np.uint8).data)
                return offset + -offset % ALIGNMENT
        except OSError as problem:
            path.unlink(missing_ok=True)
            reason = problem.strerror or str(problem)
            raise StorageError(
                problem.errno, f"Cannot write {values.nbytes} bytes of tensor data to {path}: {reason}"
            ) from problem

    def get(self, reference: Any) -> np.ndarray[Any, Any]:
        """Map the tensor of a reference, read-only. Raises TensorReferenceError when it is none of this folder's."""
        descriptor, dtype, shape = self._open(reference)
        with os.fdopen(descriptor, "rb") as file:
            if 0 in shape:
                values = np.zeros(shape, dtype)
                values.flags.writeable = False
                return values
            # A plain view: the memmap subclass would follow the values into every result computed from them.
            offset = reference.get("offset", 0)
            return np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape).view(np.ndarray)

    def check(self, reference: Any) -> None:
        """Raise TensorReferenceError unless `get` would succeed."""
        os.close(self._open(reference)[0])

    def discard(self, value: Any) -> None:
        """Delete the file of every reference found in plain JSON data; files that are gone already are ignored."""
        for reference in references_in(value):
            if _is_name(reference["file"]):
                (self.folder / reference["file"]).unlink(missing_ok=True)

    def discard_prefix(self, prefix: str) -> None:
        """Delete all tensor files that were written under one prefix."""
        for path in self.folder.glob(f"{prefix}-*.bin"):
            path.unlink(missing_ok=True)

    def _open(self, reference: Any) -> tuple[int, np.dtype[Any], tuple[int, ...]]:
        name, dtype, shape = _parts(reference)
        path = self.folder / name
        try:
            # Neither follow a link out of the folder nor wait on a pipe: the other side may run anybody's code.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            raise TensorReferenceError(f"Tensor file {path} cannot be opened: {problem.strerror}") from problem
        status = os.fstat(descriptor)
        expected = dtype.itemsize * math.prod(shape)
        offset = reference.get("offset")
        fits = status.st_size == expected if offset is None else status.st_size >= offset + expected
        if not stat.S_ISREG(status.st_mode) or not fits:
            os.close(descriptor)
            raise TensorReferenceError(
                f"Tensor file {path} holds {status.st_size} bytes, but {dtype} of shape {list(shape)} is {expected}"
            )
        return descriptor, dtype, shape


def references_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every tensor reference in plain JSON data, depth first."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if is_reference(item):
            yield item
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def is_reference(value: Any) -> bool:
    """Tell whether a JSON value means a tensor file (which may still turn out to be a bad one)."""
    return isinstance(value, dict) and "file" in value and "dtype" in value and "shape" in value


def _parts(reference: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    if not is_reference(reference):
        raise TensorReferenceError(f"This is no tensor reference: {str(reference)[:200]}")
    name, dtype, shape = reference["file"], reference["dtype"], reference["shape"]
    if not _is_name(name):
        raise TensorReferenceError(f"A tensor file must be a plain name in the run folder, not {str(name)[:200]!r}")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise TensorReferenceError(f"Tensor file {name} has unknown dtype {str(dtype)[:80]!r}")
    if not isinstance(shape, (list, tuple)) or len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
        raise TensorReferenceError(f"Tensor file {name} has a bad shape: {str(shape)[:200]}")
    if "offset" in reference and not _is_size(reference["offset"]):
        raise TensorReferenceError(f"Tensor file {name} has a bad offset: {str(reference['offset'])[:80]}")
    return name, np.dtype(dtype).newbyteorder("<"), tuple(shape)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _is_size(size: Any) -> bool:
    return type(size) is int and size >= 0
