"""Which value comes from which node of one graph, and what is wrong with that: defined twice or never, out of order,
in a circle. Knows names only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

_SHOWN: Final = 10
MAX_PROBLEMS: Final = 100
"""Rows that are kept per file: the first few tell what went wrong."""


class Wiring:
    """The uses and definitions of one graph, in the order of its nodes.

    Names that a node reads before anything in the graph defines them are kept: they are values from a graph around it,
    values that come later, or nothing at all.
    """

    def __init__(self, graph: str) -> None:
        self.graph = graph
        self.problems: list[dict[str, Any]] = []
        self._labels: list[str] = []
        self._reads: list[tuple[str, ...]] = []
        self._maker: dict[str, int] = {}
        self._waiting: dict[str, int] = {}

    def declare(self, name: str) -> None:
        """Note a value that is there from the start: an input or an initializer."""
        self._define(name, -1)

    def add(self, label: str, reads: tuple[str, ...], makes: tuple[str, ...]) -> None:
        """Note the next node. Empty names, which mark omitted optional inputs and outputs, are passed over."""
        index = len(self._labels)
        self._labels.append(label)
        self._reads.append(reads)
        for name in reads:
            if name and name not in self._maker:
                self._waiting.setdefault(name, index)
        for name in makes:
            if name:
                self._define(name, index)

    def captured(self, index: int, names: Iterable[str]) -> None:
        """Note what the subgraphs of node `index` read from outside: the node depends on it."""
        names = tuple(names)
        self._reads[index] += names
        for name in names:
            if name not in self._maker or self._maker[name] >= index:
                self._waiting.setdefault(name, index)

    def free(self) -> dict[str, str]:
        """Return the values that this graph reads and does not define, with the first node that reads each."""
        return {name: self._labels[index] for name, index in self._waiting.items() if name not in self._maker}

    def cycle(self) -> list[str]:
        """Return the nodes of a cycle, in the order of the data, or none. Notes nodes that are merely out of order."""
        late = [name for name in self._waiting if name in self._maker]
        if not late:
            return []
        left = self._unordered()
        if not left:
            values = late[:_SHOWN]
            self.problems.append({"kind": "unsorted", "graph": self.graph, "values": values, "count": len(late)})
            return []
        return [self._labels[index] for index in self._circle(left)]

    def _define(self, name: str, index: int) -> None:
        if name in self._maker and len(self.problems) < MAX_PROBLEMS:
            nodes = [self._labels[each] for each in (self._maker[name], index) if each >= 0]
            self.problems.append({"kind": "duplicate", "graph": self.graph, "value": name, "nodes": nodes})
        self._maker[name] = index

    def _unordered(self) -> set[int]:
        """Take away nodes whose inputs are there until none is left (Kahn, CACM 1962); what stays waits for a cycle."""
        needs = [{self._maker.get(name, -1) for name in reads} - {-1} for reads in self._reads]
        followers: dict[int, list[int]] = {}
        for index, makers in enumerate(needs):
            for maker in makers:
                followers.setdefault(maker, []).append(index)
        missing = [len(makers) for makers in needs]
        ready = [index for index, count in enumerate(missing) if count == 0]
        for index in ready:
            for follower in followers.get(index, ()):
                missing[follower] -= 1
                if missing[follower] == 0:
                    ready.append(follower)
        return set(range(len(needs))) - set(ready)

    def _circle(self, left: set[int]) -> list[int]:
        """Walk upstream among nodes that all wait for another of them, until one comes again."""
        place: dict[int, int] = {}
        path: list[int] = []
        index = min(left)
        while index not in place:
            place[index] = len(path)
            path.append(index)
            index = min({self._maker.get(name, -1) for name in self._reads[index]} & left)
        circle = path[place[index] :][::-1]
        first = circle.index(min(circle))
        return circle[first:] + circle[:first]
