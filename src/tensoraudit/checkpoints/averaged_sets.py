"""Averaged weights beside the ones that were trained: under keys that say so, or as a library lays them out.

Three layouts. A mapping whose key speaks of an average, beside one with the same names (`ema`, `swa`, what
AveragedModel saves). One module with both (ema-pytorch): `online_model.*` and `ema_model.*` in one mapping. And
Lightning's callback, which puts the average where the weights usually are, and those that were trained under
`current_model_state`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tensoraudit.checkpoints.schema import Entry, Group

_EMA: Final = re.compile(r"(?:^|[^a-z])(?:ema|averaged?|avg|shadow|teacher|swa|polyak)(?:$|[^a-z])", re.IGNORECASE)
_AVERAGE: Final = "ema_model"
_TRAINED: Final = "online_model"
_COUNTERS: Final = frozenset(("initted", "step"))
"""What a module of ema-pytorch keeps beside its two models."""
_USUAL: Final = "state_dict"
_CURRENT: Final = "current_model_state"
_STATE: Final = "averaging_state"

_Path = tuple[str, ...]


def mark_averages(entries: list[Entry]) -> list[Entry]:
    """Give the group "ema" to averaged weights beside those that were trained; full names stay."""
    split = _split(entries)
    groups = _groups(_names(split))
    return [
        each._replace(group=groups[each.path]) if each.group == "model" and each.path in groups else each
        for each in split
    ]


def _split(entries: list[Entry]) -> list[Entry]:
    """Each model of an ema-pytorch module under a path of its own, its counters apart."""
    modules = {entry.path for entry in entries if entry.group == "model" and entry.name.startswith(f"{_AVERAGE}.")}
    return [_placed(entry) if entry.group == "model" and entry.path in modules else entry for entry in entries]


def _placed(entry: Entry) -> Entry:
    word, _, rest = entry.name.partition(".")
    if rest and word in (_AVERAGE, _TRAINED):
        return entry._replace(path=(*entry.path, word), name=rest)
    return entry._replace(group="other") if entry.name in _COUNTERS and not entry.shape else entry


def _names(entries: Iterable[Entry]) -> dict[_Path, set[str]]:
    """The names of each mapping; `module.` before one is what AveragedModel puts there."""
    names: dict[_Path, set[str]] = {}
    for entry in entries:
        if entry.group == "model":
            names.setdefault(entry.path, set()).add(entry.name.removeprefix("module."))
    return names


def _groups(names: Mapping[_Path, set[str]]) -> dict[_Path, Group]:
    averaged = {path for path in names if any(_EMA.search(key) for key in path) and path[-1] != _TRAINED}
    others = [path for path in names if path not in averaged]
    found: dict[_Path, Group] = {}
    for path in averaged:
        if any(_alike(names[path], names[other]) for other in others):
            found[path] = "ema"
    return found | _copies(names) | _swapped(names)


def _alike(ours: set[str], theirs: set[str]) -> bool:
    return 2 * len(ours & theirs) > len(ours)


def _copies(names: Mapping[_Path, set[str]]) -> dict[_Path, Group]:
    """The trained weights within an average, where they stand outside of it as well."""
    inside = [path for path in names if path[-1:] == (_TRAINED,)]
    outside = [path for path in names if path[-1:] not in ((_TRAINED,), (_AVERAGE,))]
    return {path: "other" for path in inside if any(_alike(names[path], names[other]) for other in outside)}


def _swapped(names: Mapping[_Path, set[str]]) -> dict[_Path, Group]:
    """Lightning's average: it stands in `state_dict` where `averaging_state` counts its steps."""
    found: dict[_Path, Group] = {}
    for path in names:
        usual, state = (*path[:-1], _USUAL), (*path[:-1], _STATE)
        if path[-1:] == (_CURRENT,) and state in names and _alike(names.get(usual, set()), names[path]):
            found |= {usual: "ema", state: "ema"}
    return found
