"""Parameters in double precision or moved by one unit in the last place, and whether a run of them is an oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensoraudit.probes.jax.jaxpr import narrow_operations, random_operations
from tensoraudit.probes.jax.loaded import is_plain
from tensoraudit.probes.jax.widening import NotAnOracle, widened
from tensoraudit.probes.ulp import move
from tensoraudit.routes.source import Place


def wide_parameters(parameters: Any) -> Any:
    """Return the parameters in double precision."""
    return _mapped(parameters, widened)


def moved_parameters(parameters: Any, seed: int) -> Any:
    """Return the parameters with every floating one moved, for models whose inputs are integers only."""
    draws = np.random.default_rng(seed)
    return _mapped(parameters, lambda leaf: jnp.asarray(move(np.asarray(leaf), draws)))


def _mapped(parameters: Any, change: Callable[[Any], Any]) -> Any:
    def changed(leaf: Any) -> Any:
        return change(leaf) if is_plain(leaf) and jax.dtypes.issubdtype(leaf.dtype, jnp.inexact) else leaf

    return jax.tree_util.tree_map(changed, parameters)


def check_oracle(jaxpr: Any, outputs: Mapping[str, Any], reference: Mapping[str, Any]) -> None:
    """Raise NotAnOracle unless a run in double precision computed the same thing, in double precision."""
    for reason, found in (
        ("draws other random numbers ({})", random_operations(jaxpr)),
        ("{}", narrow_operations(jaxpr)),
    ):
        for what, at in found.items():
            raise NotAnOracle(f"not a true oracle: {reason.format(what)}{_where(at)}")
    narrow = [name for name, each in outputs.items() if each.dtype.itemsize < 8 and each.dtype.kind not in "biu"]
    if narrow:
        raise NotAnOracle(f"not a true oracle: {narrow[0]} is {outputs[narrow[0]].dtype}")
    shapes = {name: list(each.shape) for name, each in outputs.items()}
    if shapes != {name: each["shape"] for name, each in reference.items()}:
        raise NotAnOracle("not a true oracle: in double precision the model gives other outputs or shapes")


def _where(at: Place | None) -> str:
    return f" ({at['path']}:{at['line']})" if at else ""
