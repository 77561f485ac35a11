"""A search by value inside an audit: the two sides it runs, and what it found as a row of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensoraudit.audit.layouts import argument_names, as_candidate
from tensoraudit.audit.localise_by_value import Found, Search, look_at
from tensoraudit.audit.localise_found import Located, local_measurement, reproducer_folder, shown_line
from tensoraudit.audit.localise_sides import Side
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.equivalence.blocks import largest_difference
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.equivalence.value_alignment import PROPOSED_NARROW, Value
from tensoraudit.equivalence.views import closeness, matching_view, nearest_view
from tensoraudit.findings.result import FirstDivergence
from tensoraudit.probes.outcome import Outcome
from tensoraudit.probes.pool import Pool

INTERMEDIATES = 4
"""One such part of a worker's memory is for intermediates: 2 GiB by default."""


def search_by_value(
    audit: Audit, candidate: Candidate, sample: Sample, outputs: Sequence[str]
) -> Located | Outcome | None:
    """Return the first divergence on the way to the failing `outputs` of the reference; None when no value differs, the
    outcome of a worker that failed."""
    assert audit.pool is not None and audit.reference is not None
    memory = audit.options.memory // INTERMEDIATES
    reference = Side(audit.reference.role, audit.reference.params, sample.arrays, memory)
    given = as_candidate(candidate, argument_names(audit, candidate), sample)
    other = Side(candidate.framework, candidate.params, given.arrays, memory)
    first, second = look_at(audit.pool, reference, other)
    for seen in (first, second):
        if seen.outcome.result is None:
            return seen.outcome
    search = Search(audit.pool, first, second, audit.options.tolerance)
    found = search.run(outputs)
    located = None if found is None else _located(audit, candidate, search, found)
    search.judge.close()
    return located


def _located(audit: Audit, candidate: Candidate, search: Search, found: Found) -> Located:
    ours, theirs = found.reference, found.candidate
    cut = _cut(audit, search, found)
    first = FirstDivergence(
        reference_node=ours.node if ours else "",
        candidate_node=theirs.node if theirs else "",
        source_line=shown_line(audit, ours.path, ours.line) if ours else "",
        local_error=_local_error(audit, search, found, cut),
        cumulative_error=found.error,
        reproducer=_reproducer(audit, search, found, cut),
        candidate_line=shown_line(audit, theirs.path, theirs.line) if theirs else "",
    )
    return Located(first, local_measurement(first, _comparison(search, found, first), candidate))


def _comparison(search: Search, found: Found, first: FirstDivergence) -> TensorComparison | None:
    """The comparison with its floor, for which the reference runs again; only where the local error is known."""
    if first.local_error is None or found.pair is None or found.array is None or found.view is None:
        return None
    return search.judge.compare(found.pair[0].name, found.array, found.view)


def _cut(audit: Audit, search: Search, found: Found) -> dict[str, Any] | None:
    """The candidate's operations between the agreed values and the pair that was compared, to be fed with the
    reference's values. Only an ONNX graph can be cut so."""
    side = search.candidate.side
    if audit.pool is None or not side.is_graph or found.pair is None or not found.front:
        return None
    feeds = dict(_feeds(audit.pool, search, found.front))
    if feeds.keys() != found.front.keys():
        return None
    return {**side.params, "feeds": feeds, "outputs": [found.pair[1].name]}


def _feeds(pool: Pool, search: Search, front: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The reference's values in the layout and dtype of the candidate's."""
    for theirs, ours in front.items():
        arrays = search.judge.arrays(ours, theirs)
        if arrays is None:
            continue
        array, like = arrays
        view = matching_view(like, array, closeness(like, PROPOSED_NARROW))
        if view is not None:
            yield theirs, pool.put(view.astype(like.dtype))


def _local_error(audit: Audit, search: Search, found: Found, cut: Mapping[str, Any] | None) -> float | None:
    if cut is None or audit.pool is None or found.array is None or found.pair is None:
        return None
    outcome = audit.pool.run(search.candidate.side.role, "onnxruntime.subgraph", cut)
    made = (outcome.result or {}).get("outputs", {}).get(found.pair[1].name)
    view = None if made is None else nearest_view(found.array, audit.pool.get(made))
    return None if view is None else largest_difference(found.array, view)


def _reproducer(audit: Audit, search: Search, found: Found, cut: Mapping[str, Any] | None) -> str:
    folder = reproducer_folder(audit)
    if cut is None or audit.pool is None or not folder or found.array is None or found.pair is None:
        return ""
    expected = _in_layout_of(audit.pool, search, found.array, found.pair)
    request = {**cut, "save": folder, "expected": {found.pair[1].name: expected} if expected else None}
    outcome = audit.pool.run(search.candidate.side.role, "onnxruntime.subgraph", request)
    return str((outcome.result or {}).get("reproducer") or "")


def _in_layout_of(pool: Pool, search: Search, array: Any, pair: tuple[Value, Value]) -> Any:
    arrays = search.judge.arrays(pair[0].name, pair[1].name)
    view = None if arrays is None else nearest_view(arrays[1], array)
    return None if view is None else pool.put(view)
