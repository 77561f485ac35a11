"""The operators of a model as a worker tells them: what the jobs `<framework>.operators` return.

    {"format", "nodes": [{"op", "domain", "name", "inputs", "outputs", "attributes", "graph", "source"}],
     "values": [{"name", "dtype", "shape", "role", "graph", "constant"?}], "control_flow": [operators]}

Names and graphs are those of the facts (`main`, `main/scan_3.jaxpr`). A dimension is a number, a text, or None for any
size; a shape or dtype that is not known is None. What is no plain data stands as {"unknown": reason}. `extract`
makes facts of it. Runs on Python 3.9 and knows no framework.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import JobUnsupported

MAX_NODES = 50_000
"""With their values about 40 MB of JSON; one message may have 64."""
MAX_CONSTANT = 64
"""Elements up to which a value is told."""
_MAX_TEXT = 2_000
_MAX_ITEMS = 1_000
_MAX_DEPTH = 8


@dataclass(frozen=True)
class Operation:
    """What a node is, and where it stands."""

    op: str
    domain: str
    name: str
    graph: str


class Listing:
    """Collects nodes and values. Raises JobUnsupported for a graph of more than 50,000 nodes."""

    def __init__(self, form: str, control_flow: Collection[str]) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []
        self._form, self._control = form, frozenset(control_flow)

    def node(
        self,
        operation: Operation,
        inputs: Iterable[str],
        outputs: Iterable[str],
        attributes: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> None:
        """Add a node. `attributes` are made plain here."""
        if len(self.nodes) >= MAX_NODES:
            raise JobUnsupported(f"the graph has more than {MAX_NODES:,} operators")
        self.nodes.append(
            {
                "op": operation.op,
                "domain": operation.domain,
                "name": operation.name,
                "graph": operation.graph,
                "inputs": list(inputs),
                "outputs": list(outputs),
                "attributes": {str(key): plain(value) for key, value in attributes.items()},
                "source": None if source is None else {"path": source["path"], "line": source["line"]},
            }
        )

    def value(self, name: str, role: str, graph: str, dtype: str | None, shape: Sequence[Any] | None) -> dict[str, Any]:
        """Add a value, and return its row for what else is known of it."""
        dims = None if shape is None else [each if isinstance(each, (int, str)) else None for each in shape]
        row = {"name": name, "dtype": dtype, "shape": dims, "role": role, "graph": graph}
        self.values.append(row)
        return row

    def result(self) -> dict[str, Any]:
        """Return what the job returns."""
        found = Counter(node["op"] for node in self.nodes if node["op"] in self._control)
        return {"format": self._form, "nodes": self.nodes, "values": self.values, "control_flow": sorted(found)}


def constant(array: Any) -> Any:
    """Return an array's value as numbers or nested lists; what is large or no number as {"unknown": reason}."""
    found = np.asarray(array)
    if found.size > MAX_CONSTANT:
        return {"unknown": f"a constant of {found.size:,} elements"}
    if found.dtype.kind not in "biuf":
        return plain(found.tolist())
    return found.tolist() if found.dtype.itemsize == 8 or found.dtype.kind != "f" else _shortest(found)


def _shortest(array: np.ndarray[Any, Any]) -> Any:
    """Floats as the shortest decimals of their own type."""
    return float(str(array[()])) if array.ndim == 0 else [_shortest(each) for each in array]


def plain(value: Any, depth: int = 0) -> Any:
    """Return a parameter as plain JSON; what cannot be one as {"unknown": its type}."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else {"unknown": f"a text of {len(value):,} characters"}
    if isinstance(value, (np.generic, np.ndarray)):
        return constant(value)
    if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        if len(value) > _MAX_ITEMS:
            return {"unknown": f"a list of {len(value):,} values"}
        return [plain(each, depth + 1) for each in value]
    if isinstance(value, dict) and set(value) == {"unknown"}:
        return value
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    return {"unknown": f"a {type(value).__name__}"}
