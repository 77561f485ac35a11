"""The same model and weights in double precision: the oracle.

1. A Keras model that has a configuration is built again from it, with every dtype widened, and gets the same weights.
2. A Keras model that the user's function makes is made again under the policy float64.
3. Anything else, and what the first two cannot do: its graph, frozen, with every float32 in it widened.

The first that gives double-precision outputs counts. A model that none can widen has no oracle, with the reason.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensoraudit.probes.tensorflow.doubled_graph import doubled
from tensoraudit.probes.tensorflow.keras_models import keras_model
from tensoraudit.probes.tensorflow.model import Model

NARROW = frozenset(("float16", "bfloat16", "float32"))
_POLICIES = NARROW | {"mixed_float16", "mixed_bfloat16"}


class NotAnOracle(Exception):  # noqa: N818 - a reason, not a fault
    """There is no double-precision twin; the text says why."""


Runner = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From widened leaves to named outputs."""


def widened(leaf: Any) -> Any:
    """Return a floating array in double precision, anything else as it is."""
    return leaf.astype(np.float64) if isinstance(leaf, np.ndarray) and leaf.dtype.name in NARROW else leaf


def double(model: Model, leaves: Mapping[str, Any]) -> Runner:
    """Return what runs the model in double precision on inputs like `leaves`. Raises NotAnOracle."""
    reasons = []
    for make in (_run_of_twin(_from_config), _run_of_twin(_made_again), _from_graph):
        try:
            runner = make(model, leaves)
            check(runner({name: widened(leaf) for name, leaf in leaves.items()}), model.run(leaves))
            return runner
        except _NotThisWay:
            continue
        except Exception as problem:  # whatever a framework says of a dtype that it did not expect
            reasons.append(f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}")
    raise NotAnOracle(f"the model does not run in double precision: {reasons[-1]}")


def twin_of(model: Model, leaves: Mapping[str, Any]) -> Model:
    """Return a Keras model in double precision with the same weights, which takes `leaves`. Raises NotAnOracle."""
    reasons = ["only Keras models can be made again"]
    for make in (_from_config, _made_again):
        try:
            twin = make(model, leaves)
            check(twin.run({name: widened(leaf) for name, leaf in leaves.items()}), model.run(leaves))
            return twin
        except _NotThisWay:
            continue
        except Exception as problem:
            reasons.append(f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}")
    raise NotAnOracle(f"the model does not run in double precision: {reasons[-1]}")


def _run_of_twin(make: Callable[[Model, Mapping[str, Any]], Model]) -> Callable[[Model, Mapping[str, Any]], Runner]:
    return lambda model, leaves: make(model, leaves).run


class _NotThisWay(Exception):  # noqa: N818
    """This way does not apply to the model."""


def check(outputs: Mapping[str, Any], reference: Mapping[str, Any]) -> None:
    """Raise NotAnOracle unless the outputs are those of the reference, in double precision."""
    if {name: each.shape for name, each in outputs.items()} != {name: each.shape for name, each in reference.items()}:
        raise NotAnOracle("not a true oracle: in double precision the model gives other outputs or shapes")
    for name, each in outputs.items():
        if each.dtype.name in NARROW:
            raise NotAnOracle(f"not a true oracle: {name} is {each.dtype.name}")


def _from_config(model: Model, leaves: Mapping[str, Any]) -> Model:
    if not model.is_keras or not model.specs or not type(model.owner).__module__.startswith("keras"):
        raise _NotThisWay
    config = copy.deepcopy(model.owner.get_config())
    widen_config(config)
    with _double_policy():
        twin = keras_model(type(model.owner).from_config(config))
    return _with_weights(twin, model)


def _made_again(model: Model, leaves: Mapping[str, Any]) -> Model:
    if not model.is_keras or model.rebuild is None or isinstance(model.factory, type(model.owner)):
        raise _NotThisWay
    with _double_policy():
        twin = model.rebuild()
        twin.run({name: widened(leaf) for name, leaf in leaves.items()})  # some models make their weights now
    return _with_weights(twin, model)


def _with_weights(twin: Model, model: Model) -> Model:
    weights = [widened(np.asarray(each)) for each in model.owner.get_weights()]
    twin.owner.set_weights(weights)
    return twin


def _from_graph(model: Model, leaves: Mapping[str, Any]) -> Runner:
    return doubled(model, leaves)


def widen_config(config: Any) -> None:
    """Replace every narrow dtype in a Keras configuration, in place."""
    waiting = [config]
    while waiting:
        item = waiting.pop()
        entries = item.items() if isinstance(item, dict) else enumerate(item)
        for key, value in list(entries):
            if isinstance(value, (dict, list)):
                waiting.append(value)
            elif isinstance(value, tuple):
                item[key] = list(value)
                waiting.append(item[key])
            elif isinstance(value, str) and value in _POLICIES and key in {"dtype", "name"}:
                item[key] = "float64"


@contextmanager
def _double_policy() -> Iterator[None]:
    import keras

    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)
