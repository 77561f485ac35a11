"""Sample inputs that the user saved with NumPy: `.npz` (arrays under names, or in order) and `.npy` (one array).

Never unpickles. What an archive declares is checked against what is there before memory is asked for. Knows nothing of
the model that the arrays are for.
"""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.signatures import describe_bytes
from tensoraudit.artifacts.zips import SafeZip, ZipLimits
from tensoraudit.errors import InputError

MAX_SAMPLE_BYTES: Final = 8 << 30
"""All arrays of one file together, in bytes. Zeros shrink a thousandfold, so there is no limit on the ratio."""

_LIMITS: Final = ZipLimits(ratio=1_100, inflated=MAX_SAMPLE_BYTES)
_MAX_RANK: Final = 64
_SAVE: Final = "Save the arrays with numpy.savez('samples.npz', name=array, ...)."
_KINDS: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
"""Item sizes in bytes that frameworks share, by NumPy's kind letter."""


def load_samples(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a `.npz` or `.npy` file by name, in the file's order, in native byte order.

    A `.npy` file gives one array, named "arr_0" as `numpy.savez` names arrays without a name. Raises InputError for
    a file that is neither, is damaged, holds no array, or holds something else than numbers and booleans.
    """
    path = Path(path)
    view, where = map_file(path), str(path)
    head = bytes(view[:6])
    if head == b"\x93NUMPY":
        return {"arr_0": _array(view, where, "the array")}
    if head[:4] not in (b"PK\x03\x04", b"PK\x05\x06"):
        what, _ = describe_bytes(view)
        raise InputError(f"is {what}, no NumPy file", where=where, remedy=_SAVE)
    return _archive(SafeZip(view, where, _LIMITS))


def _archive(archive: SafeZip) -> dict[str, np.ndarray[Any, Any]]:
    names = [archive.prefix + name for name in archive.names]
    foreign = next((name for name in names if not name.endswith(".npy")), None)
    if not names or foreign:
        what = f"holds {foreign!r}, so it is no .npz file" if foreign else "holds no array"
        raise InputError(what, where=archive.where, remedy=_SAVE)
    arrays = {}
    for entry, name in zip(archive.names, names, strict=True):
        view = archive.view(entry, MAX_SAMPLE_BYTES)
        arrays[name.removesuffix(".npy")] = _array(view, archive.where, f"array {name.removesuffix('.npy')!r}")
    return arrays


def _array(view: memoryview, where: str, name: str) -> np.ndarray[Any, Any]:
    try:
        shape, fortran, dtype, start = _header(view)
    except Exception as error:  # NumPy parses the header as Python, which fails in as many ways as Python can
        raise InputError(f"{name} is damaged ({_first_line(error)})", where=where, remedy=_SAVE) from error
    if dtype.itemsize not in _KINDS.get(dtype.kind, ()):
        what = "Python objects" if dtype.hasobject else f"elements of type {dtype}"
        raise InputError(f"{name} holds {what}; a model takes numbers and booleans", where=where, remedy=_SAVE)
    if len(shape) > _MAX_RANK or not all(0 <= size < 1 << 63 for size in shape):
        raise InputError(f"{name} declares a shape that no array has", where=where, remedy=_SAVE)
    needed = math.prod(shape, start=dtype.itemsize)
    if needed != len(view) - start:
        message = f"{name} declares shape {shape} of {dtype} ({needed:,} bytes), {len(view) - start:,} bytes are there"
        raise InputError(message, where=where, remedy=_SAVE)
    array = np.frombuffer(view[start:], dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return np.asarray(array, dtype=dtype.newbyteorder("="))


def _header(view: memoryview) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read a .npy header: (shape, whether in Fortran order, dtype, where the data starts)."""
    stream = io.BytesIO(bytes(view[: 1 << 17]))
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format version {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy remarks on headers that Python 2 wrote
        shape, fortran, dtype = readers[version](stream)
    return shape, fortran, dtype, stream.tell()


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
