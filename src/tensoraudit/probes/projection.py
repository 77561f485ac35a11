"""What the gradients jobs of all frameworks share: the scalar's weights, the names of gradients, empty rows.

The scalar is the sum over all floating outputs of `sum(w * y)`, with `w` float32 of the output's shape; of a complex
output `w` has a last axis of 2 for the real and the imaginary part. A gradient is called `input:NAME` or
`parameter:NAME`; that of a complex tensor is two, `NAME.real` and `NAME.imag`, dL/dRe and dL/dIm.

Shared by the workers: Python 3.9, numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.protocol import JobFailed, Session

INPUT = "input:"
PARAMETER = "parameter:"


def read_projection(session: Session, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights of a wired sample, by output name or by position as text."""
    return {str(key): np.array(session.get(dict(each))) for key, each in (sample.get("projection") or {}).items()}


def weights_of(outputs: Mapping[str, tuple[int, ...]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights of each floating output (name to shape, in order; a complex one with its last axis of 2).

    Raises JobFailed for an output without weights, and for weights of another shape.
    """
    if not outputs:
        raise JobFailed("no output of the model is floating, so there is nothing to differentiate")
    return {name: _weight(name, place, shape, given) for place, (name, shape) in enumerate(outputs.items())}


def _weight(name: str, place: int, shape: tuple[int, ...], given: Mapping[str, Any]) -> Any:
    weight = given.get(name, given.get(str(place)))
    if weight is None:
        raise JobFailed(f"output {name} has no weights in the projection ({', '.join(given) or 'which is empty'})")
    if tuple(weight.shape) != tuple(shape):
        raise JobFailed(
            f"output {name} has the shape {list(shape)}, its weights in the projection {list(weight.shape)}"
        )
    return weight


def empty_row(name: str) -> dict[str, Any]:
    """Return the row of one input set before anything ran: as of a `run` job, with gradients as its outputs.

    `missing` maps a gradient that does not exist to the reason; `by_nature` lists inputs that can have none; `dense`
    lists gradients that the framework gave as sparse.
    """
    return {
        **{"input": name, "outputs": {}, "repeat": {}, "oracle": None, "oracle_reason": "", "perturbed": []},
        **{"perturbed_by": "", "error": None, "missing": {}, "by_nature": [], "dense": [], "scalar": None},
    }
