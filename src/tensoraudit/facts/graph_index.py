"""The edges of all graphs: who makes a value, who reads it, what is known of it. Knows nothing of rules.

A graph is told apart by side, file and its path inside the model (`main/If_3.then_branch`). A subgraph sees the values
of the graphs around it; a function (`fn:...`) sees only its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tensoraudit.facts import ABSENT, Fact, Node, Site, Unknown, Value

UNSURE: Final = Unknown("nothing is known of this value")
"""Not even whether it is there is known, unlike any other `Unknown`."""

_GraphKey = tuple[str, str | None, str]


@dataclass(slots=True)
class _Edges:
    producers: dict[str, Node] = field(default_factory=dict)
    consumers: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))
    captured: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))
    values: dict[str, Value] = field(default_factory=dict)
    around: _Edges | None = None


class GraphIndex:
    """Producers, consumers and values by name, within the graph that a node stands in."""

    def __init__(self, nodes: Iterable[Fact], values: Iterable[Fact]) -> None:
        self._edges: dict[_GraphKey, _Edges] = defaultdict(_Edges)
        for node in nodes:
            if isinstance(node, Node):
                self._add(node)
        for value in values:
            if isinstance(value, Value):
                # First come, first kept: where a value is given twice the extractor puts the fuller one first.
                self._edges[value.side, value.at.path, value.graph].values.setdefault(value.name, value)
        self._nest()

    def _add(self, node: Node) -> None:
        edges = self._edges[_key(node)]
        for name in node.outputs:
            edges.producers.setdefault(name, node)
        for name in dict.fromkeys(node.inputs):
            if name:
                edges.consumers[name].append(node)

    def _nest(self) -> None:
        """Link each subgraph to the graph around it: the longest other graph whose path begins its own."""
        for (side, path, graph), edges in list(self._edges.items()):
            parts = graph.split("/")
            for length in range(len(parts) - 1, 0, -1):
                around = (side, path, "/".join(parts[:length]))
                if around in self._edges:
                    edges.around = self._edges[around]
                    break
        for edges in list(self._edges.values()):
            _report_upwards(edges)

    def producer(self, fact: Node | Value, name: str) -> Node | None:
        """Return the node that makes the value `name` read by `fact`; None for graph inputs and initializers."""
        for edges in self._seen_from(fact):
            if name in edges.producers:
                return edges.producers[name]
            if name in edges.values:
                return None
        return None

    def consumers(self, fact: Node | Value, name: str) -> Sequence[Node]:
        """Return the nodes that read the value `name`, in the same graph and in the graphs inside it."""
        edges = self._edges.get(_key(fact))
        if edges is None:
            return ()
        return [*edges.consumers.get(name, ()), *edges.captured.get(name, ())]

    def value(self, fact: Node | Value, name: str) -> Value | None:
        """Return what is known of a value that `fact` reads or makes; None for an omitted input. A value without a fact
        of its own has unknown fields."""
        if not name:
            return None
        made = False
        for edges in self._seen_from(fact):
            if name in edges.values:
                return edges.values[name]
            made = made or name in edges.producers
        # Values without a path (an extractor that does not tell files apart) are found by side and graph alone.
        for edges in _chain(self._edges.get((fact.side, None, fact.graph))):
            if name in edges.values:
                return edges.values[name]
        return _unseen(fact, name, made)

    def _seen_from(self, fact: Node | Value) -> Iterator[_Edges]:
        return _chain(self._edges.get(_key(fact)))


def _chain(edges: _Edges | None) -> Iterator[_Edges]:
    while edges is not None:
        yield edges
        edges = edges.around


def _report_upwards(edges: _Edges) -> None:
    """Tell the graphs around which nodes of a subgraph read their values."""
    for name, nodes in edges.consumers.items():
        inner, outer = edges, edges.around
        while outer is not None and name not in inner.producers and name not in inner.values:
            outer.captured[name].extend(nodes)
            inner, outer = outer, outer.around


def _key(fact: Node | Value) -> _GraphKey:
    return fact.side, model_file(fact), fact.graph


def model_file(fact: Fact) -> str | None:
    """Return the file of the model that a fact belongs to; a node may show a line of its source instead."""
    own = fact.file if isinstance(fact, Node) else None
    return own or getattr(fact, "at", Site()).path


def _unseen(fact: Node | Value, name: str, made: bool) -> Value:
    role: Any = "intermediate" if made else UNSURE
    constant = ABSENT if made else UNSURE
    return Value(name, UNSURE, UNSURE, constant, role, fact.graph, fact.side, fact.at)
