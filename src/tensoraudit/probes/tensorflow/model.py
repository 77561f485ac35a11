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


def narrowed(leaf: Any, spec: Spec | None) -> Any:
    """Return integers in the integer type that an input declares, if they fit.

    What narrows the inputs of a model on its way (JAX does) is said of the conversion, and the program that calls the
    model has to pass that type too.
    """
    wanted = tf.as_dtype(spec.dtype) if spec else None
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "iu" or wanted is None or not wanted.is_integer:
        return leaf
    narrow = leaf.astype(wanted.as_numpy_dtype)
    return narrow if np.array_equal(narrow, leaf) else leaf


def name_outputs(value: Any) -> dict[str, Any]:
    """Return the tensors of a result by name, in order.

    Raises JobFailed when there is none, and for one that no other runtime has: to leave it out would look as if all of
    the model had been compared.
    """
    pairs = (
        (pair for key, inner in value.items() for pair in flatten(inner, str(key)))
        if isinstance(value, Mapping)
        else flatten(value, ROOT)
    )
    found = {name: _plain(name, leaf) for name, leaf in pairs if tf.is_tensor(leaf)}
    if not found:
        raise JobFailed(
            f"the model returns a {type(value).__name__} without any tensor, so there is nothing to compare",
            remedy="Return tensors, alone or in tuples, lists or dicts.",
        )
    return found


def _plain(name: str, tensor: Any) -> Any:
    kind = next((words for base, words in COMPOSITE.items() if isinstance(tensor, base)), None)
    if kind is None and isinstance(tensor, tf.__internal__.CompositeTensor):
        kind = f"a {type(tensor).__name__}", "plain tensors"
    if kind is None and (words := NO_NUMBERS.get(tf.as_dtype(tensor.dtype).name)):
        kind = words, "numbers"
    if kind is None:
        return tensor
    raise JobFailed(
        f"output {name} is {kind[0]}, which cannot be carried to another runtime as it is",
        remedy=f"Audit a function around the model that returns {kind[1]} in its place, or one without this output.",
    )


COMPOSITE = {
    tf.RaggedTensor: ("a ragged tensor", "a dense one (to_tensor)"),
    tf.SparseTensor: ("a sparse tensor", "a dense one (tf.sparse.to_dense)"),
    tf.IndexedSlices: ("a list of slices", "a dense one (tf.convert_to_tensor)"),
}
"""What a result may hold instead of tensors, in words, and what to return in its place."""
NO_NUMBERS = {
    "string": "text",
    "resource": "a handle of a variable or table",
    "variant": "a list or another value of TensorFlow's own",
}
"""Dtypes that no other runtime has."""


def specs_of(tensors: Sequence[tuple[str, Any]]) -> dict[str, Spec]:
    """Return the specs of named tensors, KerasTensors or TensorSpecs. Raises JobFailed for what is no plain tensor."""
    found = {}
    for name, tensor in tensors:
        dtype = tensor.dtype if isinstance(tensor.dtype, str) else tf.as_dtype(tensor.dtype).name
        if dtype in NO_NUMBERS:
            raise JobFailed(
                f"input {name} takes {NO_NUMBERS[dtype]}, which cannot be carried to another runtime as it is",
                remedy="Audit the part behind the tokeniser: a model whose inputs are numbers."
                if dtype == "string"
                else "Audit a function around the model whose inputs are numbers.",
            )
        _plain_input(name, tensor)
        shape = tf.TensorShape(tensor.shape)
        found[name] = Spec(dtype, None if shape.rank is None else tuple(shape.as_list()))
    return found


def _plain_input(name: str, tensor: Any) -> None:
    kinds = {tf.RaggedTensorSpec: "ragged", tf.SparseTensorSpec: "sparse"}
    kind = next((word for base, word in kinds.items() if isinstance(tensor, base)), None)
    kind = kind or (
        "sparse" if getattr(tensor, "sparse", False) else "ragged" if getattr(tensor, "ragged", 0) else None
    )
    if kind is not None:
        raise JobFailed(
            f"input {name} is a {kind} tensor, which cannot be carried to another runtime as it is",
            remedy="Audit a function around the model that takes a dense tensor and makes it from that.",
        )


def require_names(known: Sequence[str], leaves: Leaves) -> None:
    """Raise JobFailed unless the leaves are the declared inputs of a model, whose names may have dots."""
    extra, missing = [name for name in leaves if name not in known], [name for name in known if name not in leaves]
    parts = [f"it has no argument {', '.join(extra)}"] if extra else []
    parts += [f"the inputs lack {', '.join(missing)}"] if missing else []
    if parts:
        raise JobFailed(
            f"the inputs do not fit the model: {' and '.join(parts)}",
            remedy=f"Name the inputs as the model does: {', '.join(known) or 'it takes none'}.",
        )
