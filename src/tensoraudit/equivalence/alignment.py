"""Which value of an exported graph corresponds to which operation that the reference ran, told by exporter metadata.

Pure logic over plain dictionaries; knows neither torch nor ONNX, and looks at no values.

    event (reference): "index", "op", "module", "source": {"path", "line"} or None, "outputs": [{"shape"} or None]
    value (candidate): "name", "node", "op", "module", "source" as above, "shape", "graph_index"

1. Both sides are cut into *runs*: operations that follow one another and share a module path and a line of the user's
   source. One line of Python becomes several operations on either side, and not the same ones; only where the run
   ends are both sides sure to hold the same tensor.
2. The k-th run of a (module, line) on one side belongs to the k-th on the other (a loop, a module called twice). If
   the counts differ (a folded loop), the place is left out: a wrong pair is worse than none. One exception: a place
   that the reference enters once may be split on the other side, because an exported graph may be reordered; its last
   tensors are paired.
3. Of two runs, the last tensors of equal shape are a pair.
4. Where one side has no line (an exporter that was not verbose), the module path alone is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePath
from typing import Any

Shape = tuple[int, ...]
Place = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """One tensor on both sides: output `output` of event `event`, and the value `value` of the exported graph."""

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
    reference, candidate = _of_events(events), _of_values(values)
    if not _has_lines(reference) or not _has_lines(candidate):
        reference, candidate = _without_lines(reference), _without_lines(candidate)
    ours, theirs = _runs(reference), _runs(candidate)
    pairs = [pair for place in ours.keys() & theirs.keys() for pair in _pair_place(ours[place], theirs[place])]
    return tuple(sorted(pairs, key=lambda pair: (pair.event, pair.output)))


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
        _tensor(value, order=value["graph_index"], output=0, name=value["name"], node=value["node"], described=value)
        for value in sorted(values, key=lambda value: value["graph_index"])
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
        place=(module_path(str(item.get("module") or "")), PurePath(path).name, line),
        source_path=path,
        shape=tuple(shape) if shape is not None and all(isinstance(size, int) for size in shape) else None,
    )


def _has_lines(tensors: Sequence[_Tensor]) -> bool:
    return any(tensor.place[2] for tensor in tensors)


def _without_lines(tensors: Sequence[_Tensor]) -> list[_Tensor]:
    return [replace(tensor, place=(tensor.place[0], "", 0)) for tensor in tensors]


def _runs(tensors: Sequence[_Tensor]) -> dict[Place, list[list[_Tensor]]]:
    runs: dict[Place, list[list[_Tensor]]] = {}
    for place, run in groupby(tensors, key=lambda tensor: tensor.place):
        if place != ("", "", 0):
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
                    line=a.place[2],
                    shape=a.shape,
                )
    return None
