"""TensorFlow checkpoints: an `.index` file, data files beside it, and `checkpoint`, which names the newest.

Object-based ones (`tf.train.Checkpoint`) hold a graph of objects; in names the ending `/.ATTRIBUTES/VARIABLE_VALUE` is
left out. Name-based ones (`tf.compat.v1.train.Saver`) hold variables under their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.protobuf import WireError, varint
from tensoraudit.checkpoints.schema import Entry, Observation, Part, StoredCheckpoint
from tensoraudit.checkpoints.sstable import TableError
from tensoraudit.checkpoints.tensorflow_index import Index, Stored, read_index
from tensoraudit.checkpoints.tensorflow_objects import OBJECT_GRAPH, Node, full_names, kept_states, read_graph
from tensoraudit.checkpoints.tensorflow_places import INDEX, Place, find_checkpoint, is_checkpoint
from tensoraudit.checkpoints.tensorflow_training import VALUE, sorted_out
from tensoraudit.errors import InputError

_MOST_INDEX: Final = 1 << 30
_MOST_GRAPH: Final = 128 << 20
_MOST_SCALAR: Final = 16
_MOST_LISTED: Final = 1_000
_AGAIN: Final = "Save the checkpoint again, or copy all of its files again."
_UNNAMED: Final = re.compile(r"Variable(_\d+)?$")
"""What TensorFlow calls a variable that got no name."""
_CODECS: Final = {"string": "strings", "variant": "variants"}


@dataclass(slots=True)
class Bundle:
    """What an index and the headers of its data files say. Names are whole keys; `files` are relative to the root."""

    prefix: Path
    root: Path
    index: Index
    sizes: dict[int, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def file(self, shard: int) -> str:
        """Return the data file of that number, relative to the root."""
        return _relative(self.root, _data_file(self.prefix, shard, self.index.shards))

    @property
    def files(self) -> list[str]:
        """The index, and the data files that are there."""
        index = _relative(self.root, self.prefix.with_name(self.prefix.name + INDEX))
        return [index, *(self.file(shard) for shard in sorted(self.sizes))]

    def content(self, key: str, most: int) -> bytes | None:
        """Return the bytes of a small tensor as stored, None for one that is missing, large, in slices or cut off."""
        stored = self.index.tensors.get(key)
        if stored is None or stored.slices or stored.size > most:
            return None
        if stored.offset + stored.size > self.sizes.get(stored.shard, 0):
            return None
        with _data_file(self.prefix, stored.shard, self.index.shards).open("rb") as file:
            file.seek(stored.offset)
            return file.read(stored.size)

    def number(self, name: str) -> bytes | None:
        """Return the bytes of a scalar by its name in `Entry`."""
        if self.index.big_endian:
            return None
        return self.content(name + VALUE if name + VALUE in self.index.tensors else name, _MOST_SCALAR)


def recognises(path: Path) -> bool:
    """Whether the path is an index, a data file or the prefix of a checkpoint, or a folder that holds one."""
    return is_checkpoint(path)


def read(path: Path) -> StoredCheckpoint:
    """Read a checkpoint's headers, the newest one of a folder. Raises InputError."""
    place = find_checkpoint(path)
    bundle = read_bundle(place.prefix, place.prefix.parent)
    return StoredCheckpoint(
        path=path,
        root=bundle.root,
        format="tensorflow_objects" if bundle.nodes else "tensorflow_names",
        framework="tensorflow",
        files=tuple(bundle.files) + (("checkpoint",) if place.state is not None else ()),
        **contents(bundle, place),
    )


def contents(bundle: Bundle, place: Place | None = None) -> dict[str, Any]:
    """Return the fields of a StoredCheckpoint that come from a bundle: entries, training, metadata, observations."""
    states = kept_states(bundle.nodes, str(bundle.prefix)) if bundle.nodes else None
    entries, training = sorted_out(_entries(bundle), states, bundle.number)
    observations = [*(place.observations if place else ()), *bundle.observations]
    if not entries:
        observations.append(Observation("no_tensors", "checkpoint", 0, "The checkpoint holds no tensor."))
    return {
        "entries": entries,
        "training": training,
        "metadata": _metadata(bundle, place),
        "observations": tuple(observations),
    }


def read_bundle(prefix: Path, root: Path) -> Bundle:
    """Read `<prefix>.index` and look at its data files. Raises InputError for an index that is missing or damaged."""
    path = prefix.with_name(prefix.name + INDEX)
    view = map_file(path)
    if len(view) > _MOST_INDEX:
        message = f"is an index of {len(view):,} bytes, more than the {_MOST_INDEX:,} that are read"
        raise InputError(message, where=str(path), remedy="Save the model in several checkpoints.")
    try:
        bundle = Bundle(prefix, root, read_index(view))
    except (TableError, WireError) as error:
        raise InputError(f"is a damaged index of a checkpoint: {error}", where=str(path), remedy=_AGAIN) from error
    bundle.observations += _look_at_files(bundle)
    bundle.nodes = _graph(bundle, path)
    return bundle


def _data_file(prefix: Path, shard: int, shards: int) -> Path:
    return prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{shards:05d}")


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _look_at_files(bundle: Bundle) -> Iterator[Observation]:
    """Note the sizes of the data files; yield those that are missing, lead outside or end before their tensors do."""
    wanted = _wanted(bundle.index)
    for shard in range(bundle.index.shards):
        path = _data_file(bundle.prefix, shard, bundle.index.shards)
        count, end = wanted.pop(shard, (0, 0))
        if not path.is_file():
            yield _missing(bundle.file(shard), count)
            continue
        if path.is_symlink() and not path.resolve().is_relative_to(bundle.root.resolve()):
            message = f"{path.name} is a link to a file outside of the checkpoint's folder."
            yield Observation("file_outside", bundle.file(shard), str(path.readlink()), message, bundle.file(shard))
        size = bundle.sizes[shard] = path.stat().st_size
        if end > size:
            message = f"{path.name} has {size:,} bytes, its tensors need {end:,}."
            yield Observation("file_truncated", bundle.file(shard), end - size, message, bundle.file(shard))
    for shard, (count, _) in sorted(wanted.items())[:_MOST_LISTED]:
        yield _missing(bundle.file(shard), count)
    yield from _unlisted(bundle)


def _wanted(index: Index) -> dict[int, tuple[int, int]]:
    """By data file: how many tensors and slices stand in it, and where the last of them ends."""
    found: dict[int, tuple[int, int]] = {}
    for entries in (index.tensors, index.pieces):
        for stored in entries.values():
            if not stored.slices:
                count, end = found.get(stored.shard, (0, 0))
                found[stored.shard] = (count + 1, max(end, stored.offset + stored.size))
    return found


def _missing(file: str, count: int) -> Observation:
    return Observation("file_missing", file, count, f"{file} is missing; {count:,} tensors stand in it.", file)


def _unlisted(bundle: Bundle) -> Iterator[Observation]:
    """Data files of the same prefix that the index does not count, and a save that did not end."""
    known = {Path(name).name for name in bundle.files}
    start = f"{bundle.prefix.name}.data-"
    for path in sorted(bundle.prefix.parent.glob("*.data-*-of-*"))[:_MOST_LISTED]:
        if path.name.startswith(start) and path.name not in known:
            message = f"{path.name} belongs to another save: the index counts {bundle.index.shards} data files."
            yield Observation("file_unlisted", _relative(bundle.root, path), 1, message, _relative(bundle.root, path))
    temporary = bundle.prefix.with_name(bundle.prefix.name + "_temp")
    if temporary.is_dir():
        message = f"The folder {temporary.name} is what a save leaves behind that did not end."
        yield Observation("unfinished", _relative(bundle.root, temporary), 1, message)


def _graph(bundle: Bundle, where: Path) -> list[Node]:
    """The nodes of the object graph, [] where there is none or its data file cannot tell."""
    content = bundle.content(OBJECT_GRAPH, _MOST_GRAPH)
    if content is None:
        if OBJECT_GRAPH in bundle.index.tensors:
            message = "The object graph cannot be read: its data file is missing or cut off."
            bundle.observations.append(Observation("file_unread", "checkpoint", OBJECT_GRAPH, message))
        return []
    try:
        size, at = varint(content, 0, len(content))
        at += 4  # a checksum of the lengths
        if at + size > len(content):
            raise WireError(f"a text of {size:,} bytes in {len(content) - at:,}")
        return read_graph(memoryview(content)[at : at + size], str(where))
    except WireError as error:
        raise InputError(f"has a damaged object graph: {error}", where=str(where), remedy=_AGAIN) from error


def _entries(bundle: Bundle) -> Iterator[Entry]:
    names = {key: full for key, full in full_names(bundle.nodes).items() if not _UNNAMED.match(full)}
    files = [bundle.file(shard) for shard in range(bundle.index.shards)]
    for key, stored in bundle.index.tensors.items():
        if key == OBJECT_GRAPH:
            continue
        if stored.needed != stored.size:
            bundle.observations.append(_wrong_size(key, stored))
        parts = _slices(bundle, key, stored) if stored.slices else (_part(bundle, files, stored),)
        name = key.removesuffix(VALUE)
        if name != key and name in bundle.index.tensors:
            name = key
        yield Entry(name, stored.dtype, stored.shape, parts, alias=names.get(key, ""))


def _wrong_size(key: str, stored: Stored) -> Observation:
    message = f"{key}: the index states {stored.size:,} bytes, its shape and type need {stored.needed:,}."
    return Observation("tensor_size", key.removesuffix(VALUE), [stored.size, stored.needed], message)


def _part(bundle: Bundle, files: list[str], stored: Stored) -> Part:
    file = files[stored.shard] if stored.shard < len(files) else bundle.file(stored.shard)
    codec = _CODECS.get(stored.dtype, "big_endian" if bundle.index.big_endian else "")
    return Part(file, None if codec else stored.offset, stored.size, codec=codec)


def _slices(bundle: Bundle, key: str, stored: Stored) -> tuple[Part, ...]:
    """The pieces of a tensor in slices; one that the index lacks is an observation."""
    parts = []
    for place in stored.slices:
        piece = bundle.index.piece(key, place)
        if piece is None:
            message = f"{key}: the index lists a slice {place} and does not say where it is."
            bundle.observations.append(Observation("tensor_hole", key.removesuffix(VALUE), list(place), message))
            continue
        part = _part(bundle, [], piece)
        start = tuple(start for start, _ in place)
        parts.append(part._replace(start=start, shape=piece.shape))
    return tuple(parts)


def _metadata(bundle: Bundle, place: Place | None) -> dict[str, Any]:
    whole = islice(((key, stored) for key, stored in bundle.index.tensors.items() if not stored.slices), _MOST_LISTED)
    keys = Counter(key.split("/", 1)[0] for key in bundle.index.tensors if key != OBJECT_GRAPH)
    return {
        "prefix": bundle.prefix.name,
        "shards": bundle.index.shards,
        "object_graph": bool(bundle.nodes),
        "keys": [key for key, _ in keys.most_common(_MOST_LISTED)],
        "crc32c": {key.removesuffix(VALUE): stored.checksum for key, stored in whole},
        **(place.metadata if place else {}),
    }
