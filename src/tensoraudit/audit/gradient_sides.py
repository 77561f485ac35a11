"""The gradients of both sides as arrays, the candidate's under the reference's names and in its layouts.

Keys are those of `probes.projection`: `input:NAME`, `parameter:NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensoraudit.audit.probing import open_arrays
from tensoraudit.equivalence.gradient_pairing import Plan, gather
from tensoraudit.probes.pool import Pool
from tensoraudit.probes.projection import INPUT, PARAMETER

Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SideGradients:
    """What a `gradients` job gave for one input set, with arrays for references."""

    sample: str
    gradients: Arrays
    repeat: Arrays
    oracle: Arrays | None
    draws: tuple[Arrays, ...]
    missing: Mapping[str, str]
    dtypes: Mapping[str, str]
    error: str = ""

    @staticmethod
    def read(pool: Pool, row: Mapping[str, Any]) -> SideGradients:
        """Open the references of a row."""
        error = row.get("error")
        return SideGradients(
            row["input"],
            open_arrays(pool, row["outputs"]) or {},
            open_arrays(pool, row["repeat"]) or {},
            open_arrays(pool, row["oracle"]),
            tuple(open_arrays(pool, draw) or {} for draw in row["perturbed"]),
            row["missing"],
            {key: ref["logical"] for key, ref in row["outputs"].items() if ref.get("logical")},
            f"{error['type']}: {error['message']}" if error else "",
        )


@dataclass(frozen=True, slots=True)
class Names:
    """What belongs together: parameters by the plan, the reference's inputs with the candidate's, and the axis orders
    (as for `numpy.transpose`) in which the candidate takes some of its inputs."""

    plan: Plan
    inputs: Mapping[str, str]
    orders: Mapping[str, Sequence[int]]


class Translated:
    """The candidate's gradients under the reference's keys, in its layouts."""

    def __init__(self, side: SideGradients, names: Names) -> None:
        self.side, self.plan = side, names.plan
        self._inputs, self._orders = names.inputs, names.orders
        self.gradients = self.take(side.gradients)
        self.repeat = self.take(side.repeat)
        self.draws = tuple(self.take(draw) for draw in side.draws)

    def take(self, arrays: Arrays) -> dict[str, Any]:
        """One set of gradients."""
        own = {key[len(PARAMETER) :]: each for key, each in arrays.items() if key.startswith(PARAMETER)}
        found = {PARAMETER + name: each for name, each in gather(self.plan, own).items()}
        found.update({key: each for key, each in arrays.items() if key.startswith(PARAMETER) and _is_part(key)})
        for name, theirs in self._inputs.items():
            for part in ("", ".real", ".imag"):
                if (key := f"{INPUT}{theirs}{part}") in arrays:
                    found[f"{INPUT}{name}{part}"] = _back(arrays[key], self._orders.get(theirs))
        return found

    def missing(self, key: str) -> str:
        """Why the candidate has no gradient; "" where that is not known."""
        if key.startswith(INPUT):
            own = [INPUT + self._inputs.get(key[len(INPUT) :], "")]
        else:
            own = [PARAMETER + part.candidate for part in self.plan.parts.get(key[len(PARAMETER) :], ())]
        reasons = [self.side.missing[each] for each in own if each in self.side.missing]
        return reasons[0] if reasons else ""

    def dtypes(self) -> dict[str, str]:
        """Logical dtypes by the reference's keys."""
        own = self.side.dtypes
        found = {
            PARAMETER + name: own[PARAMETER + parts[0].candidate]
            for name, parts in self.plan.parts.items()
            if PARAMETER + parts[0].candidate in own
        }
        inputs = {INPUT + name: own[INPUT + other] for name, other in self._inputs.items() if INPUT + other in own}
        return {**found, **inputs}


def _is_part(key: str) -> bool:
    """Whether this is one of the two gradients of a complex parameter, which go by their names alone."""
    return key.endswith((".real", ".imag"))


def _back(array: Any, order: Sequence[int] | None) -> Any:
    return array if order is None or array.ndim != len(order) else array.transpose(np.argsort(order))
