"""Find the first operation that goes wrong where both sides carry names: a PyTorch model against its own export.

All intermediates of a chunk come from one run per side. The reference is traced as it runs; the candidate's graph is
read at the places that carry the same module path and source line. Knows no arithmetic: `equivalence.localise` judges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tensoraudit.audit.complex_parts import is_complex, parts_reference
from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.localise_found import Located, local_measurement, reproducer_folder, shown_line
from tensoraudit.audit.probing import wire
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.equivalence.alignment import Pair, align
from tensoraudit.equivalence.localise import Divergence, Tap, first_divergence
from tensoraudit.findings.result import FirstDivergence
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

CHUNK = 512 << 20
"""Bytes of one side's intermediates held at a time; three copies of them exist (both sides, oracle)."""

WIDEST = 8
"""Bytes of an element at most."""

LOOKAHEAD = 4
"""Pairs whose oracle is fetched together once one of them looks wrong: its neighbours will be asked for next."""


@dataclass(frozen=True, slots=True)
class _Search:
    """What every call of one search needs."""

    audit: Audit
    pool: Pool
    candidate: Candidate
    sample: Sample
    inputs: Mapping[str, Any]
    events: Mapping[int, Mapping[str, Any]]
    values: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    """Reference values so far, by candidate value name: the feeds for running one operation alone."""


def search_by_name(audit: Audit, candidate: Candidate, sample: Sample) -> Located | Outcome | None:
    """Return the first divergence of a PyTorch reference and its export, and what was measured there.

    None where no names bring the two together, or what they bring together agrees; the outcome of a worker that failed.
    """
    assert audit.pool is not None and audit.reference is not None
    inputs = wire(audit.pool, sample)
    request = {**audit.reference.params, "inputs": inputs, "select": "all", "budget": CHUNK}
    role = audit.reference.role
    tracing = audit.pool.submit(role, framework_of(role).job("trace"), request)
    listed = audit.pool.run(candidate.framework, "onnxruntime.values", dict(candidate.params))
    early = _values_of_all(audit.pool, candidate, inputs, listed)
    traced = tracing.result()
    for outcome in (traced, listed):
        if outcome.result is None:
            return outcome
    events, values = (traced.result or {})["events"], (listed.result or {})["values"]
    pairs = align(events, values)
    search = _Search(audit, audit.pool, candidate, sample, inputs, {event["index"]: event for event in events})
    search.known.update(_graph_feeds(inputs["arrays"], (listed.result or {}).get("inputs", ())))
    search.values.update(early)
    divergence = first_divergence(
        _taps(search, pairs), tolerance=audit.options.tolerance, local=lambda p: _alone(search, p)
    )
    return None if divergence is None else _located(audit, search, divergence)


def _graph_feeds(arrays: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The sample under the graph's own input names: by name where they fit, else by position."""
    if not set(names) <= arrays.keys():
        arrays = dict(zip(names, arrays.values(), strict=False))
    return {name: parts_reference(ref) for name, ref in arrays.items() if "file" in ref}


def _taps(search: _Search, pairs: Sequence[Pair]) -> Iterator[Tap]:
    for chunk in _chunks(pairs):
        yield from _read_chunk(search, chunk)


def _chunks(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    size = 0
    for pair in pairs:
        bytes_ = WIDEST * math.prod(pair.shape)
        if chunk and size + bytes_ > CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(pair)
        size += bytes_
    if chunk:
        yield chunk


def _values_of_all(pool: Pool, candidate: Candidate, inputs: Any, listed: Outcome) -> dict[str, Any]:
    """All values of a small graph while the reference is still traced; of a large one none, they come in chunks."""
    names = [value["name"] for value in (listed.result or {}).get("values", ())]
    if not names:
        return {}
    request = {"inputs": inputs, "values": names, "budget": CHUNK, "limit": CHUNK}
    outcome = pool.run(candidate.framework, "onnxruntime.intermediates", {**candidate.params, **request})
    return dict((outcome.result or {}).get("values", {}))


def _read_chunk(search: _Search, pairs: Sequence[Pair]) -> Iterator[Tap]:
    reference, values = _reference(search, pairs), _candidate(search, pairs)
    both = [pair for pair in pairs if pair.value in values and pair.event in reference]
    seen = [pair for pair in both if _comparable(reference[pair.event], values[pair.value])]
    oracle: dict[int, Any] = {}
    for place, pair in enumerate(seen):
        truth = partial(_oracle, search, oracle, seen[place : place + LOOKAHEAD])
        get = search.pool.get
        own = parts_reference(reference[pair.event])
        search.known[pair.value] = own
        yield Tap(pair, partial(get, own), partial(get, values[pair.value]), truth)
    search.pool.discard(list(oracle.values()))


def _comparable(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """A complex value stands in a graph as pairs of real numbers, or as something that does not tell."""
    return not is_complex(ours) or parts_reference(ours)["shape"] == theirs["shape"]


def _oracle(search: _Search, known: dict[int, Any], pairs: Sequence[Pair]) -> Any:
    """The double-precision twin of the first pair; asked for only when it looks wrong, and then with its neighbours."""
    if pairs[0].event not in known:
        known.update(_trace(search, pairs, dtype="float64"))
    return search.pool.get(parts_reference(known[pairs[0].event]))


def _candidate(search: _Search, pairs: Sequence[Pair]) -> dict[str, Any]:
    wanted = [pair.value for pair in pairs]
    if all(name in search.values for name in wanted):
        return search.values
    request = {"inputs": search.inputs, "values": wanted, "budget": CHUNK}
    outcome = search.pool.run(
        search.candidate.framework, "onnxruntime.intermediates", {**search.candidate.params, **request}
    )
    return dict((outcome.result or {}).get("values", {}))


def _reference(search: _Search, pairs: Sequence[Pair]) -> dict[int, Any]:
    """References of the reference's values: those that the first trace saved, and a trace for the rest."""
    saved = {pair.event: search.events[pair.event]["outputs"][pair.output] for pair in pairs}
    missing = [pair for pair in pairs if "file" not in saved[pair.event]]
    more = _trace(search, missing) if missing else {}
    return {event: ref for event, ref in {**saved, **more}.items() if "file" in ref}


def _trace(search: _Search, pairs: Sequence[Pair], **how: Any) -> dict[int, Any]:
    """References of the traced outputs by event index of the first trace. Keys, not indexes, name events: in another
    precision casts come and go."""
    assert search.audit.reference is not None
    wanted = {search.events[pair.event]["key"]: pair for pair in pairs}
    request = {"inputs": search.inputs, "select": list(wanted), "budget": 2 * CHUNK, **how}
    role = search.audit.reference.role
    job = framework_of(role).job("trace")
    outcome = search.pool.run(role, job, {**search.audit.reference.params, **request})
    found: dict[int, Any] = {}
    for event in (outcome.result or {}).get("events", ()):
        pair = wanted.get(event["key"])
        if pair is not None and (ref := event["outputs"][pair.output]) and "file" in ref:
            found[pair.event] = ref
    return found


def _alone(search: _Search, pair: Pair, save: str | None = None) -> Any:
    """The candidate's operation on the reference's inputs; None when it cannot be cut out."""
    outcome = search.pool.run(search.candidate.framework, "onnxruntime.subgraph", _cut(search, pair, save))
    outputs = (outcome.result or {}).get("outputs", {})
    return search.pool.get(outputs[pair.value]) if pair.value in outputs else None


def _cut(search: _Search, pair: Pair, save: str | None) -> dict[str, Any]:
    feeds = {name: ref for name, ref in search.known.items() if name != pair.value}
    expected = {pair.value: search.known[pair.value]}
    return {**search.candidate.params, "feeds": feeds, "outputs": [pair.value], "save": save, "expected": expected}


def _located(audit: Audit, search: _Search, divergence: Divergence) -> Located:
    pair = divergence.pair
    first = FirstDivergence(
        reference_node=f"{pair.module or 'model'} ({pair.reference_op})",
        candidate_node=pair.node or pair.value,
        source_line=shown_line(audit, pair.path, pair.line),
        local_error=divergence.local_error,
        cumulative_error=divergence.cumulative_error,
        reproducer=_reproducer(audit, search, pair),
    )
    return Located(first, local_measurement(first, divergence.comparison, search.candidate))


def _reproducer(audit: Audit, search: _Search, pair: Pair) -> str:
    folder = reproducer_folder(audit)
    if not folder:
        return ""
    outcome = search.pool.run(search.candidate.framework, "onnxruntime.subgraph", _cut(search, pair, folder))
    return str((outcome.result or {}).get("reproducer") or "")
