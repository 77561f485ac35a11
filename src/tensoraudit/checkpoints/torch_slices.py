"""Tensors of which a file holds one rank's part: DTensor and FSDP's ShardedTensor, as torch 2.13 pickles them.

Both are `_rebuild_from_type_v2(function, class, arguments, state)`. A DTensor's state has the local tensor, and a spec
with the mesh, the rank's place in it, and a placement per axis of the mesh; a ShardedTensor's has the local shards with
their offsets, which say all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tensoraudit.artifacts.pickles import StoredTensor, dtype_of
from tensoraudit.checkpoints.torch_tree import Instance

_MOST_AXES: Final = 16


@dataclass(frozen=True, slots=True)
class SlicedTensor:
    """The pieces of a tensor that one rank wrote: each with its start in the whole, in elements.

    `shape` is the whole tensor's. `rank` and `processes` are -1 where they are not stored. `placements` has a word per
    axis of the mesh, as torch prints it: `Shard(0)`, `Replicate()`; `mesh` the sizes of those axes.
    """

    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[tuple[tuple[int, ...], StoredTensor], ...]
    rank: int = -1
    processes: int = -1
    placements: tuple[str, ...] = ()
    mesh: tuple[int, ...] = ()


def sliced_tensor(node: Any) -> SlicedTensor | None:
    """Return the slices that the instance would become, None when it is none or its parts do not fit each other."""
    if not isinstance(node, Instance) or not node.cls.endswith("_rebuild_from_type_v2") or len(node.arguments) < 4:
        return None
    kind, arguments, state = node.arguments[1:4]
    read = _READERS.get(kind.cls.rpartition(".")[2]) if isinstance(kind, Instance) else None
    if read is None or not isinstance(arguments, list) or len(arguments) < 3:
        return None
    shape = _sizes(arguments[2])
    dtype = dtype_of(arguments[1].cls) if isinstance(arguments[1], Instance) else ""
    return read(dtype, shape, state) if shape is not None else None


def _dtensor(dtype: str, shape: tuple[int, ...], state: Any) -> SlicedTensor | None:
    fields = Instance("", [], state).fields
    local, spec = fields.get("_local_tensor"), fields.get("_spec")
    if not isinstance(local, StoredTensor) or not isinstance(spec, Instance):
        return None
    mesh, placements = spec.fields.get("mesh"), spec.fields.get("placements")
    if not isinstance(mesh, Instance) or not isinstance(placements, list):
        return None
    sizes, place = _mesh_sizes(mesh), _sizes(mesh.fields.get("_coordinate_on_dim"))
    rank = mesh.fields.get("_rank", -1)
    rank = rank if isinstance(rank, int) else -1
    words = tuple(map(_placement, placements[:_MOST_AXES]))
    processes = _product(sizes) if sizes else -1
    if sizes is None or place is None or not len(sizes) == len(place) == len(placements):
        return SlicedTensor(local.dtype, shape, (), rank, processes, words)
    start = _start_and_shape(shape, placements, sizes, place)
    if start is None or start[1] != local.shape:
        return SlicedTensor(local.dtype, shape, (), rank, processes, words, sizes)
    return SlicedTensor(local.dtype, shape, ((start[0], local),), rank, processes, words, sizes)


def _sharded_tensor(dtype: str, shape: tuple[int, ...], state: Any) -> SlicedTensor | None:
    if not isinstance(state, list) or len(state) < 3 or not isinstance(state[0], list):
        return None
    pieces = []
    for shard in state[0]:
        fields = shard.fields if isinstance(shard, Instance) else {}
        local, metadata = fields.get("tensor"), fields.get("metadata")
        start = _sizes(metadata.fields.get("shard_offsets")) if isinstance(metadata, Instance) else None
        if not isinstance(local, StoredTensor) or start is None or len(start) != len(shape):
            return None
        pieces.append((start, local))
    group = state[2].fields if isinstance(state[2], Instance) else {}
    rank, processes = group.get("global_rank", -1), group.get("global_world_size", -1)
    dtype = pieces[0][1].dtype if pieces else dtype
    rank, processes = (each if isinstance(each, int) else -1 for each in (rank, processes))
    return SlicedTensor(dtype, shape, tuple(pieces), rank, processes)


_READERS: Final[dict[str, Callable[[str, tuple[int, ...], Any], SlicedTensor | None]]] = {
    "DTensor": _dtensor,
    "ShardedTensor": _sharded_tensor,
}


def _mesh_sizes(mesh: Instance) -> tuple[int, ...] | None:
    """The sizes of the axes: from the layout (torch 2.10 on), or as the shape of the tensor of ranks (before)."""
    whole = mesh.fields.get("mesh")
    if isinstance(whole, StoredTensor):
        return whole.shape
    layout = mesh.fields.get("_layout")
    axes = layout.fields.get("axes") if isinstance(layout, Instance) else None
    if not isinstance(axes, list) or not all(isinstance(axis, Instance) for axis in axes):
        return _sizes(layout.fields.get("shape")) if isinstance(layout, Instance) else None
    shapes = [_sizes(axis.fields.get("shape")) for axis in axes[:_MOST_AXES]]
    return tuple(_product(shape) for shape in shapes if shape is not None)


def _placement(node: Any) -> str:
    if not isinstance(node, Instance):
        return "?"
    name, dim = node.cls.rpartition(".")[2], node.fields.get("dim")
    return f"{name}({dim if isinstance(dim, int) else ''})"


def _start_and_shape(
    shape: tuple[int, ...], placements: list[Any], sizes: tuple[int, ...], place: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Where the rank at `place` of the mesh begins, and how much it has, along each axis of the tensor.

    Axes of the mesh cut from left to right, each cutting what the former left into equal pieces rounded up. A
    `_StridedShard` is the exception: it cut after the axes to its right (data parallelism over tensor parallelism).
    """
    start, left = [0] * len(shape), list(shape)
    strided = [at for at, each in enumerate(placements) if "_StridedShard" in _placement(each)]
    order = [at for at in range(len(placements)) if at not in strided] + strided[::-1]
    for at in order:
        dim = placements[at].fields.get("dim") if isinstance(placements[at], Instance) else None
        if dim is None:
            continue
        if not isinstance(dim, int) or not 0 <= dim < len(shape) or sizes[at] < 1 or place[at] >= sizes[at]:
            return None
        piece = -(-left[dim] // sizes[at])
        first = min(place[at] * piece, left[dim])
        start[dim] += first
        left[dim] = min(piece, left[dim] - first)
    return tuple(start), tuple(left)


def _sizes(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if not isinstance(value, list) or len(value) > 64:
        return None
    fits = all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 63 for size in value)
    return tuple(value) if fits else None


def _product(sizes: tuple[int, ...] | None) -> int:
    result = 1
    for size in sizes or ():
        result *= size
    return result
