"""Facts from what a worker lists of a model (`probes.listing`): the same Model, Node and Value as from a file.

A listing comes from another process, perhaps of another version: what does not fit is left out, never believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tensoraudit.extract.user_source import shortener
from tensoraudit.facts import ABSENT, Dim, Fact, Model, Node, Side, Site, Unknown, Value

_NOT_TOLD: Final = Unknown("the worker does not tell")
_ANY_SIZE: Final = Unknown("any size")
_ROLES: Final = frozenset(("input", "output", "initializer", "intermediate"))


def facts_from_listing(
    listing: Mapping[str, Any], side: Side, *, name: str = "model", root: Path | None = None
) -> list[Fact]:
    """Return the facts of a listing: Model first.

    `name` stands for the file, which there is none of. Paths of the user's source are relative to `root` where they lie
    inside it.
    """
    relative = shortener(root)
    values = [_value(row, side, name) for row in _rows(listing, "values")]
    nodes = [_node(row, side, name, relative) for row in _rows(listing, "nodes")]
    main = [value for value in values if value.graph == "main"]
    inputs = tuple(value for value in main if value.role == "input")
    outputs = tuple(value for value in main if value.role == "output")
    metadata = {"control_flow": list(listing.get("control_flow", ())), "reason": str(listing.get("reason", ""))}
    site = Site(path=name)
    model = Model(str(listing.get("format", "")), "", None, {}, inputs, outputs, metadata, site, side)
    return [model, *values, *nodes]


def _rows(listing: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    found = listing.get(key)
    return (row for row in (found if isinstance(found, list) else ()) if isinstance(row, Mapping))


def _node(row: Mapping[str, Any], side: Side, name: str, relative: Callable[[str], str]) -> Node:
    op, domain, label = (str(row.get(key, "")) for key in ("op", "domain", "name"))
    parts = op.split(".")
    attributes = row.get("attributes")
    return Node(
        op, domain, None, label,
        {str(key): data(value) for key, value in attributes.items()} if isinstance(attributes, Mapping) else {},
        _texts(row.get("inputs")), _texts(row.get("outputs")), str(row.get("graph", "main")),
        _site(row.get("source"), label, name, relative), side,
        parts[2] if domain == parts[0] and len(parts) == 3 else "", None, name,
    )  # fmt: skip


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _site(source: Any, label: str, name: str, relative: Callable[[str], str]) -> Site:
    if isinstance(source, Mapping) and isinstance(source.get("path"), str) and type(source.get("line")) is int:
        return Site(path=relative(source["path"]), line=source["line"], node=label)
    return Site(path=name, node=label)


def _value(row: Mapping[str, Any], side: Side, name: str) -> Value:
    dtype, shape, role = row.get("dtype"), row.get("shape"), row.get("role")
    known: Any = role if role in _ROLES else "intermediate"
    constant = data(row["constant"]) if "constant" in row else ABSENT
    if known == "initializer" and constant is ABSENT:
        constant = _NOT_TOLD
    return Value(
        str(row.get("name", "")), dtype if isinstance(dtype, str) else _NOT_TOLD,
        tuple(map(_dim, shape)) if isinstance(shape, list) else _NOT_TOLD, constant, known,
        str(row.get("graph", "main")), side, Site(path=name),
    )  # fmt: skip


def _dim(size: Any) -> Dim:
    return size if type(size) is int or isinstance(size, str) else _ANY_SIZE


def data(value: Any) -> Any:
    """Return plain data as facts hold it: lists as tuples, {"unknown": reason} as `Unknown`."""
    if isinstance(value, list):
        return tuple(map(data, value))
    if isinstance(value, Mapping):
        return Unknown(str(value["unknown"])) if set(value) == {"unknown"} else {k: data(v) for k, v in value.items()}
    return value
