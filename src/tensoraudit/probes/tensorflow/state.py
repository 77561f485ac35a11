"""What a model remembers: put back before each call, so that no run sees what an earlier one left behind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensoraudit.probes.tensorflow.model import Model

WATCHED = 512 << 20
"""Bytes of weights above which only what does not train is watched: statistics, counters, states."""
GENERATOR = "seed_generator_state"


class State:
    """The values of a model's variables at first."""

    def __init__(self, model: Model) -> None:
        self.changed: set[str] = set()
        watched = [each for each in model.variables if not _is_generator(each)]
        if sum(int(np.prod(each.shape)) * 4 for each in watched) > WATCHED:
            watched = [each for each in watched if not getattr(each, "trainable", False)]
        self._first = [(each, np.array(each.numpy())) for each in watched]
        self._generators = [each for each in model.variables if _is_generator(each)]

    def seed(self, seed: int) -> None:
        """Start Keras's own generators anew: they are variables, and would go on from run to run."""
        for variable in self._generators:
            variable.assign(np.array([seed, 0], np.uint32).astype(variable.numpy().dtype))

    def restore(self, *, note: bool = True) -> None:
        """Put back what a run changed, and note it, unless it was us who changed it."""
        for variable, first in self._first:
            if not np.array_equal(variable.numpy(), first, equal_nan=first.dtype.kind == "f"):
                if note:
                    self.changed.add(str(getattr(variable, "path", None) or variable.name))
                variable.assign(first)


def _is_generator(variable: Any) -> bool:
    return GENERATOR in str(getattr(variable, "path", None) or variable.name)
