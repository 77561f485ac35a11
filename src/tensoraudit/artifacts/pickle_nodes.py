"""What a pickle builds, as data: a node for each container, call, global and persistent id; constants are themselves.

Nodes are shared where the pickle shares them and may form cycles: whoever walks them must bound the walk. Knows nothing
of opcodes, nor of tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(slots=True, eq=False)
class Global:
    """Something that the pickle wants to import. `name` is dotted, "?" where the pickle computes it."""

    name: str


@dataclass(slots=True, eq=False)
class Items:
    """A tuple, list or set."""

    kind: str
    values: list[Any]


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict, with the pairs in the order in which they are set."""

    pairs: list[tuple[Any, Any]]


NOTHING: Final[list[Any]] = []
"""What most calls have of pairs and values: one list for all of them, replaced before anything is added."""


@dataclass(slots=True, eq=False)
class Call:
    """What calling `callee` would give, with the state, pairs and values that are put into it afterwards."""

    callee: Any
    arguments: list[Any]
    state: Any = None
    pairs: list[tuple[Any, Any]] = field(default_factory=lambda: NOTHING)
    values: list[Any] = field(default_factory=lambda: NOTHING)


@dataclass(slots=True, eq=False)
class Persistent:
    """An object that lives outside the pickle (a storage, for torch)."""

    id: Any


@dataclass(slots=True)
class Wishes:
    """What a pickle wants from outside: globals (dotted, in order; a dict for its order) and persistent objects."""

    globals: dict[str, None] = field(default_factory=dict)
    persistent: list[Persistent] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Opaque:
    """Anything else."""

    what: str
