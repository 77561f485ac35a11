"""A model as a frozen graph whose every value can be fetched, many of them in one run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.tensorflow.double import widened
from tensoraudit.probes.tensorflow.doubled_graph import widen
from tensoraudit.probes.tensorflow.frozen_graph import freeze, function_of
from tensoraudit.probes.tensorflow.layer_recorder import Places, places_of
from tensoraudit.probes.tensorflow.model import Model

UNKNOWN = 1 << 20
"""Bytes to count for a value whose shape the graph does not tell."""
NUMBERS = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
)


class TracedGraph:
    """The graph of one model for inputs like `leaves`, its places, and the operators in the order of the graph.

    `inputs` maps the name of an input to its tensor, `outputs` that of an output to its tensor. A wide graph holds
    every narrow float as float64. Raises whatever TensorFlow says of an operator that cannot compute in it.
    """

    places: Places

    def __init__(self, model: Model, leaves: Mapping[str, Any], *, wide: bool = False) -> None:
        arrays = arrays_of(leaves)
        rest = {name: leaf for name, leaf in leaves.items() if name not in arrays}
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays.values()]
        names = list(arrays)
        function, self.places = places_of(
            model, lambda: tf.function(function_of(model, names, rest)).get_concrete_function(*specs)
        )
        self.inputs = {name: each.name for name, each in zip(names, function.inputs)}  # noqa: B905 - Python 3.9
        self.outputs = {name: each.name for name, each in function.structured_outputs.items()}
        graph = freeze(function)
        self._wide = wide
        if wide:
            widen(graph)
        self._wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])

    @property
    def operators(self) -> list[Any]:
        """The operators, each after those that it reads."""
        return list(self._wrapped.graph.get_operations())

    def fetch(self, leaves: Mapping[str, Any], names: Sequence[str], budget: int) -> Iterator[tuple[str, Any]]:
        """Yield each named tensor with its array, in order. A run fetches at most `budget` bytes, or one tensor."""
        arrays = arrays_of(leaves)
        fed = [tf.constant(widened(arrays[name]) if self._wide else arrays[name]) for name in self.inputs]
        for chunk in self._chunks(names, budget):
            pruned = self._wrapped.prune(list(self.inputs.values()), {name: name for name in chunk})
            found = pruned(*fed)
            for name in chunk:
                yield name, found.pop(name).numpy()

    def _chunks(self, names: Sequence[str], budget: int) -> Iterator[list[str]]:
        chunk: list[str] = []
        size = 0
        for name in names:
            more = _bytes(self._wrapped.graph.get_tensor_by_name(name))
            if chunk and size + more > budget:
                yield chunk
                chunk, size = [], 0
            chunk.append(name)
            size += more
        if chunk:
            yield chunk


def arrays_of(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves that are tensors; the rest is fixed when the graph is made."""
    return {name: leaf for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)}


def _bytes(tensor: Any) -> int:
    shape = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    return UNKNOWN if None in shape else int(math.prod(shape) * tensor.dtype.size)


def is_number(tensor: Any) -> bool:
    """Whether a value of the graph can be carried: no text, no list of tensors, no resource."""
    return tensor.dtype.name in NUMBERS
