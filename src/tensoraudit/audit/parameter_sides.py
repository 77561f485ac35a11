"""The parameters and layers of both sides, from their workers, and their pairing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensoraudit.audit.execute import usable_samples
from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.layouts import argument_names, as_candidate
from tensoraudit.audit.port_map import read_map
from tensoraudit.audit.probing import wire
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.equivalence.parameter import Parameter, ParameterPairs, Term
from tensoraudit.equivalence.parameters import pair_parameters
from tensoraudit.errors import InputError
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool


@dataclass(frozen=True, slots=True)
class ModelSide:
    """One side: its parameters in the order of use, and the rows of its modules (see the `parameters` jobs)."""

    parameters: tuple[Parameter, ...]
    modules: tuple[Mapping[str, Any], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ModelSides:
    """Both sides and what belongs together. `reason` says why a side could not be read, "" if both were."""

    reference: ModelSide
    candidate: ModelSide
    pairs: ParameterPairs

    @property
    def reason(self) -> str:
        """Why a side is not known."""
        return self.reference.reason or self.candidate.reason


def pair_sides(audit: Audit, candidate: Candidate, *, values: bool, sample: Sample | None = None) -> ModelSides:
    """Ask both workers, side by side, and pair their parameters. Raises InputError for a map that does not fit."""
    assert audit.pool is not None and audit.reference is not None
    sample = sample or usable_samples(audit)[0]
    role = audit.reference.role
    wired = (
        wire(audit.pool, sample),
        wire(audit.pool, as_candidate(candidate, argument_names(audit, candidate), sample)),
    )
    futures = [
        audit.pool.submit(each, framework_of(each).job("parameters"), {**params, "values": values, "inputs": inputs})
        for each, params, inputs in (
            (role, audit.reference.params, wired[0]),
            (candidate.framework, candidate.params, wired[1]),
        )
    ]
    sides = [read_side(audit.pool, future.result()) for future in futures]
    try:
        pairs = pair_parameters(sides[0].parameters, sides[1].parameters, mapped(audit))
    except ValueError as problem:
        raise InputError(str(problem), where=audit.options.map or "--map", remedy="Correct that entry.") from None
    return ModelSides(sides[0], sides[1], pairs)


def mapped(audit: Audit) -> Mapping[str, Sequence[Term]]:
    """The user's own pairs of parameters."""
    return read_map(audit.options.map).parameters if audit.options.map else {}


def read_side(pool: Pool, outcome: Outcome) -> ModelSide:
    """What a `parameters` job gave; without a result, nothing and the reason."""
    result = outcome.result or {}
    modules = tuple(result.get("modules", ()))
    place = {row["path"]: at for at, row in enumerate(modules)}
    rows = sorted(result.get("parameters", ()), key=lambda row: place.get(row["module"], len(place)))
    reason = "" if outcome.result is not None else outcome.reason or outcome.status
    return ModelSide(tuple(_parameter(pool, row) for row in rows), modules, reason)


def _parameter(pool: Pool, row: Mapping[str, Any]) -> Parameter:
    array = pool.get(row["tensor"]) if "tensor" in row else np.broadcast_to(np.float32(0), tuple(row["shape"]))
    words = {key: str(row.get(key, "")) for key in ("kind", "axes", "gates", "part", "cell", "dtype")}
    return Parameter(row["name"], array, row["module"], row["class"], **words)
