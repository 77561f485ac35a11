"""Pair the arrays of a sample with the inputs of a model: by name, then by position when that leaves no choice.

Works on names and references only; it must not know arrays or sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensoraudit.probes.onnxruntime.tensors import MismatchError, element_of
from tensoraudit.probes.protocol import JobUnsupported

_PARTS = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the two parts of a complex number."""


class Pairing(NamedTuple):
    """Which argument feeds which input, which arrays the model does not take, and which scalars it has built in.

    `by_position` names the inputs that were paired without a common name.
    """

    arguments: dict[str, str]
    by_position: list[str]
    unused: list[str]
    built_in: list[str]


def pair(inputs: Sequence[str], sample: dict[str, Any]) -> Pairing:
    """Pair input names with the arguments of a sample.

    Raises MismatchError when an input gets nothing or the choice is open.

    An argument given as None is absent. A Python scalar that is no input was written into the graph as a constant.
    """
    given = {name: value for name, value in sample.items() if not _is_none(value)}
    arguments = {name: name for name in inputs if name in given}
    open_inputs = [name for name in inputs if name not in arguments]
    left = [name for name in given if name not in arguments]
    arrays = [name for name in left if "file" in given[name]]
    candidates = arrays if len(arrays) == len(open_inputs) else left
    if not open_inputs:
        candidates = []
    elif len(candidates) != len(open_inputs):
        raise MismatchError(
            f"the model's inputs {_names(open_inputs)} are not in the sample, "
            f"which has {_names(list(given))}; name the arrays after the model's inputs"
        )
    for index, name in enumerate(open_inputs):
        arguments[name] = candidates[index]
    rest = [name for name in left if name not in candidates]
    return Pairing(
        {name: arguments[name] for name in inputs},
        open_inputs,
        [name for name in rest if name in arrays],
        [name for name in rest if name not in arrays],
    )


def real_view(name: str, given: dict[str, Any], wanted: str, shape: Sequence[Any]) -> dict[str, Any]:
    """Return the reference to what feeds an input of the type `wanted`: of a complex array its pairs of real numbers.

    Exporters write a complex input as a real one with a further last axis of 2, and the bytes in the file are the same.
    Raises JobUnsupported where the input is no such one: nothing of the model can be told then.
    """
    part = _PARTS.get(str(given.get("dtype")))
    if part is None:
        return given
    own = list(given["shape"])
    if element_of(wanted) == part and len(shape) == len(own) + 1 and shape[-1] == 2:
        return {**given, "dtype": part, "shape": [*own, 2]}
    raise JobUnsupported(
        f"input {name!r} is {given['dtype']} of shape {own} in the sample, but the model takes {wanted} of shape "
        f"{list(shape)}: a complex array can be fed only as {part} with a further last axis of 2"
    )


def real_view_notes(before: Mapping[str, Any], fed: Mapping[str, Any]) -> dict[str, Any]:
    """Return which inputs got a complex array as pairs of real numbers."""
    seen = [name for name, reference in fed.items() if reference is not before[name]]
    return {"real_views": seen} if seen else {}


def pairing_notes(pairing: Pairing) -> dict[str, Any]:
    """Return what a reader must know about a pairing: inputs by position, arrays that the model does not take."""
    notes = {
        "paired_by_position": {name: pairing.arguments[name] for name in pairing.by_position},
        "unused_inputs": pairing.unused,
        "constant_inputs": pairing.built_in,
    }
    return {key: value for key, value in notes.items() if value}


def _is_none(value: Any) -> bool:
    return isinstance(value, dict) and "file" not in value and value.get("value") is None


def _names(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"
