"""Kernels that were taken over from another framework in the old layout.

Only frameworks whose conventions differ are compared: PyTorch keeps `weight` as (out, in, ...), Keras and Flax keep
`kernel` as (..., in, out). What is no `kernel` on that side (an embedding) has one layout everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod
from typing import TYPE_CHECKING, Final

from tensoraudit.checkpoints.observations.layers import place_of
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

if TYPE_CHECKING:
    from tensoraudit.checkpoints.diff import CheckpointDiff, PairedTensor

_LAST: Final = frozenset({"tensorflow", "jax"})
"""Frameworks that keep the channels of a kernel last."""
_TO_LAST: Final[Mapping[int, tuple[int, ...]]] = {2: (1, 0), 3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}
"""From (out, in, ...) to (..., in, out), by rank."""
_DEPTHWISE: Final = "depthwise_kernel"
"""The kernel of Keras that keeps (channels, 1, ...) as (..., channels, 1)."""
_KERNELS: Final = frozenset({"kernel", _DEPTHWISE, "pointwise_kernel"})
_TO_FIRST: Final[Mapping[int, tuple[int, ...]]] = {2: (1, 0), 3: (2, 1, 0), 4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}


def observe_diff(diff: CheckpointDiff) -> Iterator[Observation]:
    """Yield `layout_not_carried`, `reshaped_kernel`, `kernel_axes_swapped` and `flatten_order`; the value is "values"
    where the bytes say so, "headers" where only the shapes do."""
    order = _order(diff.reference, diff.candidate)
    if order is None:
        return
    torch, last = diff.reference, diff.candidate
    if torch.framework != "pytorch":
        torch, last = last, torch
    flattened = _behind_flatten(torch)
    kernels = {
        entry.full_name
        for entry in last.entries
        if entry.axes.endswith("IO") or (entry.alias and place_of(entry.alias)[1] in _KERNELS)
    }
    for pair in diff.pairs:
        rank = len(pair.shapes[0])
        if rank in order and len(pair.shapes[1]) == rank and _is_kernel(pair, kernels):
            yield from _compared(pair, _axes(pair, order[rank]), flattened)
            yield from _swapped(pair, torch_first=torch is diff.reference)


def _order(reference: StoredCheckpoint, candidate: StoredCheckpoint) -> Mapping[int, tuple[int, ...]] | None:
    if reference.framework == "pytorch" and candidate.framework in _LAST:
        return _TO_LAST
    return _TO_FIRST if reference.framework in _LAST and candidate.framework == "pytorch" else None


def _is_kernel(pair: PairedTensor, kernels: Set[str]) -> bool:
    """Tell whether one side is a `weight` and the other a kernel: by its name, or by what else is known of it, its axes
    or the name that its variable has where the format numbers them."""
    names = pair.reference, pair.candidate
    kinds = {place_of(name)[1] for name in names}
    return "weight" in kinds and not (kinds.isdisjoint(_KERNELS) and kernels.isdisjoint(names))


def _axes(pair: PairedTensor, order: Sequence[int]) -> Sequence[int]:
    if len(order) != 4 or _DEPTHWISE not in {place_of(pair.reference)[1], place_of(pair.candidate)[1]}:
        return order
    return (2, 3, 0, 1)  # its own inverse


def _compared(pair: PairedTensor, order: Sequence[int], flattened: Mapping[str, int]) -> Iterator[Observation]:
    moved = tuple(pair.shapes[0][axis] for axis in order)
    if not _changes_bytes(pair.shapes[0], order):
        return
    known = "values" if all(pair.digests) else "headers"
    places = f"{pair.reference} {list(pair.shapes[0])} and {pair.candidate} {list(pair.shapes[1])}"
    if pair.status == "equal" and not _is_zero(pair):
        told = f"{places} hold the same bytes: the kernel was not moved into the other framework's layout."
        yield Observation("layout_not_carried", pair.candidate, known, told)
    elif pair.status == "same_header" and moved != pair.shapes[1]:
        told = (
            f"{places} have one shape, as an unmoved kernel has: in the other framework's layout it is {list(moved)}."
        )
        yield Observation("layout_not_carried", pair.candidate, known, told)
    elif _is_reshaped(pair) and moved == pair.shapes[1] and not _is_zero(pair):
        told = f"{places} hold the same bytes in another shape: the kernel was reshaped, its axes were not moved."
        yield Observation("reshaped_kernel", pair.candidate, known, told)
    elif pair.status == "permuted" and known == "values" and (channels := _channels(pair, flattened)):
        told = (
            f"{places} agree after a plain transposition, behind a convolution of {channels} channels. A flatten "
            "is in the order channels, height, width there and height, width, channels here, unless the model turns it."
        )
        yield Observation("flatten_order", pair.candidate, channels, told)


def _swapped(pair: PairedTensor, *, torch_first: bool) -> Iterator[Observation]:
    """A kernel may have its channels in either order (transposed convolutions do), its window only in one: `k.T`
    puts height where width was."""
    rank = len(pair.shapes[0])
    if pair.status != "permuted" or not all(pair.digests) or not pair.permutation:
        return
    first, last = range(2, rank), range(rank - 2)
    window, places = (first, last) if torch_first else (last, first)
    moved = [pair.permutation[place] for place in places if pair.shapes[1][place] != 1]
    if moved != [axis for axis in window if pair.shapes[0][axis] != 1]:
        told = (
            f"{pair.reference} {list(pair.shapes[0])} and {pair.candidate} {list(pair.shapes[1])} agree with the axes "
            f"in the order {list(pair.permutation)}, which does not keep the order of the window's own."
        )
        yield Observation("kernel_axes_swapped", pair.candidate, "values", told)


def _is_reshaped(pair: PairedTensor) -> bool:
    """Tell whether both sides hold the same bytes in another shape. The status alone does not: it speaks of other steps
    too, such as the columns of a flatten in another order, which the note then names."""
    same = pair.digests[0] == pair.digests[1] != ""
    return pair.status == "reshaped" and same and "order" not in pair.note


def _changes_bytes(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Tell whether moving the axes changes the order of the bytes: axes of one element may stand anywhere."""
    kept = [axis for axis in order if shape[axis] != 1]
    return kept != sorted(kept)


def _is_zero(pair: PairedTensor) -> bool:
    """Tell whether a kernel is zero throughout, by its digest: it looks the same in every layout."""
    size = _SIZES.get(pair.dtypes[0], 0) * prod(pair.shapes[0])
    return size <= _LARGEST and hashlib.sha256(bytes(size)).hexdigest() == pair.digests[0]


_SIZES: Final[Mapping[str, int]] = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_LARGEST: Final = 1 << 26
"""Bytes of a kernel that is asked whether it is all zeros."""


# Dense layers behind a flatten


def _channels(pair: PairedTensor, flattened: Mapping[str, int]) -> int:
    return flattened.get(pair.reference) or flattened.get(pair.candidate) or 0


def _behind_flatten(torch: StoredCheckpoint) -> Mapping[str, int]:
    """Linear weights that stand next after a convolution in the file and read several positions of each of its
    channels, with the number of channels."""
    found: dict[str, int] = {}
    channels = 0
    for entry in torch.entries:
        if entry.group != "model" or place_of(entry.name)[1] != "weight":
            continue
        if len(entry.shape) == 2 and channels:
            if _reads_positions(entry, channels):
                found[entry.full_name] = channels
            channels = 0
        elif len(entry.shape) >= 3:
            channels = entry.shape[0]
    return found


def _reads_positions(entry: Entry, channels: int) -> bool:
    return entry.shape[1] > channels and entry.shape[1] % channels == 0
