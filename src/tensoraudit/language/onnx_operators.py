"""ONNX's own operators, so that a rule about one that does not exist is refused. Imports no onnx.

The table (onnx_operators.json: domain to operator to first opset, opset that deprecates it, attributes of every
version) was written from the schemas of onnx 1.23, opset 28; a test compares it with the package where it is installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

NEWEST_OPSET: Final = 28
"""The opset of the default domain in onnx 1.23."""


@cache
def operators(domain: str) -> Mapping[str, tuple[int, int | None, frozenset[str]]] | None:
    """Return the operators of a domain: first opset, opset that deprecates it, attributes. None for other domains."""
    rows = _table().get(domain)
    return (
        None
        if rows is None
        else {name: (since, until, frozenset(names)) for name, (since, until, names) in rows.items()}
    )


@cache
def _table() -> dict[str, dict[str, tuple[int, int | None, list[str]]]]:
    text = (files("tensoraudit.language") / "onnx_operators.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, tuple[int, int | None, list[str]]]] = json.loads(text)
    return table
