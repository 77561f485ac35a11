"""One file of several that together hold a model's weights, whichever format it has."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from tensoraudit.checkpoints import safetensors_file
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.errors import InputError

_READERS: Final = ("torch_file", "keras_weights", "flax_msgpack")
"""Formats, beside safetensors, that model hubs cut into numbered files. An index is none: one that names an index as
its shard would be read for ever."""


class Shard(NamedTuple):
    """What one file holds; its entries' parts name it relative to the folder of the whole."""

    file: str
    format: str
    framework: str
    entries: list[Entry]
    observations: list[Observation]
    texts: dict[str, str]
    imports: tuple[str, ...] = ()
    all_imports: tuple[str, ...] = ()


def read_shard(path: Path, file: str) -> Shard:
    """Read the headers of `path`, which is `file` relative to the checkpoint's folder. Raises InputError."""
    if safetensors_file.recognises(path):
        entries, texts, found = safetensors_file.read_header(path, file)
        return Shard(file, "safetensors", safetensors_file.framework_of(texts), entries, found, texts)
    for name in _READERS:
        reader = import_module(f"tensoraudit.checkpoints.{name}")
        if reader.recognises(path):
            return _shard(reader.read(path), file)
    raise InputError("is no file of weights", where=str(path), remedy="Copy or download the file again.")


def _shard(stored: StoredCheckpoint, file: str) -> Shard:
    entries = [entry._replace(parts=tuple(_moved(part, file) for part in entry.parts)) for entry in stored.entries]
    found = [*stored.observations]
    return Shard(file, stored.format, stored.framework, entries, found, {}, stored.imports, stored.all_imports)


def _moved(part: Part, file: str) -> Part:
    return part._replace(file=file)
