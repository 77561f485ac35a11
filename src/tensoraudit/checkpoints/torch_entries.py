"""From the plain tree of one PyTorch pickle to the entries of a checkpoint, with the places of their bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tensoraudit.artifacts.pickles import StoredTensor
from tensoraudit.artifacts.torch_files import check_reach, last_byte
from tensoraudit.checkpoints.schema import Entry, Observation, Part, TrainingState
from tensoraudit.checkpoints.stored_parts import first_number
from tensoraudit.checkpoints.torch_slices import SlicedTensor, sliced_tensor
from tensoraudit.checkpoints.torch_tree import Instance, Keys, StoredArray, walk
from tensoraudit.checkpoints.training_state import Found, find_training_state

_EMA: Final = re.compile(r"(?:^|[^a-z])(?:ema|averaged?|avg|shadow|teacher|swa|polyak)(?:$|[^a-z])", re.IGNORECASE)
_MOST_MODULES: Final = 200_000
_LONGEST_NAME: Final = 1_000
_SPARSE: Final = "_rebuild_sparse_tensor"


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
    if not isinstance(leaf, StoredTensor) or leaf.numel != 1 or storages.root is None:
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

    def of(self, tree: Any) -> Contents:
        for keys, leaf in _with_modules(tree, self._storages.where):
            if isinstance(leaf, StoredTensor):
                self._add_tensor(keys, leaf)
            elif isinstance(leaf, StoredArray):
                self._add(keys, leaf.dtype, leaf.shape, (Part(self._storages.file, None, 0, codec="pickle"),))
            elif isinstance(leaf, Instance):
                self._add_instance(keys, leaf)
        self._contents.entries = mark_averages(_apart_from_the_model(self._contents.entries))
        return self._contents

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
        elif leaf.cls.endswith(_SPARSE):
            self._add_sparse(keys, leaf)

    def _add_sparse(self, keys: Keys, leaf: Instance) -> None:
        """A sparse tensor: its bytes are indices and values, which no reader of dense bytes can use."""
        inner = leaf.arguments[1] if len(leaf.arguments) > 1 else None
        if not isinstance(inner, list) or len(inner) < 3 or not isinstance(inner[1], StoredTensor):
            return
        shape = inner[2] if isinstance(inner[2], list) else []
        if all(isinstance(size, int) and size >= 0 for size in shape):
            pieces = [self._part(each, codec="sparse") for each in inner[:2] if isinstance(each, StoredTensor)]
            self._add(keys, inner[1].dtype, tuple(shape), tuple(part._replace(offset=None) for part in pieces))

    def _add(self, keys: Keys, dtype: str, shape: tuple[int, ...], parts: tuple[Part, ...]) -> Entry:
        group, path, name = self._found.place_of(keys)
        entry = Entry(name, dtype, shape, parts, group, path)
        self._contents.entries.append(entry)
        return entry

    def _parts(self, keys: Keys, tensor: StoredTensor, start: tuple[int, ...] = ()) -> tuple[Part, ...]:
        if not tensor.storage:
            return ()
        check_reach(tensor, ".".join(map(str, keys)), self._storages.places, self._storages.where)
        part = self._part(tensor)
        return (part._replace(start=start, shape=tensor.shape),) if start else (part,)

    def _part(self, tensor: StoredTensor, codec: str = "") -> Part:
        offset, _ = self._storages.places[tensor.storage]
        first = tensor.offset * tensor.item_bytes
        stride = () if is_contiguous(tensor.shape, tensor.stride) else tensor.stride
        size = max(0, last_byte(tensor) - first) if stride else tensor.numel * tensor.item_bytes
        codec = codec or ("" if offset is not None else self._storages.codec)
        place = None if offset is None else offset + first
        return Part(self._storages.file, place, size, stride=stride, rank=self._storages.rank, codec=codec)


def _with_modules(tree: Any, where: str) -> Iterator[tuple[Keys, Any]]:
    """The leaves of the tree, a module replaced by the tensors of its `state_dict` under their dotted names."""
    for keys, leaf in walk(tree, where):
        module = module_tensors(leaf) if isinstance(leaf, Instance) else None
        if module is None:
            yield keys, leaf
        else:
            yield from (((*keys, name), tensor) for name, tensor in module.items())


def module_tensors(root: Instance) -> dict[str, Any] | None:
    """Return what the `state_dict` of a pickled nn.Module has, by name; None when the instance is no module."""
    if not _registry(root, "_modules") or not _registry(root, "_parameters"):
        return None
    tensors: dict[str, Any] = {}
    stack = [("", root)]
    for _ in range(_MOST_MODULES):
        if not stack:
            break
        prefix, module = stack.pop()
        hidden = module.fields.get("_non_persistent_buffers_set")
        hidden = hidden if isinstance(hidden, list) else []
        for registry in ("_parameters", "_buffers"):
            named = (module.fields.get(registry) or {}).items() if _registry(module, registry) else ()
            tensors |= {f"{prefix}{name}": value for name, value in named if value is not None and name not in hidden}
        children = module.fields["_modules"].items() if _registry(module, "_modules") else ()
        inner = [(f"{prefix}{name}.", child) for name, child in children if isinstance(child, Instance)]
        stack += [each for each in inner[::-1] if len(each[0]) < _LONGEST_NAME]
    return tensors


def _registry(module: Instance, name: str) -> bool:
    return isinstance(module.fields.get(name), dict)


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


def mark_averages(entries: list[Entry]) -> list[Entry]:
    """Give the group "ema" to a mapping of averaged weights that stands beside one with the same names.

    `module.` before a name is what AveragedModel puts there.
    """
    names: dict[tuple[str, ...], set[str]] = {}
    for entry in entries:
        if entry.group == "model":
            names.setdefault(entry.path, set()).add(entry.name.removeprefix("module."))
    averaged = {path for path in names if any(_EMA.search(key) for key in path)}
    others = [names[path] for path in names if path not in averaged]
    beside = {path for path in averaged if any(2 * len(names[path] & other) > len(names[path]) for other in others)}
    return [each._replace(group="ema") if each.group == "model" and each.path in beside else each for each in entries]
