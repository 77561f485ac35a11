"""Recognise what `jax.export` serialized: a FlatBuffer whose table holds a StableHLO module in MLIR bytecode.

The format has no magic of its own, so the road to the module is followed: root table, its table of fields, the vector
of bytes in field 13, which begins with MLIR's magic and the producer `StableHLO`. Every offset is checked against the
file; nothing else of it is looked at, and nothing is run.
"""

from __future__ import annotations

import struct
from typing import Any, Final

_NAME, _MODULE, _CALLING_CONVENTION = 1, 13, 14
"""Numbers of fields in the table `Exported` of JAX's schema (jax/_src/export/serialization.fbs)."""
_BYTECODE: Final = b"ML\xefR"
_PRODUCER: Final = b"StableHLO"
_MAX_NAME: Final = 200


def read_jax_export(view: memoryview) -> dict[str, Any] | None:
    """Return {"function", "calling_convention"} of a serialized program; None for any other bytes."""
    try:
        fields = _fields(view)
        module = _vector(view, fields[_MODULE])
        if not module.startswith(_BYTECODE) or _PRODUCER not in module[:64]:
            return None
        version = (
            struct.unpack_from("<H", view, fields[_CALLING_CONVENTION])[0] if _CALLING_CONVENTION in fields else None
        )
        name = _vector(view, fields[_NAME])[:_MAX_NAME].decode("utf-8", "replace") if _NAME in fields else ""
    except (struct.error, KeyError, IndexError):
        return None
    return {"function": name, "calling_convention": version}


def _fields(view: memoryview) -> dict[int, int]:
    """The places of the fields of the root table that are there, by number."""
    (table,) = struct.unpack_from("<I", view, 0)
    (back,) = struct.unpack_from("<i", view, table)
    places = table - back
    if places < 0:
        raise IndexError("the table of fields lies before the file")
    (size,) = struct.unpack_from("<H", view, places)
    offsets = struct.unpack_from(f"<{(size - 4) // 2}H", view, places + 4)
    return {number: table + offset for number, offset in enumerate(offsets) if offset}


def _vector(view: memoryview, place: int) -> bytes:
    """The first bytes of a vector or text, enough to tell what it is."""
    (offset,) = struct.unpack_from("<I", view, place)
    (length,) = struct.unpack_from("<I", view, place + offset)
    start = place + offset + 4
    if start + length > len(view):
        raise IndexError("a vector ends behind the file")
    return bytes(view[start : start + min(length, 256)])
