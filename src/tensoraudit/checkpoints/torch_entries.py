"""From the plain tree of one PyTorch pickle to the entries of a checkpoint, with the places of their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.pickles import StoredTensor
from tensoraudit.artifacts.torch_files import check_reach, last_byte
from tensoraudit.checkpoints.averaged_sets import mark_averages
from tensoraudit.checkpoints.schema import Entry, Observation, Part, TrainingState
from tensoraudit.checkpoints.stored_parts import first_number
from tensoraudit.checkpoints.torch_names import names_apart
from tensoraudit.checkpoints.torch_objects import Objects, SparseTensor, sparse_tensor
from tensoraudit.checkpoints.torch_slices import SlicedTensor, sliced_tensor
from tensoraudit.checkpoints.torch_tree import Instance, Keys, StoredArray
from tensoraudit.checkpoints.training_state import Found, find_training_state

_LONGEST: Final = 500
VIEWED: Final = {
    ("conj",): "stored with its conjugate bit set",
    ("neg",): "stored with its negative bit set",
    ("conj", "neg"): "stored with its conjugate and its negative bit set",
}
"""By the bits of a tensor, the codec of a part whose bytes are not yet what torch makes of them."""


class Storages(NamedTuple):
    """Where the storages of a pickle are: `file` relative to the checkpoint's root; `places` by key, (offset, size)
    in bytes; `rank` the process that wrote them; `where` names the file in errors; `codec` says how a storage without
    an offset stands there. `root` is the checkpoint's, for reading counters."""

    file: str
    places: Mapping[str, tuple[int | None, int]]
    where: str
    rank: int | None = None
    codec: str = "deflate"
    root: Path | None = None


@dataclass(slots=True)
class Contents:
    """What one pickle holds. `slices` are its entries, by full name, of which it has one rank's part only."""

    entries: list[Entry] = field(default_factory=list)
    training: TrainingState = field(default_factory=TrainingState)
    slices: dict[str, SlicedTensor] = field(default_factory=dict)
    shared: dict[str, list[str]] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)


def contents_of(tree: Any, storages: Storages) -> Contents:
    """Return the entries of a tree. Raises InputError for a tensor that reaches beyond its storage."""
    return _Reading(find_training_state(tree, lambda leaf: _number(leaf, storages)), storages).of(tree)


def _number(leaf: Any, storages: Storages) -> int | float | None:
    """Return the one element of a stored tensor of numbers."""
    if not isinstance(leaf, StoredTensor) or leaf.numel != 1 or leaf.bits or storages.root is None:
        return None
    offset, size = storages.places.get(leaf.storage, (None, 0))
    first = leaf.offset * leaf.item_bytes
    if offset is None or not 0 <= first <= size - leaf.item_bytes:
        return None
    return first_number(storages.root, Part(storages.file, offset + first, leaf.item_bytes), leaf.dtype)


class _Reading:
    """One pass over the tensors of a tree."""

    def __init__(self, found: Found, storages: Storages) -> None:
        self._found, self._storages = found, storages
        self._contents = Contents(training=found.training)
        self._owners: dict[tuple[Any, ...], str] = {}
        self._apart: list[Keys | None] = []

    def of(self, tree: Any) -> Contents:
        objects = Objects(self._storages.where)
        leaves = list(objects.leaves(tree))
        for keys in objects.optimizers:
            self._found.places.setdefault(keys, "optimizer")
        self._contents.observations += map(self._lost, objects.lost)
        self._apart = names_apart([keys for keys, _ in leaves])
        for keys, leaf in leaves:
            if isinstance(leaf, StoredTensor):
                self._add_tensor(keys, leaf)
            elif isinstance(leaf, StoredArray):
                self._add(keys, leaf.dtype, leaf.shape, (Part(self._storages.file, None, leaf.bytes, codec="pickle"),))
            else:
                self._add_instance(keys, leaf)
        self._contents.entries = mark_averages(_apart_from_the_model(self._contents.entries))
        return self._contents

    def _lost(self, keys: Keys) -> Observation:
        name, file = ".".join(map(str, keys))[:_LONGEST], self._storages.file
        message = f"{name} holds objects too deep inside each other to be read: tensors in them are not listed"
        return Observation("file_unread", name, file, message, file)

    def _add_tensor(self, keys: Keys, tensor: StoredTensor) -> None:
        parts = self._parts(keys, tensor)
        entry = self._add(keys, tensor.dtype, tensor.shape, parts)
        if not parts or not tensor.numel:
            return
        self._contents.shared.setdefault(tensor.storage, []).append(entry.full_name)
        owner = self._owners.setdefault((tensor.storage, *parts, *tensor.shape), entry.full_name)
        if owner != entry.full_name:
            self._contents.entries[-1] = entry._replace(same_as=owner)

    def _add_instance(self, keys: Keys, leaf: Instance) -> None:
        sliced = sliced_tensor(leaf)
        if sliced is not None:
            parts = tuple(part for start, local in sliced.pieces for part in self._parts(keys, local, start))
            entry = self._add(keys, sliced.dtype, sliced.shape, parts)
            self._contents.slices[entry.full_name] = sliced
        elif (sparse := sparse_tensor(leaf)) is not None:
            self._add_sparse(keys, sparse)

    def _add_sparse(self, keys: Keys, sparse: SparseTensor) -> None:
        """A sparse tensor: its bytes are indices and values, which no reader of dense bytes can use."""
        pieces = [part for piece in sparse.pieces for part in self._parts(keys, piece)]
        parts = tuple(part._replace(offset=None, stride=(), codec="sparse") for part in pieces)
        self._add(keys, sparse.pieces[-1].dtype, sparse.shape, parts)

    def _add(self, keys: Keys, dtype: str, shape: tuple[int, ...], parts: tuple[Part, ...]) -> Entry:
        group, path, name = self._found.place_of(keys)
        named = self._apart[len(self._contents.entries)]
        if named is not None:
            path, name = named[: len(path)], ".".join(named[len(path) :])
        entry = Entry(name, dtype, shape, parts, group, path)
        self._contents.entries.append(entry)
        return entry

    def _parts(self, keys: Keys, tensor: StoredTensor, start: tuple[int, ...] = ()) -> tuple[Part, ...]:
        if not tensor.storage:
            return ()
        check_reach(tensor, ".".join(map(str, keys)), self._storages.places, self._storages.where)
        part = self._part(tensor)
        return (part._replace(start=start, shape=tensor.shape),) if start else (part,)

    def _part(self, tensor: StoredTensor) -> Part:
        offset, _ = self._storages.places[tensor.storage]
        first = tensor.offset * tensor.item_bytes
        stride = () if is_contiguous(tensor.shape, tensor.stride) else tensor.stride
        size = max(0, last_byte(tensor) - first) if stride else tensor.numel * tensor.item_bytes
        codec = VIEWED.get(tensor.bits) or ("" if offset is not None else self._storages.codec)
        place = None if offset is None else offset + first
        return Part(self._storages.file, place, size, stride=stride, rank=self._storages.rank, codec=codec)


def is_contiguous(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether elements of these strides lie in C order without gaps."""
    step = 1
    for size, each in zip(reversed(shape), reversed(stride), strict=False):
        if size != 1 and each != step:
            return 0 in shape
        step *= size
    return True


def _apart_from_the_model(entries: list[Entry]) -> list[Entry]:
    """Tensors beside the mapping that holds the model (a best loss, a list of losses) are of the group "other"."""
    counts: dict[tuple[str, ...], int] = {}
    for entry in entries:
        if entry.group == "model":
            counts[entry.path] = counts.get(entry.path, 0) + 1
    if len(counts) < 2 or counts.get((), 0) >= max(counts.values()):
        return entries
    stray = {path for path in counts if not path or path[-1].isdigit()}
    stray = stray if len(stray) < len(counts) else set()
    return [each._replace(group="other") if each.group == "model" and each.path in stray else each for each in entries]
