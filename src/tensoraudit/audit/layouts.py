"""Samples in a candidate's own names and layout, and its outputs back in the reference's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.probing import open_arrays
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.errors import InputError
from tensoraudit.probes.pool import Pool


def argument_names(audit: Audit, candidate: Candidate) -> Sequence[str]:
    """What the candidate calls its inputs, as far as it tells.

    Raises InputError when a candidate that the user gave cannot be built.
    """
    framework = framework_of(candidate.framework)
    if candidate.inputs or not framework.can("describe"):
        return candidate.inputs
    assert audit.pool is not None
    outcome = audit.pool.run(candidate.framework, framework.job("describe"), dict(candidate.params))
    if outcome.status in {"failed", "unsupported"} and audit.against:
        raise InputError(outcome.reason, where=audit.against, remedy=(outcome.error or {}).get("remedy", ""))
    return [argument["name"] for argument in (outcome.result or {}).get("arguments", ())]


GIVEN = "candidate"
"""The name of the model that `compare` is given. Its inputs have other names only where a map says so, while those of a
converted model are listed by its converter, whatever the order of a sample."""


def taken_names(arrays: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, str]:
    """Return what a converted model with these inputs calls the leaves of a sample: by name, else by position.

    Numbers, strings and None that a converter has made part of the model are left out.
    """
    tensors = [name for name, array in arrays.items() if not (isinstance(array, Mapping) and "value" in array)]
    leaves = tensors if len(inputs) == len(tensors) else list(arrays)
    by_name = set(leaves) <= set(inputs) or len(leaves) != len(inputs)
    return dict(zip(leaves, leaves if by_name else inputs, strict=True))


def as_candidate(candidate: Candidate, names: Sequence[str], sample: Sample) -> Sample:
    """The sample as the candidate takes it. `names` are its arguments. Where not all of the sample's fit, what has no
    namesake goes by position among what is left: two models may call one argument differently. What a map says goes
    before any namesake. What a converter has made part of the model is left out."""
    taken = taken_names(sample.arrays, candidate.inputs)
    arrays: Mapping[str, Any] = {own: sample.arrays[name] for name, own in taken.items()}
    fit = all(name.split(".")[0] in names for name in arrays)
    mapped = candidate.name == GIVEN and len(candidate.inputs) == len(arrays)
    if mapped or (names and not fit and len(arrays) <= len(names)):
        own = list(candidate.inputs) if mapped else _own_names(names, list(arrays))
        arrays = dict(zip(own, arrays.values(), strict=True))
    layouts = candidate.layouts.get("inputs", {})
    return replace(sample, arrays={name: _turned(value, layouts.get(name)) for name, value in arrays.items()})


def _own_names(names: Sequence[str], ours: Sequence[str]) -> list[str]:
    """The candidate's name of each of the sample's arguments."""
    free = iter([name for name in names if name not in ours])
    return [name if name in names else next(free) for name in ours]


def _turned(value: Any, order: Sequence[int] | None) -> Any:
    if order is None or not isinstance(value, np.ndarray) or value.ndim != len(order):
        return value
    return value.transpose(tuple(order)).copy()  # of the same class: an array in bfloat16 stays one


def as_reference(pool: Pool, candidate: Candidate | None, refs: Mapping[str, Any]) -> dict[str, Any]:
    """The candidate's outputs, by its own names, in the layout of the reference's."""
    layouts = candidate.layouts.get("outputs", {}) if candidate else {}
    opened = open_arrays(pool, refs) or {}
    return {name: _back(array, layouts.get(name)) for name, array in opened.items()}


def _back(array: Any, order: Sequence[int] | None) -> Any:
    if order is None or array.ndim != len(order):
        return array
    return array.transpose(tuple(int(axis) for axis in np.argsort(order)))


def output_pairs(candidate: Candidate | None, reference: Mapping[str, Any]) -> dict[str, str]:
    """The candidate's name of each of the reference's outputs, where that is known ("" where an output has none)."""
    if candidate is None or len(candidate.outputs) != len(reference):
        return {}
    return {name: own for name, own in zip(reference, candidate.outputs, strict=True) if own}
