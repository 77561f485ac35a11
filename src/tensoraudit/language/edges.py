"""The relations of graphs: inputs, outputs, producers, consumers, what lies up and down the stream. No YAML here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from tensoraudit.facts import Node, Value
from tensoraudit.language.kleene import NO, UNKNOWN, YES, Truth, all_of, any_of, truth
from tensoraudit.language.pattern import Condition, Context, Pattern, Question, ask, ask_pattern

MAX_VISITED: Final = 2_000
"""Nodes looked at for one anchor. Eight steps over a wide graph reach everything, which would be facts times facts;
beyond this the answer is unknown. The longest fused patterns that rules speak of span some 40 nodes."""

COMBINE: Final[Mapping[str, Callable[[Iterable[Truth]], Truth]]] = {"any": any_of, "every": all_of}


@dataclass(frozen=True, slots=True)
class End:
    """One end of a node: which of its inputs or outputs (None: each), and how the answers join."""

    index: int | None
    quantifier: str

    def join(self, answers: Iterable[Truth]) -> Truth:
        """Join the answers by the quantifier."""
        return COMBINE[self.quantifier](answers)


def _names(fact: Node | Value, field: str, index: int | None) -> Sequence[str]:
    """Return the names at an end; "" for an input that is left out. A value is its own only name."""
    names: Sequence[str] = (fact.name,) if isinstance(fact, Value) else getattr(fact, field)
    if index is None:
        return [name for name in names if name]
    return (names[index] if -len(names) <= index < len(names) else "",)


def value_at(field: str, end: End, present: bool | None, conditions: tuple[Condition, ...]) -> Question:
    """Ask about the values that a node reads or makes. `present` false asks that the place is left out."""

    def one(node: Node, name: str, context: Context) -> Truth:
        value = context.store.graphs.value(node, name)
        if value is None or present is False:
            return truth((value is None) == (present is False))
        return ask(conditions, value, context)

    def test(node: Node, context: Context) -> Truth:
        return end.join(one(node, name, context) for name in _names(node, field, end.index))

    return test


def produced_by(pattern: Pattern, end: End) -> Question:
    """Ask about the nodes that make the inputs. A graph input or an initializer has none."""

    def one(fact: Node | Value, name: str, context: Context) -> Truth:
        node = context.store.graphs.producer(fact, name)
        return NO if node is None else ask_pattern(pattern, node, context)

    def test(fact: Node | Value, context: Context) -> Truth:
        return end.join(one(fact, name, context) for name in _names(fact, "inputs", end.index))

    return test


def consumed_by(pattern: Pattern, end: End) -> Question:
    """Ask about the nodes that read the outputs."""

    def test(fact: Node | Value, context: Context) -> Truth:
        graphs = context.store.graphs
        nodes = chain.from_iterable(graphs.consumers(fact, name) for name in _names(fact, "outputs", end.index))
        return end.join(ask_pattern(pattern, node, context) for node in nodes)

    return test


def along(pattern: Pattern, within: int, direction: str) -> Question:
    """Ask whether a node that fits lies at most `within` steps away, upstream or downstream."""
    step = _STEPS[direction]

    def test(fact: Node | Value, context: Context) -> Truth:
        best = NO
        for count, node in enumerate(_reached(fact, within, step, context)):
            if count >= MAX_VISITED:
                return UNKNOWN
            best = max(best, ask_pattern(pattern, node, context))
            if best is YES:
                return YES
        return best

    return test


_Step = Callable[[Node | Value, Context], Iterable[Node]]


def _reached(start: Node | Value, within: int, step: _Step, context: Context) -> Iterator[Node]:
    """Yield the nodes around, nearest first, each once and never the start, so that a cycle ends."""
    seen = {id(start)}
    ring: list[Node | Value] = [start]
    for _ in range(within):
        following: list[Node | Value] = []
        for node in chain.from_iterable(step(fact, context) for fact in ring):
            if id(node) not in seen:
                seen.add(id(node))
                following.append(node)
                yield node
        ring = following


def _producers(fact: Node | Value, context: Context) -> Iterator[Node]:
    for name in _names(fact, "inputs", None):
        node = context.store.graphs.producer(fact, name)
        if node is not None:
            yield node


def _consumers(fact: Node | Value, context: Context) -> Iterator[Node]:
    for name in _names(fact, "outputs", None):
        yield from context.store.graphs.consumers(fact, name)


_STEPS: Mapping[str, _Step] = {"upstream": _producers, "downstream": _consumers}
