"""Which value of an exported graph corresponds to which operation that the reference ran, told by exporter metadata.

Pure logic over plain dictionaries; knows neither torch nor ONNX, and looks at no values. In execution order:

    event (reference): "index", "op", "module", "call", "source" ({"path", "line"} or None), "outputs" ({"shape"})
    value (candidate): "name", "node", "op", "module", "call", "source", "shape", "inputs" (names of values)

1. Both sides are cut into *runs*: operations that follow one another and share a place: a module path, the number of
   its call (where the exporter kept it) and a line of the user's source. One line of Python becomes several operations
   on either side, and not the same ones; only where the run ends are both sides sure to hold the same tensor.
2. The k-th run of a place on one side belongs to the k-th on the other (a loop, a module called twice). If the counts
   differ (a folded loop), the place is left out: a wrong pair is worse than none. One exception: a place that the
   reference enters once may be split on the other side, because an exported graph may be reordered; its last tensors
   are paired.
3. Of two runs, the last tensors of equal shape are a pair.
4. Where one side has no line (an exporter that was not verbose), the module path alone is used.
5. A batch normalisation that the candidate lacks was folded into the convolution before it: it is their common result
   that both sides hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from pathlib import PurePath
from typing import Any

Shape = tuple[int, ...]
Place = tuple[str, int, str, int]

_NOWHERE: Place = ("", 0, "", 0)


@dataclass(frozen=True, slots=True)
class Pair:
    """One tensor on both sides: output `output` of event `event`, and the value `value` of the exported graph.

    `feeds` names the paired values that read this one, directly or through values that are not paired.
    """

    event: int
    output: int
    value: str
    node: str
    reference_op: str
    candidate_op: str
    module: str
    path: str
    line: int
    shape: Shape
    feeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor with its place. `order` is the position in execution order, `output` counts the outputs of one event."""

    order: int
    output: int
    name: str
    node: str
    op: str
    place: Place
    source_path: str
    shape: Shape | None


def align(events: Iterable[Mapping[str, Any]], values: Iterable[Mapping[str, Any]]) -> tuple[Pair, ...]:
    """Pair traced events with exported values by the rules above; the pairs are in execution order of the reference."""
    listed = list(values)
    reference, candidate = _of_events(events), _of_values(listed)
    if not _has_lines(reference) or not _has_lines(candidate):
        reference, candidate = ([_at(t, path="", line=0) for t in side] for side in (reference, candidate))
    counted = {tensor.place[0] for tensor in candidate if tensor.place[1]}
    reference = [tensor if tensor.place[0] in counted else _at(tensor, call=0) for tensor in reference]
    ours, theirs = _runs(reference), _runs(candidate)
    pairs = [pair for place in ours.keys() & theirs.keys() for pair in _pair_place(ours[place], theirs[place])]
    pairs = _with_folded(pairs, reference, theirs.keys())
    feeds = _feeds({pair.value for pair in pairs}, listed)
    pairs = [replace(pair, feeds=feeds[pair.value]) for pair in pairs]
    return tuple(sorted(pairs, key=lambda pair: (pair.event, pair.output)))


def _with_folded(pairs: Sequence[Pair], reference: Sequence[_Tensor], present: Collection[Place]) -> list[Pair]:
    """Rule 5: move a pair on to the normalisation after it, if the candidate has none there."""
    position = {(tensor.order, tensor.output): at for at, tensor in enumerate(reference)}
    return [_moved(pair, reference[position[pair.event, pair.output] + 1 :], present) for pair in pairs]


def _moved(pair: Pair, later: Sequence[_Tensor], present: Collection[Place]) -> Pair:
    place = next((tensor.place for tensor in later if tensor.op != "module"), None)
    run = takewhile(lambda tensor: tensor.place == place or tensor.op == "module", later)
    following = next((tensor for tensor in run if "batch_norm" in tensor.op and tensor.shape == pair.shape), None)
    if following is None or place in present:
        return pair
    return replace(
        pair,
        event=following.order,
        output=following.output,
        reference_op=f"{pair.reference_op} and {following.op}",
        module=following.place[0],
        path=following.source_path or pair.path,
        line=following.place[3] or pair.line,
    )


def _feeds(paired: set[str], values: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return, for each paired value, the paired values next downstream of it."""
    sources: dict[str, frozenset[str]] = {}
    feeds: dict[str, list[str]] = {name: [] for name in paired}
    for value in values:
        name = value["name"]
        read = [sources.get(read, frozenset()) for read in value.get("inputs") or ()]
        upstream = frozenset().union(*read)
        if name in paired:
            for source in sorted(upstream):
                feeds[source].append(name)
        sources[name] = frozenset({name}) if name in paired else upstream
    return {name: tuple(downstream) for name, downstream in feeds.items()}


def module_path(name: str) -> str:
    """Return a module path in dots: '/encoder/layer.0/attention' and 'encoder.layer.0.attention' are the same."""
    return ".".join(part for part in re.split(r"[/.]", name) if part)


def _of_events(events: Iterable[Mapping[str, Any]]) -> list[_Tensor]:
    return [
        _tensor(event, order=event["index"], output=place, name="", node="", described=described)
        for event in sorted(events, key=lambda event: event["index"])
        for place, described in enumerate(event["outputs"])
        if described is not None
    ]


def _of_values(values: Iterable[Mapping[str, Any]]) -> list[_Tensor]:
    return [
        _tensor(value, order=order, output=0, name=value["name"], node=value["node"], described=value)
        for order, value in enumerate(values)
    ]


def _tensor(
    item: Mapping[str, Any], *, order: int, output: int, name: str, node: str, described: Mapping[str, Any]
) -> _Tensor:
    source = item.get("source") or {}
    path, line = str(source.get("path") or ""), int(source.get("line") or 0)
    shape = described.get("shape")
    return _Tensor(
        order=order,
        output=output,
        name=name,
        node=node,
        op=str(item.get("op", "")),
        place=(module_path(str(item.get("module") or "")), int(item.get("call") or 0), PurePath(path).name, line),
        source_path=path,
        shape=tuple(shape) if shape is not None and all(isinstance(size, int) for size in shape) else None,
    )


def _has_lines(tensors: Sequence[_Tensor]) -> bool:
    return any(tensor.place[3] for tensor in tensors)


def _at(tensor: _Tensor, *, call: int | None = None, path: str | None = None, line: int | None = None) -> _Tensor:
    """Return the tensor at a place that is known less exactly."""
    module, old_call, old_path, old_line = tensor.place
    place = (
        module,
        old_call if call is None else call,
        old_path if path is None else path,
        old_line if line is None else line,
    )
    return replace(tensor, place=place)


def _runs(tensors: Sequence[_Tensor]) -> dict[Place, list[list[_Tensor]]]:
    runs: dict[Place, list[list[_Tensor]]] = {}
    for place, run in groupby(tensors, key=lambda tensor: tensor.place):
        if place != _NOWHERE:
            runs.setdefault(place, []).append(list(run))
    return runs


def _pair_place(ours: list[list[_Tensor]], theirs: list[list[_Tensor]]) -> list[Pair]:
    if len(ours) == len(theirs):
        found = [_last_pair(a, b) for a, b in zip(ours, theirs, strict=True)]
    elif len(ours) == 1:
        found = [_last_pair(ours[0], [tensor for run in theirs for tensor in run])]
    else:
        found = []
    return [pair for pair in found if pair is not None]


def _last_pair(ours: Sequence[_Tensor], theirs: Sequence[_Tensor]) -> Pair | None:
    """Pair the last tensors of one shape in two runs; an unknown shape of the candidate fits any."""
    for a in reversed(ours):
        for b in reversed(theirs):
            if a.shape is not None and b.shape in (a.shape, None):
                return Pair(
                    event=a.order,
                    output=a.output,
                    value=b.name,
                    node=b.node,
                    reference_op=a.op,
                    candidate_op=b.op,
                    module=a.place[0],
                    path=a.source_path,
                    line=a.place[3],
                    shape=a.shape,
                )
    return None
