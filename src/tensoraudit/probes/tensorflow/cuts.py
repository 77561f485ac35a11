"""Where a gradient is held back in a traced graph: stop_gradient, integers, operators without a derivative.

Looks at the frozen graph only: whether a source reaches an output at all, and which operators lie on its ways there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

UNUSED = "the model does not use it"
UNREACHED = "no output depends on it"
UNKNOWN = "the reason could not be told"
NO_GRADIENT = "it is connected, but an operator or a custom gradient on the way gives none"

_STOPS = {"StopGradient": "held back by tf.stop_gradient", "PreventGradient": "held back by tf.raw_ops.PreventGradient"}
_EXACT = frozenset(
    (
        *("ArgMax", "ArgMin", "Round", "Rint", "Floor", "Ceil", "Bucketize", "SearchSorted", "LowerBound"),
        *("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "Shape", "Where", "Unique"),
        *("NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5", "CombinedNonMaxSuppression"),
    )
)
_OUTSIDE = frozenset(("PyFunc", "EagerPyFunc", "PyFuncStateless"))


class Ways:
    """The nodes of a GraphDef, and who reads whom."""

    def __init__(self, graph: Any, outputs: Iterable[str]) -> None:
        self._nodes = {node.name: node for node in graph.node}
        self._functions = {each.signature.name: each for each in graph.library.function}
        inputs = {name: _inputs(node) for name, node in self._nodes.items()}
        self._readers: dict[str, list[str]] = {}
        for name, read in inputs.items():
            for each in read:
                self._readers.setdefault(each, []).append(name)
        self._above = _reach([_node(name) for name in outputs], inputs)

    def reason(self, source: str) -> str:
        """Why a source, the node of an input or a variable, has no gradient."""
        if source not in self._nodes:
            return UNUSED
        if source not in self._above:
            return UNREACHED if self._readers.get(source) else UNUSED
        return self.cuts(source) or NO_GRADIENT

    def cuts(self, source: str) -> str:
        """The operators between a source and the outputs that hold gradients back, in words; "" for none."""
        between = _reach([source], self._readers) & self._above
        found = [text for name in self._nodes if name in between and (text := self._cut(self._nodes[name]))]
        return "; ".join(list(dict.fromkeys(found))[:3])

    def _cut(self, node: Any, seen: frozenset[str] = frozenset()) -> str:
        text = _described(node)
        for name in () if text else _called(node):
            if name in self._functions and name not in seen:
                inner = (self._cut(each, seen | {name}) for each in self._functions[name].node_def)
                if found := next(filter(None, inner), ""):
                    return f"{found}, inside {node.name}"
        return text


def _described(node: Any) -> str:
    if node.op in _STOPS:
        return f"{_STOPS[node.op]} ({node.name})"
    if node.op in _OUTSIDE:
        return f"it leaves TensorFlow ({node.name} runs Python)"
    exact = node.op == "Cast" and tf.as_dtype(node.attr["DstT"].type).is_integer
    if node.op in _EXACT or exact:
        return f"{node.op} has no derivative ({node.name})"
    return ""


def _called(node: Any) -> list[str]:
    found = [value.func.name for value in node.attr.values() if value.WhichOneof("value") == "func"]
    lists = [value.list.func for value in node.attr.values() if value.WhichOneof("value") == "list"]
    return [*found, *(each.name for functions in lists for each in functions)]


def _inputs(node: Any) -> list[str]:
    """The nodes whose values a node reads; one that it only waits for begins with ^."""
    return [_node(name) for name in node.input if not name.startswith("^")]


def _node(name: str) -> str:
    return name.partition(":")[0]


def _reach(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    found, waiting = set(start), list(start)
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found
