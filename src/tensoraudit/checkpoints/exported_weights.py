"""The tensors of an ExportedProgram archive, by the archive's own tables (torch 2.8 and later) or its nested pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tensoraudit.artifacts.pickles import StoredTensor
from tensoraudit.artifacts.torch_export import layout_of, read_json, wishes_of_exported_program
from tensoraudit.artifacts.torch_files import open_torch_zip
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints.schema import Observation
from tensoraudit.checkpoints.torch_entries import Contents, Storages, contents_of
from tensoraudit.checkpoints.torch_tree import plain
from tensoraudit.errors import InputError

_TABLES: Final = (
    ("data/weights/", "data/weights/{}_weights_config.json"),
    ("data/constants/", "data/constants/{}_constants_config.json"),
)
_NESTED: Final = "serialized_state_dict.pt"
_NESTED_LIMIT: Final = 1 << 30
_DTYPES: Final = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
"""ScalarType of torch's export schema."""
_NOT_THE_SCHEMA: Final = (KeyError, TypeError, AttributeError, ValueError, RecursionError)


def read_exported_weights(archive: SafeZip, file: str) -> dict[str, Any]:
    """Return the fields of a StoredCheckpoint. Raises InputError for a damaged archive."""
    contents = _nested(archive, file) if layout_of(archive) == "json" else _listed(archive, file)
    return {
        "entries": tuple(contents.entries),
        "writer": "torch.export.save",
        "imports": wishes_of_exported_program(archive),
        "all_imports": wishes_of_exported_program(archive),
        "metadata": {"shared": {key: names for key, names in contents.shared.items() if len(names) > 1}},
        "observations": tuple(contents.observations),
    }


def _listed(archive: SafeZip, file: str) -> Contents:
    """Weights lie in entries of their own; two names of one entry are tied. Constants are of the group "other"."""
    places: dict[str, tuple[int | None, int]] = {}
    tree: dict[str, dict[str, StoredTensor]] = {"": {}, "constants": {}}
    unread: list[Observation] = []
    for (folder, pattern), group in zip(_TABLES, tree.values(), strict=True):
        for table in _tables(archive, pattern):
            for name, payload in _payloads(archive, table):
                entry = f"{folder}{payload.get('path_name')}"
                if payload.get("use_pickle") or entry not in archive:
                    unread.append(_unread(name, entry, payload, file))
                    continue
                places[entry] = archive.span(entry) or (None, archive.size(entry))
                group[name] = _tensor(name, payload, entry, archive.where)
    contents = contents_of(tree, Storages(file, places, archive.where))
    contents.entries = [
        entry._replace(path=(), group="model" if entry.path == ("",) else "other", same_as=entry.same_as.lstrip("."))
        for entry in contents.entries
    ]
    contents.observations += unread
    return contents


def _tables(archive: SafeZip, pattern: str) -> Iterator[str]:
    head, _, tail = pattern.partition("{}")
    return (name for name in archive.names if name.startswith(head) and name.endswith(tail))


def _payloads(archive: SafeZip, table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    content = read_json(archive, table)
    config = content.get("config") if isinstance(content, dict) else None
    for name, payload in config.items() if isinstance(config, dict) else ():
        if isinstance(payload, dict):
            yield str(name), payload


def _tensor(name: str, payload: Mapping[str, Any], entry: str, where: str) -> StoredTensor:
    try:
        meta = payload["tensor_meta"]
        shape, stride = (tuple(int(each["as_int"]) for each in meta[key]) for key in ("sizes", "strides"))
        offset = int(meta["storage_offset"]["as_int"])
        dtype = _DTYPES.get(meta["dtype"], f"dtype {meta['dtype']}")
    except _NOT_THE_SCHEMA as error:
        raise _not_the_schema(name, where) from error
    if min((*shape, *stride, offset), default=0) < 0 or len(shape) != len(stride) or len(shape) > 64:
        raise _not_the_schema(name, where)
    return StoredTensor(name, dtype, shape, stride, entry, offset, 0)


def _not_the_schema(name: str, where: str) -> InputError:
    message = f"describes the weight {name!r} in a way that torch.export never does"
    return InputError(message, where=where, remedy="Save the model again with torch.export.save.")


def _unread(name: str, entry: str, payload: Mapping[str, Any], file: str) -> Observation:
    why = "is stored as a pickle" if payload.get("use_pickle") else f"has no entry {entry!r} in the archive"
    return Observation("file_unread", name, entry, f"{name} {why} and was not read", file)


def _nested(archive: SafeZip, file: str) -> Contents:
    """The layout before torch 2.8: the state_dict is a file of `torch.save` inside the archive."""
    if _NESTED not in archive:
        return Contents()
    span = archive.span(_NESTED)
    view = archive.view(_NESTED, _NESTED_LIMIT)
    if not len(view):
        return Contents()
    opened = open_torch_zip(SafeZip(view, f"{archive.where}: {_NESTED}"))
    base = None if span is None else span[0]
    places = {
        key: (None if base is None or offset is None else base + offset, size)
        for key, (offset, size) in opened.storages.items()
    }
    return contents_of(plain(opened.root), Storages(file, places, archive.where))
