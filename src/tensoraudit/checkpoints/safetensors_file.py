"""safetensors: eight bytes of length, a JSON header, and the tensors' bytes one after another.

The format asks for more than it says at first sight, and its own library refuses what departs from it: no holes, no
overlaps, nothing after the last tensor. Such a file is still read here, with an observation, because where its tensors
lie is clear. A tensor whose size does not follow from its shape and type makes the whole header untrustworthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.bounded_json import read_json
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.signatures import describe_bytes
from tensoraudit.checkpoints.hub_config import read_config
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.errors import InputError

DTYPES: Final[Mapping[str, tuple[str, int]]] = {
    "BOOL": ("bool", 8), "U8": ("uint8", 8), "I8": ("int8", 8), "U16": ("uint16", 16), "I16": ("int16", 16),
    "U32": ("uint32", 32), "I32": ("int32", 32), "U64": ("uint64", 64), "I64": ("int64", 64), "F16": ("float16", 16),
    "BF16": ("bfloat16", 16), "F32": ("float32", 32), "F64": ("float64", 64), "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8), "F8_E5M2": ("float8_e5m2", 8), "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8), "F4": ("float4_e2m1fn", 4),
    "F6_E2M3": ("float6_e2m3fn", 6), "F6_E3M2": ("float6_e3m2fn", 6),
}  # fmt: skip
"""The types of safetensors 0.8: (name in numpy or ml_dtypes, bits). F4 and F6 are packed without gaps."""

_PREFIX: Final = 8
_MAX_HEADER: Final = 100_000_000
"""What the library reads at most, in bytes."""
_MAX_RANK: Final = 64
_MOST: Final = 1000
"""Observations of one kind per file: the thousandth overlap tells nothing new."""
_METADATA: Final = "__metadata__"
_FRAMEWORKS: Final = {"pt": "pytorch", "tf": "tensorflow", "flax": "jax", "np": "numpy"}
_AGAIN: Final = "Copy or download the file again."


class Header(NamedTuple):
    """What the header of one file says. `texts` is its free metadata, text to text."""

    entries: list[Entry]
    texts: dict[str, str]
    observations: list[Observation]


def recognises(path: Path) -> bool:
    """Whether the file is safetensors, a damaged one too if its name says that it is meant to be one."""
    if not path.is_file():
        return False
    named = path.suffix == ".safetensors"
    try:
        with path.open("rb") as file:
            head = file.read(_PREFIX + 1)
    except OSError:
        return named
    if len(head) <= _PREFIX or head.startswith(b"version "):  # an empty file, or a pointer to one
        return named
    return head[_PREFIX:] == b"{" and (named or 2 <= int.from_bytes(head[:_PREFIX], "little") <= _MAX_HEADER)


def read(path: Path) -> StoredCheckpoint:
    """Read one file. Raises InputError where its header cannot be read or contradicts itself."""
    header = read_header(path, path.name)
    config = read_config(path.parent)
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format="safetensors",
        framework=framework_of(header.texts),
        files=(path.name,),
        entries=tuple(header.entries),
        metadata={"metadata": texts_of(header.texts), "shared": shared_names(header), "config": config},
        observations=(*header.observations, *tied_names(header, path.name)),
    )


def framework_of(texts: Mapping[str, str]) -> str:
    """Return which framework wrote the file, by the mark that the libraries of Hugging Face leave."""
    return _FRAMEWORKS.get(texts.get("format", ""), "pytorch")


def texts_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the free metadata, cut to what a report can show."""
    return {name[:200]: text[:2000] for name, text in islice(texts.items(), _MOST)}


def shared_names(header: Header) -> dict[str, str]:
    """Return {name that was dropped: name that was kept} of tied weights, as `save_model` notes them."""
    if not header.texts:
        return {}
    names = {entry.name for entry in header.entries}
    pairs = ((drop, kept) for drop, kept in header.texts.items() if kept in names and drop not in names)
    return dict(islice(pairs, _MOST))


def tied_names(header: Header, file: str) -> Iterator[Observation]:
    """Yield an observation for each name of a tied weight under which the file holds nothing."""
    for dropped, kept in shared_names(header).items():
        message = f"{dropped!r} is tied to {kept!r} and is stored under that name only"
        yield Observation("tied_name_dropped", dropped, {"kept": kept}, message, file)


def read_header(path: Path, file: str) -> Header:
    """Read a header; the parts of its entries say that they lie in `file`.

    Raises InputError where it cannot be read or contradicts itself; what can be read around is an observation.
    """
    view = map_file(path)
    start = _PREFIX + int.from_bytes(view[:_PREFIX], "little")
    where = str(path)
    if len(view) <= _PREFIX or view[_PREFIX] != ord("{"):
        what, remedy = describe_bytes(view)
        raise InputError(f"is no safetensors file: it is {what}", where=where, remedy=remedy)
    if start > len(view) or start > _PREFIX + _MAX_HEADER:
        message = f"declares a header of {start - _PREFIX:,} bytes, and the file has {len(view):,}"
        raise InputError(message, where=where, remedy=_AGAIN)
    table = read_json(view[_PREFIX:start], where)
    texts = table.pop(_METADATA, {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise InputError(f"has a {_METADATA} that is no table of text", where=where, remedy=_AGAIN)
    entries = _entries(table, start, file, where)
    if entries and _follow(entries, start) == len(view):
        return Header(entries, texts, [])
    found = chain(_overlaps(entries, file, start), _outside(entries, file, len(view)), _nothing(entries, file))
    return Header(entries, texts, list(found))


def _follow(entries: list[Entry], end: int) -> int | None:
    """Return where the tensors end if each begins where the last one ends, as the library writes them, else None."""
    for entry in entries:
        part = entry.parts[0]
        if part.offset != end:
            return None
        end += part.bytes
    return end


def _entries(table: dict[str, Any], start: int, file: str, where: str) -> list[Entry]:
    entries: list[Entry] = []
    shapes: dict[tuple[int, ...], int] = {}  # a checkpoint has few different shapes: one tuple and one product for each
    for name, fields in table.items():
        try:
            dtype, bits = DTYPES[fields["dtype"]]
            begin, end = fields["data_offsets"]
            shape = tuple(fields["shape"])
            numel = shapes.get(shape)
            if numel is None:
                numel = shapes[shape] = _numel(shape)
            right = type(begin) is int and type(end) is int and begin >= 0 and (end - begin) * 8 == numel * bits
        except (KeyError, TypeError, ValueError) as error:
            raise _wrong(name, fields, where) from error
        if not right:
            raise _wrong(name, fields, where)
        entries.append(Entry(name, dtype, shape, (Part(file, start + begin, end - begin),)))
    return entries


def _numel(shape: tuple[Any, ...]) -> int:
    if len(shape) > _MAX_RANK or any(type(size) is not int or not 0 <= size < 1 << 63 for size in shape):
        raise ValueError("impossible shape")
    return prod(shape)


def _wrong(name: str, fields: Any, where: str) -> InputError:
    shown = repr({key: fields[key] for key in islice(fields, 4)} if isinstance(fields, dict) else fields)
    message = f"describes tensor {name[:200]!r} in a way that cannot be: {shown[:200]}"
    return InputError(message, where=where, remedy="Save the file again with the safetensors library.")


def _overlaps(entries: list[Entry], file: str, start: int) -> Iterator[Observation]:
    """Yield what of the bytes two tensors claim, or none."""
    places = sorted((entry.parts[0].offset or 0, entry.parts[0].bytes, entry.name) for entry in entries)
    end, last = start, ""
    found = []
    for begin, size, name in places:
        if size and begin < end:
            message = f"{name!r} begins {end - begin:,} bytes before {last!r} ends"
            found.append(Observation("bytes_overlap", name, {"other": last, "bytes": end - begin}, message, file))
        elif begin > end:
            message = f"{begin - end:,} bytes before {name!r} belong to no tensor"
            found.append(Observation("bytes_unclaimed", name, begin - end, message, file))
        if begin + size >= end:
            end, last = begin + size, name
        if len(found) == _MOST:
            break
    yield from found


def _outside(entries: list[Entry], file: str, size: int) -> Iterator[Observation]:
    """Yield whether the file ends before its last tensor or after it."""
    last = max(((entry.parts[0].offset or 0) + entry.parts[0].bytes for entry in entries), default=None)
    if last is not None and last > size:
        cut = sum((entry.parts[0].offset or 0) + entry.parts[0].bytes > size for entry in entries)
        message = f"The file has {size:,} bytes and its tensors need {last:,}: {cut:,} of them are cut short or missing"
        yield Observation("file_truncated", file, {"bytes": size, "needed": last, "tensors": cut}, message, file)
    elif last is not None and last < size:
        message = f"{size - last:,} bytes after the last tensor belong to no tensor"
        yield Observation("bytes_unclaimed", file, size - last, message, file)


def _nothing(entries: list[Entry], file: str) -> Iterator[Observation]:
    if not entries:
        yield Observation("no_tensors", file, 0, "The file holds no tensor", file)
