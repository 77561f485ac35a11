"""Put other weights into a loaded model: the key `weights` of a model spec, {"weights": {name: reference}}."""

from __future__ import annotations

from collections.abc import Mapping
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


def _replace(model: Model, arrays: Mapping[str, Any]) -> None:
    names = [str(getattr(each, "path", None) or each.name) for each in model.variables]
    own = dict(zip(names, model.variables))  # noqa: B905 - Python 3.9
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
