"""The files that `torch.save` and `torch.jit.save` write.

Layouts of torch 2.13: both write a zip whose entries lie in one folder (`data.pkl` and `data/<key>`, TorchScript with
`code/` and `constants.pkl` besides). The legacy format of `torch.save` (default before torch 1.6) is four pickles (a
magic number, protocol, system, object), then one with the storage keys, then per key the number of elements as int64
and the raw bytes. Nothing stored is run.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Items, Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.artifacts.pickles import PickledObject, StoredTensor, describe_pickle, item_bytes, storage_of
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.errors import InputError

_LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL: Final = 1001
_PICKLE_LIMIT: Final = 256 << 20
_COPY: Final = "Copy or download the file again."


@dataclass(frozen=True, slots=True)
class TorchPickle:
    """What `torch.save` wrote. `storages` maps each storage key to (offset in the file, size) in bytes; the offset is
    None where the bytes do not stand in the file as they are."""

    object: PickledObject
    legacy: bool
    storages: dict[str, tuple[int | None, int]]


@dataclass(frozen=True, slots=True)
class OpenedPickle:
    """A file of `torch.save` with the graph of its pickle as it is. `storages` as in `TorchPickle`, all of them long
    enough for what the pickle says of them."""

    root: Any
    wishes: Wishes
    legacy: bool
    storages: dict[str, tuple[int | None, int]]


def is_torchscript(archive: SafeZip) -> bool:
    """Whether a zip is a TorchScript module: serialised code beside its constants."""
    has_code = any(name.startswith("code/") for name in archive.names)
    return "constants.pkl" in archive and (has_code or "bytecode.pkl" in archive)


def is_torch_pickle(archive: SafeZip) -> bool:
    """Whether a zip is what `torch.save` writes."""
    return "data.pkl" in archive and ("version" in archive or "byteorder" in archive)


def is_legacy(view: memoryview) -> bool:
    """Whether the bytes begin with the magic number of the legacy format, pickled by any protocol."""
    try:
        return bool(interpret(Stream(view[:64]), Wishes()) == _LEGACY_MAGIC)
    except (BrokenPickleError, InputError):
        return False


def read_torch_zip(archive: SafeZip) -> TorchPickle:
    """Read `data.pkl` and find the storages. Raises InputError for damage, among it storages that are cut short."""
    return _described(open_torch_zip(archive), archive.where)


def read_legacy(view: memoryview, where: str) -> TorchPickle:
    """Read a file of the legacy format. Raises InputError for damage, among it storages that are cut short."""
    return _described(open_legacy(view, where), where)


def open_torch_zip(archive: SafeZip) -> OpenedPickle:
    """Interpret `data.pkl` and find the storages. Raises InputError for damage."""
    wishes = Wishes()
    root = read_pickle(Stream(archive.view("data.pkl", _PICKLE_LIMIT)), wishes, archive.where)
    storages: dict[str, tuple[int | None, int]] = {}
    for name in archive.names:
        if name.startswith("data/"):
            storages[name.removeprefix("data/")] = archive.span(name) or (None, archive.size(name))
    return _checked(OpenedPickle(root, wishes, False, storages), archive.where)


def open_legacy(view: memoryview, where: str) -> OpenedPickle:
    """Interpret a file of the legacy format and find the storages. Raises InputError for damage."""
    stream, wishes = Stream(view), Wishes()
    magic, protocol, _system, root, keys = (read_pickle(stream, wishes, where) for _ in range(5))
    if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL:
        raise InputError(f"is a legacy PyTorch file of protocol {protocol!r}, not 1001", where=where, remedy=_COPY)
    dtypes = {key: dtype for key, dtype, _ in filter(None, map(storage_of, wishes.persistent))}
    storages: dict[str, tuple[int | None, int]] = {}
    at = stream.at
    for key in keys.values if isinstance(keys, Items) else []:
        if key not in dtypes or at + 8 > len(view):
            raise _cut_short(f"storage {key!r} is cut short", where)
        (count,) = struct.unpack_from("<q", view, at)
        start, size = at + 8, count * item_bytes(dtypes[key])
        if size < 0 or start + size > len(view):
            raise _cut_short(f"storage {key!r} is cut short", where)
        storages[key] = (start, size)
        at = start + size
    return _checked(OpenedPickle(root, wishes, True, storages), where)


def read_pickle(stream: Stream, wishes: Wishes, where: str) -> Any:
    """Return the root of the next pickle of a stream. Raises InputError, with `where`, for one that is damaged."""
    try:
        return interpret(stream, wishes)
    except BrokenPickleError as error:
        raise InputError(f"holds a damaged or truncated pickle ({error})", where=where, remedy=_COPY) from error
    except InputError as error:
        raise InputError(error.message, where=where, remedy=error.remedy) from error


def _checked(file: OpenedPickle, where: str) -> OpenedPickle:
    """Refuse storages that are missing or shorter than the pickle says."""
    for key, dtype, numel in filter(None, map(storage_of, file.wishes.persistent)):
        if key not in file.storages:
            raise _cut_short(f"storage {key!r} is missing", where)
        if numel * item_bytes(dtype) > file.storages[key][1]:
            raise _cut_short(f"storage {key!r} is cut short", where)
    return file


def _described(file: OpenedPickle, where: str) -> TorchPickle:
    found = describe_pickle(file.root, file.wishes)
    for tensor in (tensor for weights in found.weights for tensor in weights.tensors):
        check_reach(tensor, tensor.name, file.storages, where)
    return TorchPickle(found, file.legacy, file.storages)


def check_reach(tensor: StoredTensor, name: str, storages: Mapping[str, tuple[int | None, int]], where: str) -> None:
    """Raise InputError for a tensor that reaches beyond its storage."""
    if tensor.storage and last_byte(tensor) > storages.get(tensor.storage, (None, 0))[1]:
        raise _cut_short(f"the data of tensor {name!r} is cut short", where)


def last_byte(tensor: StoredTensor) -> int:
    """Return where the tensor ends within its storage, in bytes. Types packed below a byte are not judged."""
    if tensor.numel == 0 or tensor.dtype.startswith("quint"):
        return 0
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride, strict=False))
    return (tensor.offset + reach + 1) * item_bytes(tensor.dtype)


def _cut_short(what: str, where: str) -> InputError:
    return InputError(f"is damaged or truncated: {what}", where=where, remedy=_COPY)
