"""The weights of an ONNX model: in its file or in files of external data beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.onnx_external import BITS, external_files, external_span, tensor_bytes
from tensoraudit.artifacts.onnx_file import ModelHeader, TensorHeader, read_header
from tensoraudit.artifacts.protobuf import BYTES, Buffer, WireError, varint
from tensoraudit.checkpoints.onnx_tensors import OnnxTensors, PlacedTensor, find_tensors
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.errors import InputError

DTYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2", 27: "float6_e2m3fn", 28: "float6_e3m2fn",
}  # fmt: skip
"""TensorProto.DataType to numpy's or ml_dtypes' name."""

_FLOATS, _INTS, _LONGS, _RAW, _DOUBLES, _UNSIGNED = 4, 5, 7, 9, 10, 11
_AS_THEY_ARE: Final = {_RAW: None, _FLOATS: (1, 14), _DOUBLES: (11, 15)}
"""Data fields whose payload is the elements' bytes, and the element types that may be there (None: any)."""
_VARINTS: Final = frozenset({_INTS, _LONGS, _UNSIGNED})
_FILE_KINDS: Final = {"missing": "file_missing", "not-a-file": "file_missing", "truncated": "file_truncated"}
_MOST: Final = 1000
_AGAIN: Final = "Copy or download the file again, or export the model again."


def recognises(path: Path) -> bool:
    """Whether the file is an ONNX model, or is named one."""
    if not path.is_file():
        return False
    try:
        header = read_header(map_file(path))
    except (WireError, InputError):
        return path.suffix == ".onnx"
    return header.graph is not None and (header.ir_version is not None or bool(header.opsets))


def read(path: Path) -> StoredCheckpoint:
    """Read where the weights are. Raises InputError for a file that is no whole ONNX model."""
    view = map_file(path)
    try:
        header = read_header(view)
        found = find_tensors(view, header)
    except WireError as error:
        message = f"is a damaged or truncated ONNX model ({error})"
        raise InputError(message, where=str(path), remedy=_AGAIN) from error
    rows = external_files(path, (each.tensor for each in found.tensors if each.tensor.external is not None))
    refused = {row["location"] for row in rows if row["status"] in ("outside", "absolute", "symlink")}
    observations = [*_files(rows), *_twice(found.tensors, path.name)]
    entries = list(_entries(found, path.name, refused, observations))
    if not entries:
        observations.append(Observation("no_tensors", path.name, 0, "The model holds no tensor", path.name))
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format="onnx",
        framework="onnx",
        files=(path.name, *sorted(row["location"] for row in rows)),
        entries=tuple(entries),
        writer=f"{header.producer} {header.producer_version}".strip(),
        metadata=_metadata(header, found),
        observations=tuple(observations),
    )


def _metadata(header: ModelHeader, found: OnnxTensors) -> dict[str, object]:
    properties = {name[:200]: value[:2000] for name, value in islice(header.properties.items(), 100)}
    return {
        "ir_version": header.ir_version,
        "opsets": dict(islice(header.opsets.items(), 100)),
        "properties": properties,
        "sparse": found.sparse[:_MOST],
    }


def _files(rows: Iterable[dict[str, object]]) -> Iterator[Observation]:
    for row in rows:
        status, location = str(row["status"]), str(row["location"])
        if status != "ok":
            kind = _FILE_KINDS.get(status, "file_outside")
            message = f"{row['tensors']:,} tensors lie in {location!r}, which is {status}"
            yield Observation(kind, location, row, message, location)


def _twice(tensors: Iterable[PlacedTensor], file: str) -> Iterator[Observation]:
    counts = Counter((*placed.path, placed.name) for placed in tensors)
    for keys in islice((keys for keys, count in counts.items() if count > 1), _MOST):
        message = f"{keys[-1]!r} is declared twice; runtimes differ in which they take"
        yield Observation("tensor_twice", ".".join(keys), [file, file], message, file)


def _entries(found: OnnxTensors, file: str, refused: set[str], observations: list[Observation]) -> Iterator[Entry]:
    """Yield an entry per name; the last of a name counts. Adds to the observations what is wrong with their bytes."""
    shared: dict[Part, str] = {}
    last = {(placed.path, placed.name): placed for placed in found.tensors}
    for placed in last.values():
        tensor, full = placed.tensor, ".".join((*placed.path, placed.name))
        dtype = DTYPES.get(tensor.dtype, "unknown")
        needed = tensor_bytes(tensor)
        held = _held(tensor)
        if held is not None and needed is not None and held != needed and len(observations) < _MOST:
            message = f"{full!r} has {held:,} bytes of data, and its shape and type need {needed:,}"
            observations.append(Observation("tensor_size", full, {"bytes": held, "needed": needed}, message, file))
        parts = tuple(_parts(tensor, file, refused))
        same_as = shared.setdefault(parts[0], full) if tensor.external and parts and parts[0].bytes else full
        yield Entry(
            name=placed.name,
            dtype=dtype,
            shape=tuple(tensor.dims),
            parts=parts,
            group="other" if placed.constant and not _is_weight(tensor) else "model",
            path=placed.path,
            same_as=same_as if same_as != full else "",
            axes=found.axes(placed),
        )


def _is_weight(tensor: TensorHeader) -> bool:
    """Whether a Constant may be a weight: numbers with a fraction, more than one. Others are shapes, axes, factors."""
    return tensor.numel > 1 and "float" in DTYPES.get(tensor.dtype, "")


def _held(tensor: TensorHeader) -> int | None:
    """The bytes that the tensor's data takes, None where it is not bytes as they are."""
    if tensor.external is not None:
        return external_span(tensor)[1]
    if any(number in _VARINTS or wire != BYTES for number, wire, _, _ in tensor.data):
        return None
    return sum(end - start for number, _, start, end in tensor.data if number in _AS_THEY_ARE)


def _parts(tensor: TensorHeader, file: str, refused: set[str]) -> Iterator[Part]:
    if tensor.external is not None:
        location = tensor.external.get("location", "")
        offset, length = external_span(tensor)
        if location not in refused:
            yield Part(location, offset, length)
        return
    size = tensor_bytes(tensor)
    data = [each for each in tensor.data if each[0] in _AS_THEY_ARE or each[0] in _VARINTS]
    if size is None or not data:
        return
    number, wire, start, end = data[0]
    types = _AS_THEY_ARE.get(number, ())
    if len(data) == 1 and wire == BYTES and (types is None or tensor.dtype in types):
        yield Part(file, start, end - start)
    elif len(data) == 1 and wire == BYTES and number in _VARINTS:
        bits = BITS[tensor.dtype]
        size = tensor.numel if bits == 6 else size  # a number of its own for each, where raw data packs four in three
        yield Part(file, None, size, codec=f"varint:{start}:{end}:{max(1, bits // 8)}")
    else:
        yield Part(file, None, size, codec="protobuf")


def inflate(root: Path, part: Part) -> bytes:
    """Return the bytes of a part whose codec is "varint:START:END:SIZE": varints in that span, SIZE bytes each.

    Raises ValueError where the span does not hold what the part promises.
    """
    start, end, size = map(int, part.codec.split(":")[1:])
    view = map_file(root / part.file)
    if not 0 <= start <= end <= len(view) or part.bytes % size:
        raise ValueError(f"bytes {start} to {end} are not in {part.file}")
    values = np.fromiter(_varints(view, start, end), np.uint64)
    if values.size != part.bytes // size:
        raise ValueError(f"{part.file} holds {values.size:,} of {part.bytes // size:,} numbers")
    return values.astype(f"<u{size}").tobytes()


def _varints(data: Buffer, start: int, end: int) -> Iterator[int]:
    while start < end:
        value, start = varint(data, start, end)
        yield value
