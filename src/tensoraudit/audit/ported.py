"""Pair two implementations before the candidate runs: the user's map, the layout of its inputs, weights on request.

Inputs come in the reference's layout. A candidate of another framework may keep that framework's own (channels last or
first): then its inputs and outputs are transposed alike, and the report says so. Any other permutation is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tensoraudit.audit.execute import usable_samples
from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.layouts import argument_names, as_candidate
from tensoraudit.audit.parameter_sides import mapped, pair_sides
from tensoraudit.audit.port_map import Partner, check_draft, read_map
from tensoraudit.audit.probing import open_arrays, read_runs, wire
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.audit.transfer import transfer_weights
from tensoraudit.equivalence.pairing import distance, pair_outputs
from tensoraudit.errors import InputError

CHANNELS_LAST: Mapping[str, bool] = {"pytorch": False, "onnxruntime": False, "tensorflow": True, "jax": True}
"""Where each framework's own layers have the channels, by the role of its worker."""

MOST_TRIED = 3
"""Inputs with space whose layouts are tried one by one; of more, all or none are transposed."""

IMAGE = 4
"""Axes of a batch of images."""


def check_map(audit: Audit) -> Audit:
    """Read the user's map before anything runs, and see that a draft can be written. Raises InputError."""
    if audit.options.map is not None:
        read_map(audit.options.map)
    if audit.options.write_map is not None and audit.against:
        check_draft(audit.options.write_map)
    return audit


def pair_models(audit: Audit) -> Audit:
    """Fit the given candidate of `compare` to the reference. Raises InputError for a map or transfer that cannot be."""
    candidate = next((each for each in audit.candidates if each.ships), None)
    if audit.candidate_artifact is None or candidate is None or audit.pool is None or not usable_samples(audit):
        return audit
    candidate = _with_map(audit, candidate)
    found = _with_layouts(audit, candidate)
    if audit.options.transfer:
        sides = pair_sides(audit, found, values=True)
        moved, notes = transfer_weights(audit, found, sides, mapped(audit))
        audit = audit.add(notes=notes)
        found = _with_layouts(audit, replace(candidate, params=moved.params))
    audit = audit.add(notes=tuple(_named(audit, candidate, found)))
    return replace(audit, candidates=tuple(found if each.ships else each for each in audit.candidates))


def _with_map(audit: Audit, candidate: Candidate) -> Candidate:
    """The candidate with the names and layouts of inputs and outputs that the user gives."""
    if audit.options.map is None:
        return candidate
    assert audit.pool is not None
    given, sample = read_map(audit.options.map), usable_samples(audit)[0]
    reference = open_arrays(audit.pool, audit.reference_runs[sample.name].outputs) or {}
    for what, arrays, partners in (("input", sample.arrays, given.inputs), ("output", reference, given.outputs)):
        _check_names(audit.options.map, "reference", what, list(partners), list(arrays))
        for name, partner in partners.items():
            rank = np.ndim(arrays[name])
            if partner.transpose and len(partner.transpose) != rank:
                raise InputError(
                    f"{what} {name} has {rank} axes, and the transposition {list(partner.transpose)}",
                    where=audit.options.map,
                    remedy="Write every axis once, counted from 0, as numpy.transpose takes them.",
                )
    inputs, outputs = list(sample.arrays), list(reference)
    theirs = argument_names(audit, candidate)
    if theirs:
        _check_names(audit.options.map, "candidate", "input", [each.name for each in given.inputs.values()], theirs)
    layouts = {"inputs": _orders(given.inputs), "outputs": _orders(given.outputs)}
    own = tuple(given.outputs[name].name if name in given.outputs else "" for name in outputs)
    found = replace(candidate, inputs=_names(given.inputs, inputs, theirs), outputs=own, layouts=layouts)
    return _with_known_outputs(audit, found, sample)


def _check_names(path: str, side: str, what: str, named: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in named if name.split(".")[0] not in known and name not in known]:
        raise InputError(
            f"the {side} has no {what} {unknown[0]!r}", where=path, remedy=f"It has {', '.join(known) or 'none'}."
        )


def _with_known_outputs(audit: Audit, candidate: Candidate, sample: Sample) -> Candidate:
    """The candidate, if it has the outputs that the map names. One that does not run says so elsewhere."""
    named = [name for name in candidate.outputs if name]
    outputs = _run_once(audit, candidate, sample) if named else None
    if outputs is not None:
        _check_names(str(audit.options.map), "candidate", "output", named, list(outputs))
    return candidate


def _names(partners: Mapping[str, Partner], names: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """The candidate's names of all inputs; one that the map leaves out has its namesake, or the next that is free."""
    if not partners:
        return ()
    given = {each.name for each in partners.values()}
    free = iter([name for name in theirs if name not in given and (name in partners or name not in names)])
    rest = {
        name: name if name in theirs and name not in given else next(free, name)
        for name in names
        if name not in partners
    }
    return tuple(partners[name].name if name in partners else rest[name] for name in names)


def _orders(partners: Mapping[str, Partner]) -> dict[str, tuple[int, ...]]:
    return {each.name: each.transpose for each in partners.values() if each.transpose}


def _with_layouts(audit: Audit, candidate: Candidate) -> Candidate:
    """The candidate with its inputs and outputs in its framework's layout, if it takes them so and not as they are."""
    assert audit.reference is not None
    last = [CHANNELS_LAST.get(framework_of(role).role) for role in (audit.reference.role, candidate.framework)]
    if None in last or last[0] == last[1] or candidate.layouts.get("inputs"):
        return candidate
    sample = usable_samples(audit)[0]
    best: tuple[float, Candidate] | None = None
    for tried in _tries(audit, candidate, sample, to_last=bool(last[1])):
        outputs = _run_once(audit, tried, sample)
        if outputs is None:
            continue
        whole = _with_outputs(audit, tried, sample, outputs, to_last=bool(last[1]))
        gap = _gap(audit, whole, sample, outputs)
        if best is None or gap < best[0] / 2:
            best = gap, whole
        if gap <= NEAR:
            break
    return best[1] if best else candidate


NEAR = 1e-2
"""Outputs that agree by this share of their spread need no other layout."""


def _tries(audit: Audit, candidate: Candidate, sample: Sample, *, to_last: bool) -> Iterator[Candidate]:
    """As it is first, then with inputs transposed: few of them one by one, many all together."""
    given = as_candidate(candidate, argument_names(audit, candidate), sample)
    spatial = [name for name, value in given.arrays.items() if isinstance(value, np.ndarray) and value.ndim >= 3]
    choices = product((False, True), repeat=len(spatial)) if len(spatial) <= MOST_TRIED else _all_or_none(len(spatial))
    for chosen in choices:
        orders = {
            name: convention(given.arrays[name].ndim, to_last=to_last)
            for name, turn in zip(spatial, chosen, strict=True)
            if turn
        }
        yield replace(candidate, layouts={**candidate.layouts, "inputs": orders})


def _all_or_none(count: int) -> Iterator[tuple[bool, ...]]:
    yield (False,) * count
    yield (True,) * count


def convention(rank: int, *, to_last: bool) -> tuple[int, ...]:
    """The axis order, as for numpy.transpose, that moves the channels to the other end."""
    return (0, *range(2, rank), 1) if to_last else (0, rank - 1, *range(1, rank - 1))


def _run_once(audit: Audit, candidate: Candidate, sample: Sample) -> dict[str, Any] | None:
    assert audit.pool is not None
    names = argument_names(audit, candidate)
    request = {"inputs": [wire(audit.pool, as_candidate(candidate, names, sample))]}
    plain = {"repeat": 1, "oracle": False, "perturbations": 0}
    job = framework_of(candidate.framework).job("run")
    runs = read_runs(audit.pool.run(candidate.framework, job, {**candidate.params, **request, **plain}).result)
    run = runs.get(sample.name)
    return None if run is None or run.error else open_arrays(audit.pool, run.outputs)


def _with_outputs(
    audit: Audit, candidate: Candidate, sample: Sample, outputs: Mapping[str, Any], *, to_last: bool
) -> Candidate:
    """Outputs are turned like the inputs: where an input was turned, or none has space that could tell. One of three
    axes may be anything (a sequence, boxes, scores of every pair), so that an input of three must have been turned."""
    spatial = [value for value in sample.arrays.values() if isinstance(value, np.ndarray) and value.ndim >= 3]
    if candidate.layouts.get("outputs") or (spatial and not candidate.layouts.get("inputs")):
        return candidate
    reference = _reference(audit, sample)
    orders: dict[str, tuple[int, ...]] = {}
    known = dict(zip(reference, candidate.outputs, strict=False))
    least = min((len(order) for order in candidate.layouts.get("inputs", {}).values()), default=IMAGE)
    turned = {
        name: _to_reference(array, to_last=to_last) if array.ndim >= least else array for name, array in outputs.items()
    }
    for pair in pair_outputs(reference, {**outputs, **turned}, known).pairs:
        array, as_is = reference[pair.reference], outputs[pair.candidate]
        other = turned[pair.candidate]
        if other is not as_is and other.shape == array.shape:
            nearer = as_is.shape != array.shape or distance(array, other) < distance(array, as_is)
            if nearer:
                orders[pair.candidate] = convention(array.ndim, to_last=to_last)
    return replace(candidate, layouts={**candidate.layouts, "outputs": orders})


def _to_reference(array: Any, *, to_last: bool) -> Any:
    return array.transpose(convention(array.ndim, to_last=not to_last))


def _reference(audit: Audit, sample: Sample) -> dict[str, Any]:
    assert audit.pool is not None
    return open_arrays(audit.pool, audit.reference_runs[sample.name].outputs) or {}


def _gap(audit: Audit, candidate: Candidate, sample: Sample, outputs: Mapping[str, Any]) -> float:
    """How far the outputs are from the reference's, the worst of all; infinite where a shape differs."""
    reference, orders = _reference(audit, sample), candidate.layouts.get("outputs", {})
    own = {
        name: array.transpose(np.argsort(orders[name])) if name in orders else array for name, array in outputs.items()
    }
    pairs = pair_outputs(reference, own, dict(zip(reference, candidate.outputs, strict=False)))
    gaps = [
        distance(reference[pair.reference], own[pair.candidate])
        if reference[pair.reference].shape == own[pair.candidate].shape
        else float("inf")
        for pair in pairs.pairs
    ]
    return max(gaps, default=float("inf"))


def _named(audit: Audit, before: Candidate, after: Candidate) -> Iterator[str]:
    """What was found, for the report."""
    title = framework_of(after.framework).title
    for what, verb in (("inputs", "given to the candidate"), ("outputs", "read from the candidate")):
        for name, order in after.layouts.get(what, {}).items():
            whose = "as the map says" if before.layouts.get(what) else f"the layout of {title}"
            yield f"{what[:-1]} {name} is {verb} after transpose {tuple(order)} of the reference's layout, {whose}"
