"""Files of `torch.save`, `torch.jit.save` and `torch.export.save`: names, shapes, places of bytes, training state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.globals import is_harmless, is_safe_for_torch
from tensoraudit.artifacts.mapped import map_file
from tensoraudit.artifacts.torch_export import is_exported_program
from tensoraudit.artifacts.torch_files import (
    OpenedPickle,
    is_legacy,
    is_torch_pickle,
    is_torchscript,
    open_legacy,
    open_torch_zip,
)
from tensoraudit.artifacts.zips import SafeZip
from tensoraudit.checkpoints.exported_weights import read_exported_weights
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint, TrainingState
from tensoraudit.checkpoints.torch_entries import Contents, Storages, contents_of
from tensoraudit.checkpoints.torch_slices import SlicedTensor
from tensoraudit.checkpoints.torch_tree import Instance, plain
from tensoraudit.checkpoints.torchscript_weights import read_torchscript_weights
from tensoraudit.checkpoints.training_state import plain_value
from tensoraudit.errors import InputError

_ZIP: Final = b"PK\x03\x04"
_MOST_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class TorchFile:
    """One file of `torch.save`, read: its plain tree, its contents, and what its pickle would import."""

    tree: Any
    contents: Contents
    format: str
    all_imports: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports that are not harmless."""
        return tuple(name for name in self.all_imports if not is_harmless(name))


def recognises(path: Path) -> bool:
    """Whether the bytes are a zip that torch writes, or begin as its legacy format does."""
    if not path.is_file():
        return False
    try:
        view = map_file(path)
        if bytes(view[:4]) != _ZIP:
            return is_legacy(view)
        archive = SafeZip(view, str(path))
    except InputError:
        return _looks_like_torch(path)
    return any(fits(archive) for fits in (is_torchscript, is_exported_program, is_torch_pickle))


def read(path: Path) -> StoredCheckpoint:
    """Read one file. Raises InputError for a damaged one."""
    view = map_file(path)
    archive = SafeZip(view, str(path)) if bytes(view[:4]) == _ZIP else None
    if archive is not None:
        for fits, reader in _ARCHIVES:
            if fits(archive):
                return reader(archive, path)
    found = _read(path, view, archive, path.name, None)
    return StoredCheckpoint(
        path=path,
        root=path.parent,
        format=found.format,
        framework="pytorch",
        files=(path.name,),
        entries=tuple(found.contents.entries),
        training=found.contents.training,
        writer=writer_of(found.tree),
        imports=found.imports,
        all_imports=found.all_imports,
        metadata=found.metadata,
        observations=(
            *found.contents.observations,
            *_slices_alone(found),
            *placeholders(found.contents),
            *nothing(found.contents, path.name),
        ),
    )


def read_torch_file(path: Path, file: str = "", rank: int | None = None) -> TorchFile:
    """Read a file of `torch.save`, zip or legacy; parts name it `file` (its own name by default) and `rank`.

    Raises InputError for a file that is neither, or damaged.
    """
    view = map_file(path)
    archive = SafeZip(view, str(path)) if bytes(view[:4]) == _ZIP else None
    return _read(path, view, archive, file or path.name, rank)


def _read(path: Path, view: memoryview, archive: SafeZip | None, file: str, rank: int | None) -> TorchFile:
    where = str(path)
    if archive is not None:
        opened, order = open_torch_zip(archive), _byte_order(archive)
    else:
        opened, order = open_legacy(view, where), "little"
    tree = plain(opened.root)
    storages = Storages(file, opened.storages, where, rank, root=path.parents[file.count("/")])
    if order != "little":
        places = {key: (None, size) for key, (_, size) in opened.storages.items()}
        storages = storages._replace(places=places, codec="big_endian" if order == "big" else "byte_order")
    contents = contents_of(tree, storages)
    imports = tuple(sorted(opened.wishes.globals))
    return TorchFile(tree, contents, _format(opened), imports, _metadata(tree, contents, imports, order))


def writer_of(tree: Any) -> str:
    """Return who wrote a checkpoint, where it says so; else who writes such files."""
    for key, name in _WRITERS:
        version = tree.get(key) if isinstance(tree, dict) else None
        if isinstance(version, str | int | float):
            return f"{name} {version}"
    return "torch.save"


_WRITERS: Final = (
    ("pytorch-lightning_version", "pytorch-lightning"),
    ("ds_version", "deepspeed"),
    ("checkpoint_version", "megatron"),
)


def placeholders(contents: Contents) -> Iterator[Observation]:
    """Observe weights that are not in the file: tensors of size 0, and of the meta device."""
    empty = (each for each in contents.entries if each.group == "model" and _is_placeholder(each))
    for entry in islice(empty, _MOST_LISTED):
        message = f"{entry.full_name} has shape {list(entry.shape)} and no bytes: its values are not in this file"
        yield Observation("placeholder", entry.full_name, list(entry.shape), message)


def nothing(contents: Contents, file: str) -> Iterator[Observation]:
    """Observe that there is no tensor, as in the file of a rank that gathered nothing."""
    if not contents.entries:
        yield Observation("no_tensors", "checkpoint", 0, f"{file} holds no tensor at all", file)


def _is_placeholder(entry: Entry) -> bool:
    return 0 in entry.shape or (not entry.parts and not entry.same_as)


def _slices_alone(found: TorchFile) -> Iterator[Observation]:
    """Observe that the file has one rank's part of some tensors only."""
    slices = {name: each for name, each in found.contents.slices.items() if _is_part(each)}
    if not slices:
        return
    ranks = sorted({each.rank for each in slices.values()})
    processes = max(each.processes for each in slices.values())
    writer = f"that rank {ranks[0]} of {processes} wrote" if ranks[0] >= 0 else "of one rank"
    message = f"{len(slices):,} of {len(found.contents.entries):,} tensors are slices {writer}"
    value = {"tensors": list(slices)[:_MOST_LISTED], "ranks": ranks, "processes": processes}
    yield Observation("slice_alone", "checkpoint", value, message)


def _is_part(sliced: SlicedTensor) -> bool:
    return sum(piece.numel for _, piece in sliced.pieces) < prod(sliced.shape)


def _format(opened: OpenedPickle) -> str:
    return "torch_legacy" if opened.legacy else "torch_zip"


def _byte_order(archive: SafeZip) -> str:
    return archive.read("byteorder", 64).decode("ascii", "replace").strip() if "byteorder" in archive else "little"


def _metadata(tree: Any, contents: Contents, imports: tuple[str, ...], order: str) -> dict[str, Any]:
    keys = list(tree)[:_MOST_LISTED] if isinstance(tree, dict) else []
    shared = {key: names[:_MOST_LISTED] for key, names in contents.shared.items() if len(names) > 1}
    return {
        "keys": list(map(str, keys)),
        "class": tree.cls if isinstance(tree, Instance) else type(tree).__name__,
        "weights_only": all(map(is_safe_for_torch, imports)),
        "shared": dict(islice(shared.items(), _MOST_LISTED)),
        "byte_order": order,
        "values": {str(key): plain_value(tree[key]) for key in keys if isinstance(tree[key], bool | int | float | str)},
    }


def _torchscript(archive: SafeZip, path: Path) -> StoredCheckpoint:
    return replace(_archive(path, "torchscript"), **read_torchscript_weights(archive, path.name))


def _exported(archive: SafeZip, path: Path) -> StoredCheckpoint:
    return replace(_archive(path, "exported_program"), **read_exported_weights(archive, path.name))


def _archive(path: Path, format_: str) -> StoredCheckpoint:
    return StoredCheckpoint(path, path.parent, format_, "pytorch", (path.name,), (), TrainingState())


_ARCHIVES: Final[tuple[tuple[Callable[[SafeZip], bool], Callable[[SafeZip, Path], StoredCheckpoint]], ...]] = (
    (is_torchscript, _torchscript),
    (is_exported_program, _exported),
)


def _looks_like_torch(path: Path) -> bool:
    """A damaged zip of torch is still torch's: its reader says what is wrong with it."""
    with path.open("rb") as file:
        head = file.read(512)
    return (
        head[:4] == _ZIP
        and re.search(rb"/(?:data\.pkl|version|byteorder|constants\.pkl|\.format_version)", head) is not None
    )
