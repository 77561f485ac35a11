"""Names of parameters without what a framework adds to them: the model's own name, collections, `:0`, `cell`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

_ADDED = frozenset(("params", "batch_stats", "module", "model", "cell", "gru_cell", "lstm_cell", "simple_rnn_cell"))
_SPLIT = re.compile(r"[./]")
_NUMBER = re.compile(r"_(\d+)$")
Key = tuple[tuple[str, ...], str]


class Named(Protocol):
    """What has a name, a module path and a kind."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def module(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102


def path_of(text: str) -> tuple[str, ...]:
    """The words of a module path: `params/block_1/conv` and `block1.conv` give the same."""
    words = [_NUMBER.sub(r"\1", word.lower()) for word in _SPLIT.split(text.partition(":")[0]) if word]
    return tuple(word for word in words if word not in _ADDED)


def key_of(parameters: Sequence[Named]) -> Mapping[str, Key]:
    """The words of the module and the kind of each parameter, by name; a first word that all share is left out. One of
    no known kind has the last word of its own name for one."""
    paths = {each.name: path_of(each.module or each.name.rpartition("/")[0]) for each in parameters}
    firsts = {path[:1] for path in paths.values()}
    skip = 1 if len(firsts) == 1 and len(paths) > 1 and all(len(path) > 1 for path in paths.values()) else 0
    return {
        each.name: (paths[each.name][skip:], each.kind if each.kind != "other" else _SPLIT.split(each.name)[-1].lower())
        for each in parameters
    }


def place_of(key: Key, *, exact: bool) -> Key | None:
    """What two keys of one parameter share: the whole path, or its last word alone. None for a key without a path."""
    path, kind = key
    return None if not path else (path if exact else path[-1:], kind)
