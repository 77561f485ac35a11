"""Where the operators of a traced function come from: the user's line, and the Keras layer that was running.

Operators know the Python stack that made them. Of a functional model that stack holds no line of the user's: there the
line that made the layer counts, which is seen when the model is built once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tensoraudit.probes.tensorflow.model import Model
from tensoraudit.routes.source import Place, frame_place, is_machinery, place

Layer = Any
_CALLER = "frozen_graph.py"
"""Our file that calls the model; frames outside of it have nothing to do with an operator."""


@dataclass
class Places:
    """What is known of operators by name: the path and class of the innermost Keras layer, and the user's line."""

    modules: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Place] = field(default_factory=dict)


def places_of(model: Model, trace: Callable[[], Any]) -> tuple[Any, Places]:
    """Return the concrete function that `trace` makes, and the places of its operators."""
    layers: dict[str, tuple[str, Layer]] = {}
    with _watched_calls(model, layers) if model.is_keras else _nothing():
        function = trace()
    made_at = _lines_of_layers(model) if model.is_keras else {}
    found = Places()
    for operator in function.graph.get_operations():
        path, layer = layers.get(operator.name, ("", None))
        if layer is not None:
            found.modules[operator.name] = path
            found.classes[operator.name] = type(layer).__name__
        line = _line(operator) or made_at.get(id(layer))
        if line is not None:
            found.lines[operator.name] = line
    return function, found


def _line(operator: Any) -> Place | None:
    """The innermost line of the user's, if the model's own call stands between it and us."""
    for frame in reversed(list(operator.traceback or ())):
        if frame.filename.endswith(_CALLER):
            return None
        if not is_machinery(frame.filename):
            return place(frame.filename, frame.lineno)
    return None


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _watched_calls(model: Model, layers: dict[str, tuple[str, Layer]]) -> Iterator[None]:
    """Note for each operator the innermost layer whose call made it."""
    import tensorflow as tf

    base = _layer_class(model)
    call = base.__call__
    stack: list[str] = []

    def watched(layer: Layer, *args: Any, **kwargs: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        stack.append(str(layer.name))
        try:
            result = call(layer, *args, **kwargs)
        finally:
            path = "/".join(stack)
            stack.pop()
        for operator in graph.get_operations()[before:]:
            layers.setdefault(operator.name, (path, layer))
        return result

    base.__call__ = watched
    try:
        yield
    finally:
        base.__call__ = call


def _layer_class(model: Model) -> Any:
    classes = [each for each in type(model.owner).__mro__ if each.__name__ == "Layer"]
    return classes[0]


def _lines_of_layers(model: Model) -> dict[int, Place]:
    """The line that made each layer, by the identity of the layer: from a second building of the same model."""
    if model.rebuild is None:
        return {}
    made: list[tuple[Layer, Place | None]] = []
    base = _layer_class(model)
    initialise = base.__init__

    def watched(layer: Layer, *args: Any, **kwargs: Any) -> None:
        made.append((layer, frame_place()))
        initialise(layer, *args, **kwargs)

    base.__init__ = watched
    try:
        twin = model.rebuild().owner
    except Exception:  # it was built before; lines are a comfort, not what the trace is for
        return {}
    finally:
        base.__init__ = initialise
    lines = {id(layer): line for layer, line in made if line is not None}
    own, other = list(model.owner._flatten_layers()), list(twin._flatten_layers())
    if [type(each) for each in own] != [type(each) for each in other]:
        return {}
    return {id(a): lines[id(b)] for a, b in zip(own, other) if id(b) in lines}  # noqa: B905 - Python 3.9
