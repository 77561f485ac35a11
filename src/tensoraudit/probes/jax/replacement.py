"""Put other weights into a loaded model: the key `weights` of a model spec, {"weights": {name: reference}}."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensoraudit.probes.jax.loaded import Loaded
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session


def with_weights(loaded: Loaded, weights: Mapping[str, Any], session: Session) -> Loaded:
    """Return the model with the named leaves of its parameters replaced.

    Raises JobFailed for a name that the model lacks, another shape, or two weights for what is one array in the model;
    JobUnsupported for a serialized program.
    """
    if loaded.exported is not None:
        raise JobUnsupported("a serialized program holds its weights inside, where they cannot be replaced")
    own = {name: leaf for leaves in loaded.collections.values() for name, leaf in leaves.items()}
    new: dict[int, Any] = {}
    firsts: dict[int, str] = {}
    for name, reference in weights.items():
        if name not in own:
            raise JobFailed(f"the model has no parameter {name!r} to put a weight into")
        array = np.array(session.get(dict(reference)))
        if tuple(own[name].shape) != array.shape:
            raise JobFailed(f"{name} is {list(own[name].shape)}, the weight for it is {list(array.shape)}")
        weight = jnp.asarray(array, own[name].dtype)
        first = firsts.setdefault(id(own[name]), name)
        if not np.array_equal(new.setdefault(id(own[name]), weight), weight):
            raise JobFailed(
                f"{first} and {name} are one and the same array in the model, the weights for them differ",
                remedy="Give each an array of its own, as jnp.array(x) makes.",
            )

    def changed(leaf: Any) -> Any:
        return new.get(id(leaf), leaf)

    collections = {
        kind: {name: changed(leaf) for name, leaf in leaves.items()} for kind, leaves in loaded.collections.items()
    }
    return replace(loaded, parameters=jax.tree_util.tree_map(changed, loaded.parameters), collections=collections)
