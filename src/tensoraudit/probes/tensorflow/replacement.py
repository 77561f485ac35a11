"""Put other weights into a loaded model: the key `weights` of a model spec, {"weights": {name: reference}}."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import JobFailed, Session
from tensoraudit.probes.tensorflow.model import Model


def with_weights(model: Model, weights: Mapping[str, Any], session: Session) -> Model:
    """Return the model with the named variables replaced, and the way to make it again.

    Raises JobFailed for a name that the model lacks, another shape, or a model that is no fresh one.
    """
    if model.factory is not None and model.factory is model.owner:
        raise JobFailed(
            "weights would be put into the very object that the file holds",
            remedy="Write a function that builds the model, and name that function.",
        )
    arrays = {name: np.array(session.get(dict(reference))) for name, reference in weights.items()}
    _replace(model, arrays)
    if model.rebuild is None:
        return model
    rebuild = model.rebuild

    def again() -> Model:
        twin = rebuild()
        _replace(twin, arrays)
        return twin

    return replace(model, rebuild=again)


def _renumbered(arrays: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """The arrays under the names of a model that was made once more: Keras counts on, `dense_1` becomes `dense_3`.

    Names that differ in numbers alone keep their order; where there are not as many of them, all stay as they are.
    """
    if set(arrays) <= set(names):
        return arrays
    given, own = _numbered(arrays), _numbered(names)
    if any(len(own.get(pattern, ())) != len(some) for pattern, some in given.items()):
        return arrays
    return {own[pattern][place]: arrays[name] for pattern, some in given.items() for place, name in enumerate(some)}


def _numbered(names: Iterable[str]) -> dict[str, list[str]]:
    """Names by what they are without numbers, in the order of their numbers."""
    found: dict[str, list[tuple[list[int], str]]] = {}
    for name in names:
        tails = [_NUMBER.search(word) for word in name.split("/")]
        numbers = [int(tail[1]) if tail else 0 for tail in tails]
        found.setdefault("/".join(_NUMBER.sub("", word) for word in name.split("/")), []).append((numbers, name))
    return {pattern: [name for _, name in sorted(some)] for pattern, some in found.items()}


_NUMBER = re.compile(r"_(\d+)$")


def _replace(model: Model, arrays: Mapping[str, Any]) -> None:
    names = [str(getattr(each, "path", None) or each.name) for each in model.variables]
    own = dict(zip(names, model.variables))  # noqa: B905 - Python 3.9
    arrays = _renumbered(arrays, names)
    for name, array in arrays.items():
        if names.count(name) > 1:
            raise JobFailed(
                f"{names.count(name)} variables of the model are called {name!r}, so that none of them can be told",
                remedy="Give each variable or its module a name of its own.",
            )
        if name not in own:
            raise JobFailed(f"the model has no variable {name!r} to put a weight into")
        if tuple(own[name].shape) != array.shape:
            raise JobFailed(f"{name} is {list(own[name].shape)}, the weight for it is {list(array.shape)}")
        own[name].assign(array)
