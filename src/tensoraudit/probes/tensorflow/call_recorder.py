"""Save what goes into each Keras layer of one run and what comes out, and the user's line that calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from tensoraudit.probes.protocol import Session
from tensoraudit.routes.source import frame_place

Row = dict[str, Any]


class Listener:
    """`describe` makes the row of a layer, which is extended when it is called; `budget` are bytes."""

    def __init__(self, session: Session, budget: int, describe: Callable[[Any], Row]) -> None:
        self.rows: dict[int, Row] = {}
        self._last: dict[int, Any] = {}
        self._session, self._left, self._describe = session, budget, describe

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Follow the calls of all layers."""
        import keras

        original = keras.layers.Layer.__call__

        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            self._before(layer, args, kwargs)
            result = original(layer, *args, **kwargs)
            self._last[id(layer)] = result
            return result

        keras.layers.Layer.__call__ = call
        try:
            yield
        finally:
            keras.layers.Layer.__call__ = original

    def _before(self, layer: Any, args: Any, kwargs: Any) -> None:
        row = self.rows.setdefault(id(layer), self._describe(layer))
        row["calls"] += 1
        if row["calls"] == 1:
            row["source"] = frame_place() or row["source"]
            row["inputs"] = self._save((args, kwargs))

    def finish(self) -> None:
        """Save the last outputs."""
        for key, result in self._last.items():
            self.rows[key]["outputs"] = self._save(result)

    def _save(self, value: Any) -> list[Row]:
        saved = []
        for each in tf.nest.flatten(value):
            if isinstance(each, np.ndarray) or (tf.is_tensor(each) and hasattr(each, "numpy")):
                array = np.asarray(each)  # symbolic tensors have no values
                if self._left >= array.nbytes:
                    self._left -= array.nbytes
                    saved.append(self._session.put(array))
        return saved
