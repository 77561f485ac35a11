"""Pairs that shapes alone allow, for tensors that no name brings together. Nothing ambiguous is paired."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tensoraudit.checkpoints.fronts import Words, unique
from tensoraudit.checkpoints.pairing import Pairing, Side

Layers = Mapping[Words, Mapping[str, int]]


def pair_by_shapes(pairing: Pairing) -> None:
    """Pair layers, then single tensors, by shapes that only one on each side has; then all that is left if both sides
    have the same shapes in the same order."""
    if not pairing.is_done:
        _by_layers(pairing)
    if not pairing.is_done:
        ours, theirs = _shapes(pairing.reference), _shapes(pairing.candidate)
        left, right = unique(ours.items()), unique(theirs.items())
        single = [(i, right[shape]) for shape, i in left.items() if shape in right]
        pairing.take(single, "shape", "paired by its shape alone")
        left_over = [n for n in ours if n in pairing.reference.free], [n for n in theirs if n in pairing.candidate.free]
        order = [ours[n] for n in left_over[0]]
        # Of tensors that all have one shape the order says nothing.
        if len(set(order)) > 1 and order == [theirs[n] for n in left_over[1]]:
            pairing.take(zip(*left_over, strict=True), "shape", "paired by the order of shapes alone")


def _by_layers(pairing: Pairing) -> None:
    """A layer is what has one name but for the kind of parameter; its tensors are paired by kind."""
    ours, theirs = _layers(pairing.reference), _layers(pairing.candidate)
    left, right = (
        unique((number, _form(side, layer)) for number, layer in enumerate(layers.values()))
        for side, layers in ((pairing.reference, ours), (pairing.candidate, theirs))
    )
    lists = list(ours.values()), list(theirs.values())
    for form, i in left.items():
        if form in right:
            one, other = lists[0][i], lists[1][right[form]]
            found = [(number, other[kind]) for kind, number in one.items() if kind in other]
            pairing.take(found, "shape", "paired by the shapes of its layer")


def _layers(side: Side) -> Layers:
    layers: dict[Words, dict[str, int]] = {}
    for number in side.free:
        if side.kinds[number] == "model" and (key := side.convention(number)):
            layers.setdefault(key[:-1], {})[key[-1]] = number
    return {path: layer for path, layer in layers.items() if len(layer) > 1}


def _form(side: Side, layer: Mapping[str, int]) -> Hashable:
    """The kinds of parameters of a layer with their sizes; counters, which not every framework keeps, do not count."""
    sizes = ((kind, _sizes(side, number)) for kind, number in layer.items())
    return tuple(sorted((kind, size) for kind, size in sizes if size))


def _sizes(side: Side, number: int) -> tuple[int, ...]:
    """The lengths of a tensor's axes in any order, without those of length 1: () for a single number."""
    return tuple(sorted(size for size in side.entries[number].shape if size != 1))


def _shapes(side: Side) -> dict[int, Hashable]:
    """The kind and the sizes of each tensor without a partner; single numbers are left out."""
    return {n: (side.kinds[n], sizes) for n in side.free if (sizes := _sizes(side, n))}
