"""jax.convert: one hop of a route that ends in JAX or starts from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensoraudit.probes.jax.arrivals import keras_jax, torchax
from tensoraudit.probes.jax.departures import jax2tf
from tensoraudit.probes.protocol import JobUnsupported, Session

Tool = Callable[[Mapping[str, Any], Session], dict[str, Any]]


def convert(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Convert the model with one tool and say what the result is called by.

    `tool` names it, `inputs` is one sample, `dynamic` maps flat names to {axis: dimension}, `folder` is an empty folder
    for what the tool writes. Returns what `converted` describes.

    Raises JobUnsupported for an unknown tool, JobFailed with stage, operator, source and remedy when the tool refuses.
    """
    tool = TOOLS.get(str(params["tool"]))
    if tool is None:
        raise JobUnsupported(f"JAX has no tool called {params['tool']!r}: there are {', '.join(TOOLS)}")
    return tool(params, session)


TOOLS: Mapping[str, Tool] = {"torchax": torchax, "keras_jax": keras_jax, "jax2tf": jax2tf}
