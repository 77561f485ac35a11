"""Facts read from a model's graph, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tensoraudit.facts.site import NOWHERE, Side, Site
from tensoraudit.facts.unknown import Unknown

Dim = int | str | Unknown
"""A fixed size, a symbolic name, or not known."""


@dataclass(frozen=True, slots=True)
class Value:
    """An edge of a graph. `dtype` is the lower-case common name (`float32`, `bfloat16`, `int64`, `bool`, `string`).
    `constant` holds the value (a scalar or nested tuple) of initializers and constants of at most 64 elements, ABSENT
    when the value is no constant, `Unknown` when it is one but too large or stored elsewhere. `at` names the file."""

    name: str
    dtype: str | Unknown
    shape: tuple[Dim, ...] | Unknown
    constant: Any
    role: Literal["input", "output", "initializer", "intermediate"]
    graph: str
    side: Side
    at: Site = NOWHERE


@dataclass(frozen=True, slots=True)
class Node:
    """An operator. `op` is the framework's own name (`Conv`, `aten::conv2d`, `aten.conv2d.default`). `graph` is "main",
    "main/If_3.then_branch" for a subgraph or "fn:domain.name" for a function. `domain` is "" for the standard ONNX
    operators, "aten", "prim" for TorchScript and ExportedProgram. Empty input names mark omitted optional inputs.

    `at` is the place to show: the user's own source line where the model remembers it. `file` is then the model file,
    which holds the graph together; None where `at` names it."""

    op: str
    domain: str
    opset: int | None
    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    graph: str
    at: Site
    side: Side
    overload: str = ""
    metadata: Mapping[str, str] | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A whole model file. `opsets` maps domain to version; `version` is the format's own version (ONNX IR version)."""

    format: str
    producer: str
    version: int | None
    opsets: Mapping[str, int]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    metadata: Mapping[str, Any]
    at: Site
    side: Side
