"""Where the external data of an ONNX model lies, judged without opening any of it (see `neighbours`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.neighbours import Neighbours
from tensoraudit.artifacts.onnx_file import TensorHeader
from tensoraudit.errors import InputError

BITS: Final = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16, 17: 8,
    18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2, 27: 6, 28: 6,
}  # fmt: skip
"""Bits per element of each TensorProto.DataType that has a fixed width (strings have none)."""

_REMEDIES: Final = {
    "missing": "Put the file beside the model, under that name.",
    "truncated": "Copy the data file again; it is shorter than the model's tensors need.",
    "not-a-file": "Put the data file there; what has its name is no regular file.",
    "outside": "Keep the data file in the model's folder and export or save the model again.",
    "absolute": "Keep the data file in the model's folder and export or save the model again.",
    "symlink": "Put the data file itself in the model's folder, not a link that leads out of it.",
}


def tensor_bytes(tensor: TensorHeader) -> int | None:
    """Return how many bytes the data of a tensor takes, None when its type has no fixed width."""
    bits = BITS.get(tensor.dtype)
    return None if bits is None else (tensor.numel * bits + 7) // 8


def external_files(model: Path, tensors: Iterable[TensorHeader]) -> list[dict[str, Any]]:
    """Return one plain row per location: `location`, `status`, `tensors` (how many lie there) and `bytes` (where the
    last one ends). `status` is "ok", "missing", "not-a-file", "truncated", "outside", "absolute" or "symlink".
    """
    rows: dict[str, dict[str, Any]] = {}
    beside = Neighbours(model.parent, model.resolve().parent)
    for tensor in tensors:
        external = tensor.external or {}
        row = rows.setdefault(external.get("location", ""), {"tensors": 0, "bytes": 0})
        row["tensors"] += 1
        row["bytes"] = max(row["bytes"], external_span(tensor)[0] + external_span(tensor)[1])
    return [{"location": name, "status": beside.status(name, row["bytes"]), **row} for name, row in rows.items()]


def external_span(tensor: TensorHeader) -> tuple[int, int]:
    """Return (offset, length) in bytes within the data file; what is not a number counts as not given."""
    external = tensor.external or {}
    offset, length = _number(external.get("offset")), _number(external.get("length"))
    return offset or 0, (tensor_bytes(tensor) or 0) if length is None else length


def require_external(model: Path, files: Iterable[dict[str, Any]]) -> None:
    """Raise InputError that names every external data file that cannot be used."""
    bad = [row for row in files if row["status"] != "ok"]
    if bad:
        shown = ", ".join(f"{row['location']!r} ({row['status']})" for row in bad[:5])
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise InputError(
            f"keeps weights in other files that cannot be used: {shown}{more}",
            where=str(model),
            remedy=_REMEDIES[bad[0]["status"]],
        )


def _number(digits: str | None) -> int | None:
    return int(digits) if digits is not None and re.fullmatch(r"[0-9]{1,19}", digits) else None
