"""The object graph of an object-based TensorFlow checkpoint: which variable hangs where, and what optimisers keep.

Field numbers are those of trackable_object_graph.proto (TensorFlow 2.21). A variable's key is its shortest path from
the root, so that a layer's kernel may stand under `optimizer/_trainable_variables/0`: whose it is says the graph alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tensoraudit.artifacts.protobuf import BYTES, VARINT, Buffer, fields, text
from tensoraudit.errors import InputError

OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MOST_PIECES: Final = 2_000_000
"""Nodes, edges, attributes and slots together."""
_LISTED: Final = "_trainable_variables"
_MOST_FIELDS: Final = 16
_MOST_DEPTH: Final = 100
_PLACE: Final = re.compile(r"[0-9]{1,9}$")


@dataclass(slots=True)
class Node:
    """An object: its `children` by name (node numbers), its `attributes` as (name, full name, key), its `slots` as
    (number of the variable, name of the slot, number of the slot's variable)."""

    children: dict[str, int] = field(default_factory=dict)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    slots: list[tuple[int, str, int]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The checkpoint key of its value, "" for what is no variable."""
        return next((key for name, _, key in self.attributes if name == "VARIABLE_VALUE"), "")

    @property
    def full_name(self) -> str:
        """The variable's own name, as TensorFlow or Keras gave it."""
        return next((full for name, full, _ in self.attributes if name == "VARIABLE_VALUE"), "")


@dataclass(frozen=True, slots=True)
class KeptState:
    """What an optimiser keeps: for each `field` the keys of its variables, in the order of `parameters` ("" where a
    parameter has none). `parameters` are keys. `keyed` as in OptimizerState. `scalars` maps names to keys."""

    path: str
    keyed: str
    parameters: tuple[str, ...]
    fields: dict[str, tuple[str, ...]]
    scalars: dict[str, str]


def read_graph(data: Buffer, where: str) -> list[Node]:
    """Return the nodes of a TrackableObjectGraph. Raises InputError beyond two million pieces, WireError for damage."""
    nodes: list[Node] = []
    pieces = 0
    for number, wire, start, end in fields(data, 0, len(data)):
        if (number, wire) != (1, BYTES):
            continue
        node = Node()
        for inner, kind, at, stop in fields(data, start, end):
            if kind == BYTES and inner in _PIECES:
                _PIECES[inner](node, data, at, stop)
            pieces += 1
        nodes.append(node)
        pieces += 1
        if pieces > _MOST_PIECES:
            raise _too_many(where)
    return nodes


def _child(node: Node, data: Buffer, start: int, end: int) -> None:
    numbers, texts = _plain(data, start, end)
    node.children[texts.get(2, "")] = numbers.get(1, 0)


def _attribute(node: Node, data: Buffer, start: int, end: int) -> None:
    _, texts = _plain(data, start, end)
    node.attributes.append((texts.get(1, ""), texts.get(2, ""), texts.get(3, "")))


def _slot(node: Node, data: Buffer, start: int, end: int) -> None:
    numbers, texts = _plain(data, start, end)
    node.slots.append((numbers.get(1, 0), texts.get(2, ""), numbers.get(3, 0)))


_PIECES: Final = {1: _child, 2: _attribute, 3: _slot}


def _plain(data: Buffer, start: int, end: int) -> tuple[dict[int, int], dict[int, str]]:
    """The numbers and the texts of a flat message, by field number."""
    numbers: dict[int, int] = {}
    texts: dict[int, str] = {}
    for number, wire, at, stop in fields(data, start, end):
        if wire == VARINT:
            numbers[number] = at
        elif wire == BYTES:
            texts[number] = text(data, at, stop)
    return numbers, texts


def full_names(nodes: list[Node]) -> dict[str, str]:
    """Return the variables' own names by their keys."""
    return {key: full for node in nodes for _, full, key in node.attributes if full}


def kept_states(nodes: list[Node], where: str) -> Iterator[KeptState]:
    """Yield what each optimiser of the graph keeps. Raises InputError beyond two million variables of theirs."""
    graph = _Graph(nodes, where)
    parents = _parents(nodes)
    for number, node in enumerate(nodes):
        if number not in parents:
            continue
        if node.slots:
            yield _slotted(graph, node, _path(parents, number))
        elif _LISTED in node.children or ("_variables" in node.children and "_iterations" in node.children):
            yield _listed(graph, node, _path(parents, number))


@dataclass(slots=True)
class _Graph:
    """Nodes, and how many variables of optimisers may still be listed: many may share one long list."""

    nodes: list[Node]
    where: str
    left: int = _MOST_PIECES

    def key(self, number: int) -> str:
        self.left -= 1
        if self.left < 0:
            raise _too_many(self.where)
        return self.nodes[number].key if number < len(self.nodes) else ""

    def children(self, number: int) -> dict[str, int]:
        return self.nodes[number].children if number < len(self.nodes) else {}


def _too_many(where: str) -> InputError:
    message = f"has an object graph of more than {_MOST_PIECES:,} pieces"
    return InputError(message, where=where, remedy="Save fewer objects, or the weights alone.")


def _parents(nodes: list[Node]) -> dict[int, tuple[int, str]]:
    """The node above each, on its shortest path from the root, and the name of the edge between them."""
    found = {0: (-1, "")} if nodes else {}
    waiting = list(found)
    for number in waiting:
        for name, child in nodes[number].children.items():
            if child not in found and child < len(nodes):
                found[child] = (number, name)
                waiting.append(child)
    return found


def _path(parents: dict[int, tuple[int, str]], number: int) -> str:
    """The names on the way to a node, joined by slashes; "" where it is deeper than any program's objects are."""
    names: list[str] = []
    while number > 0 and len(names) < _MOST_DEPTH:
        number, name = parents[number]
        names.append(name)
    return "/".join(reversed(names)) if number <= 0 else ""


def _slotted(graph: _Graph, node: Node, path: str) -> KeptState:
    """An optimiser whose state is in slots (TensorFlow's own, and Keras 2's first)."""
    names = sorted({name for _, name, _ in node.slots})[:_MOST_FIELDS]
    parameters = list(dict.fromkeys(graph.key(variable) for variable, _, _ in node.slots))
    places = {key: place for place, key in enumerate(parameters)}
    keys = {name: [""] * len(parameters) for name in names}
    for variable, name, slot in node.slots:
        if name in keys:
            keys[name][places[graph.key(variable)]] = graph.key(slot)
    filled = {name: tuple(each) for name, each in keys.items()}
    return KeptState(path, "name", tuple(parameters), filled, _scalars(graph, node))


def _listed(graph: _Graph, node: Node, path: str) -> KeptState:
    """An optimiser of Keras 3 (and of Keras 2.11 and later): lists of variables in the order of the parameters."""
    lists = {name: _keys_of_list(graph, child) for name, child in node.children.items() if name != "_variables"}
    parameters = lists.pop(_LISTED, ())
    kept = {name.strip("_"): keys for name, keys in lists.items() if keys}
    return KeptState(path, "position", parameters, kept, _scalars(graph, node))


def _keys_of_list(graph: _Graph, number: int) -> tuple[str, ...]:
    """The keys of the variables in a list, whose children are named 0, 1, ...; () for what is none."""
    children = graph.children(number).items()
    places = sorted((int(name), child) for name, child in children if _PLACE.match(name))
    return tuple(graph.key(child) for _, child in places)


def _scalars(graph: _Graph, node: Node) -> dict[str, str]:
    """The optimiser's own variables: hyperparameters and the count of steps."""
    named = {name.strip("_"): graph.key(child) for name, child in node.children.items()}
    return {name: key for name, key in named.items() if key}
