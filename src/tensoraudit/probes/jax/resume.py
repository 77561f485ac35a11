"""jax.resume: one run of a resume test of a JAX program.

JAX has no hidden state: parameters, moments and keys are plain values in the program's state, and what each is its name
tells. Objects of flax.nnx hold arrays of their own and are parts as a whole.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tensoraudit.probes.jax.devices import device_of, pinned, seed_everything
from tensoraudit.probes.jax.tensors import is_array, is_key, numbers_of
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.resume import follow
from tensoraudit.probes.resume_program import open_program
from tensoraudit.probes.resume_state import Kinds, Part

WEIGHTS = ("params", "parameters", "model", "variables", "weights", "batch_stats")
"""Names of plain values that hold what a model is made of."""
MOMENTS = ("opt_state", "optimizer", "opt", "optimizer_state", "optim")
"""And what its optimiser remembers."""


def resume(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run a training program; parameters and result are those of `probes.resume`. Raises JobFailed."""
    with pinned(device_of("cpu")):
        seed_everything(int(params.get("seed", 0)))
        return follow(open_program(params, "jax"), params, session, KINDS)


def _array(value: Any) -> np.ndarray[Any, Any] | None:
    return numbers_of(value) if is_array(value) else None


def _clone(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray) else value if isinstance(value, jax.Array) else None


def _part(name: str, value: Any, put: Callable[[Any], None]) -> Part | None:
    if is_key(value):
        return Part(name, "generator", lambda: value, put)
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not isinstance(value, _objects(nnx)):
        return None
    kind = "generator" if isinstance(value, nnx.Rngs) else "optimizer" if isinstance(value, nnx.Optimizer) else "model"
    return Part(name, kind, lambda: nnx.to_pure_dict(nnx.state(value)), lambda new: _give(nnx, value, new))


def _objects(nnx: Any) -> tuple[type, ...]:
    return tuple(found for name in ("Module", "Optimizer", "Rngs") if (found := getattr(nnx, name, None)))


def _give(nnx: Any, value: Any, new: Mapping[str, Any]) -> None:
    state = nnx.state(value)
    nnx.replace_by_pure_dict(state, new)
    nnx.update(value, state)


def _kind(name: str) -> str:
    last = name.rpartition(".")[2]
    return "model" if last in WEIGHTS else "optimizer" if last in MOMENTS else "value"


def _write(value: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(value))


def _read(path: Path) -> Any:
    """Read what `_write` wrote in this run: our own file in the run folder, so its pickle is ours too."""
    return pickle.loads(path.read_bytes())  # noqa: S301


KINDS = Kinds(_array, _clone, lambda value: False, _part, _kind, lambda: [], _write, _read)
