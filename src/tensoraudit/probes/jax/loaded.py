"""A loaded model: a pure function of its parameters and inputs, whatever kind of object the user made it as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

import jax

from tensoraudit.probes.calls import Signature
from tensoraudit.probes.jax.tensors import is_array, is_key

Spec = Mapping[str, Any]
"""The self-contained description of a model that every job gets (see `loading`)."""

Kind = Literal["function", "linen", "nnx", "exported", "torchax", "keras"]

PARAMETERS = "params"
"""The collection of trained weights, as Flax calls it."""


@dataclass(frozen=True)
class Loaded:
    """A model as it was handed over.

    `apply(parameters, *args, **kwargs)` computes it in evaluation mode and has no effects; `as_made` does the same in
    the mode that the user left it in (`training`), which is what an export sees. `collections` holds the leaves of
    `parameters` by name, in groups: `params`, and others such as `batch_stats`. `changes` runs once and names what the
    model changed in itself. `exported` is the `jax.export.Exported` of a serialized file.
    """

    kind: Kind
    name: str
    apply: Callable[..., Any]
    parameters: Any
    signature: Signature
    collections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    as_made: Callable[..., Any] | None = None
    training: bool = False
    changes: Callable[..., list[str]] | None = None
    classes: tuple[type, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()
    made: Any = None
    home: ModuleType | None = None
    factory: Any = None
    exported: Any = None

    @property
    def weight_bytes(self) -> int:
        """The size of all parameters."""
        return sum(int(leaf.nbytes) for leaf in jax.tree_util.tree_leaves(self.parameters) if is_plain(leaf))


def is_plain(leaf: Any) -> bool:
    """Whether a leaf of the parameters is an array of numbers, not a random key or Python's own value."""
    return is_array(leaf) and not is_key(leaf)
