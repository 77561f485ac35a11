"""`--write-map`: the pairs that were found, as a draft that the user can correct and give back with `--map`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensoraudit.audit.execute import usable_samples
from tensoraudit.audit.layouts import argument_names, as_candidate, as_reference, output_pairs
from tensoraudit.audit.parameter_sides import ModelSides, pair_sides
from tensoraudit.audit.port_map import Row, entry, write_map
from tensoraudit.audit.probing import open_arrays
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.equivalence.pairing import pair_outputs
from tensoraudit.equivalence.parameter import Pair


def draft_map(audit: Audit) -> Audit:
    """Write the draft where one was asked for. Raises InputError when the file cannot be written."""
    candidate = next((each for each in audit.candidates if each.ships), None)
    path = audit.options.write_map
    if path is None or candidate is None or audit.candidate_artifact is None or not usable_samples(audit):
        return audit
    sides = pair_sides(audit, candidate, values=True)
    sections = {
        "inputs": list(_inputs(audit, candidate)),
        "outputs": list(_outputs(audit, candidate)),
        "parameters": list(_parameters(sides)),
    }
    write_map(path, sections, sides.pairs.extra)
    reason = f"; the parameters could not be read: {sides.reason}" if sides.reason else ""
    return audit.add(notes=(f"wrote the pairs that were found to {path}{reason}",))


def _inputs(audit: Audit, candidate: Candidate) -> Iterator[Row]:
    sample = usable_samples(audit)[0]
    own = as_candidate(candidate, argument_names(audit, candidate), sample)
    for name, partner in zip(sample.arrays, own.arrays, strict=True):
        how = "by name" if name == partner else "by position"
        yield name, _turned(partner, candidate.layouts.get("inputs", {}).get(partner)), how


def _turned(name: str, order: Any) -> Any:
    return name if order is None else {"name": name, "transpose": [int(axis) for axis in order]}


def _outputs(audit: Audit, candidate: Candidate) -> Iterator[Row]:
    assert audit.pool is not None
    sample = usable_samples(audit)[0].name
    reference = open_arrays(audit.pool, audit.reference_runs[sample].outputs) or {}
    run = audit.candidate_runs.get(f"{candidate.name}/cpu", {}).get(sample)
    own = as_reference(audit.pool, candidate, run.outputs) if run is not None and not run.error else {}
    pairs = pair_outputs(reference, own, output_pairs(candidate, reference))
    for pair in pairs.pairs:
        order = candidate.layouts.get("outputs", {}).get(pair.candidate)
        yield pair.reference, _turned(pair.candidate, order), f"by {pair.how}"
    yield from ((name, None, "no partner was found") for name in pairs.missing)


def _parameters(sides: ModelSides) -> Iterator[Row]:
    found: dict[str, list[tuple[Any, Pair]]] = {}
    for pair in sides.pairs.pairs:
        for term in pair.terms:
            found.setdefault(term.reference, []).append((entry(pair.candidate, term.steps), pair))
    for parameter in sides.reference.parameters:
        if partners := found.get(parameter.name):
            entries = [each for each, _ in partners]
            hows = dict.fromkeys(_how(pair) for _, pair in partners)
            yield parameter.name, entries[0] if len(entries) == 1 else entries, ", ".join(hows)
        elif not parameter.counts:
            yield parameter.name, None, "no partner was found"


def _how(pair: Pair) -> str:
    if pair.folded:
        return f"by {pair.how}; each channel has a factor of its own, as where a normalisation was merged into it"
    values = "the values agree" if pair.equal else f"the values differ by {100 * pair.difference:.3g} %"
    return f"by {pair.how}; {values}"
