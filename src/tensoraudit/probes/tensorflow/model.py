"""A model as the jobs see it, whatever it was made with: names in, names out.

Inputs and outputs are flat mappings of names. An input that the model describes has a `Spec`; a dict of outputs keeps
its keys as names (a SavedModel's signature has names of its own), anything else hangs below `output`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.calls import Signature, flatten
from tensoraudit.probes.protocol import JobFailed

ROOT = "output"
Leaves = Mapping[str, Any]


@dataclass(frozen=True)
class Spec:
    """What a model says of one input. `shape` has None for a dimension that may vary, and is None without a rank."""

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Model:
    """One loaded model.

    `call` takes flat leaves (tensors) and returns what the model returns. `specs` are the inputs that it declares, by
    name in the order of the call; empty when only its code knows. `owner` is the object behind it, a Keras model or a
    module. `rebuild` makes it again, under whatever settings hold then. `notes` are sentences for the report.
    """

    call: Callable[[Leaves], Any]
    owner: Any
    signature: Signature
    specs: Mapping[str, Spec] = field(default_factory=dict)
    is_keras: bool = False
    rebuild: Callable[[], Model] | None = None
    home: Any = None
    factory: Any = None
    notes: tuple[str, ...] = ()

    @property
    def variables(self) -> list[Any]:
        """Everything that the model keeps: weights, statistics, counters, states of generators."""
        found = {id(each): each for each in getattr(self.owner, "variables", None) or ()}
        return list(found.values())

    def run(self, leaves: Leaves) -> dict[str, Any]:
        """Call the model once; arrays become tensors, as its inputs' dtypes. Raises whatever the model raises."""
        return name_outputs(self.call({name: as_tensor(leaf) for name, leaf in leaves.items()}))


def as_tensor(leaf: Any) -> Any:
    """Return an array as a tensor, anything else as it is."""
    return tf.constant(leaf) if isinstance(leaf, np.ndarray) else leaf


def name_outputs(value: Any) -> dict[str, Any]:
    """Return the tensors of a result by name, in order. Raises JobFailed when there is none."""
    pairs = (
        (pair for key, inner in value.items() for pair in flatten(inner, str(key)))
        if isinstance(value, Mapping)
        else flatten(value, ROOT)
    )
    found = {name: leaf for name, leaf in pairs if tf.is_tensor(leaf)}
    if not found:
        raise JobFailed(
            f"the model returns a {type(value).__name__} without any tensor, so there is nothing to compare",
            remedy="Return tensors, alone or in tuples, lists or dicts.",
        )
    return found


def specs_of(tensors: Sequence[tuple[str, Any]]) -> dict[str, Spec]:
    """Return the specs of named tensors, KerasTensors or TensorSpecs. Raises JobFailed for what is no plain tensor."""
    found = {}
    for name, tensor in tensors:
        dtype = tensor.dtype if isinstance(tensor.dtype, str) else tf.as_dtype(tensor.dtype).name
        if dtype == "string":
            raise JobFailed(
                f"input {name} takes text, which cannot be carried to another runtime as it is",
                remedy="Audit the part behind the tokeniser: a model whose inputs are numbers.",
            )
        shape = tf.TensorShape(tensor.shape)
        found[name] = Spec(dtype, None if shape.rank is None else tuple(shape.as_list()))
    return found
