"""Find the first operation that goes wrong, for each candidate that ships and the input set on which it fails first.

By names, where both sides carry them (`localise_by_name`: a PyTorch model against its own export); else, and where
names show nothing, by values (`localise_by_value`: any two sides whose workers can trace).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.localise_by_name import search_by_name
from tensoraudit.audit.localise_found import Located
from tensoraudit.audit.localise_report import search_by_value
from tensoraudit.audit.localise_sides import can_trace
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.findings.result import Equivalence
from tensoraudit.probes.outcome import Outcome

WRONG = frozenset({"drift", "break"})
ORDER = ("user", "random", "size", "edge")
"""Kinds of input sets, the most telling first."""

SAME = "every value that both sides hold agrees, so that no operation can be named"


def localise(audit: Audit) -> Audit:
    """Attach the first divergence to the rows that fail, and measure the operation's own error."""
    for candidate in audit.candidates:
        if candidate.ships and (failing := _failing(audit, candidate)):
            audit = _localise(audit, candidate, failing)
    return audit


def _failing(audit: Audit, candidate: Candidate) -> list[Equivalence]:
    kinds = {sample.name: sample.kind for sample in audit.samples}
    bad = [row for row in audit.equivalence if _is_of(row, candidate) and row.verdict in WRONG and row.inputs in kinds]
    return sorted(bad, key=lambda row: ORDER.index(kinds[row.inputs]))


def _is_of(row: Equivalence, candidate: Candidate) -> bool:
    label = candidate.label or f"{candidate.framework.partition(':')[0]}/cpu"
    return row.candidate == f"{candidate.name}@{label}" and row.what == "output" and row.target == candidate.target


def _localise(audit: Audit, candidate: Candidate, failing: Sequence[Equivalence]) -> Audit:
    if audit.reference is None or audit.pool is None:
        return audit
    for role in (audit.reference.role, candidate.framework):
        if not can_trace(role):
            reason = framework_of(role).lacks("trace")
            return _told(audit, candidate, Outcome("unsupported", reason=reason), role)
    audit.progress(f"looking for the first diverging operation of {candidate.name}")
    found = _search(audit, candidate, failing)
    if isinstance(found, Outcome):
        return _told(audit, candidate, found, candidate.framework)
    audit = _told(audit, candidate, Outcome("ok", reason="" if found else SAME), candidate.framework)
    return audit if found is None else _record(audit, candidate, failing[0].inputs, found)


def _told(audit: Audit, candidate: Candidate, outcome: Outcome, role: str) -> Audit:
    row = probe_row("localise", role.partition(":")[0], "cpu", outcome, target=candidate.target)
    return audit.add(probes=(row,))


def _search(audit: Audit, candidate: Candidate, failing: Sequence[Equivalence]) -> Located | Outcome | None:
    assert audit.reference is not None
    sample = next(each for each in audit.samples if each.name == failing[0].inputs)
    roles = framework_of(audit.reference.role).role, framework_of(candidate.framework).role
    if roles == ("pytorch", "onnxruntime"):
        found = search_by_name(audit, candidate, sample)
        if found is not None:
            return found
    outputs = [row.tensor for row in failing if row.inputs == sample.name]
    return search_by_value(audit, candidate, sample, outputs)


def _record(audit: Audit, candidate: Candidate, sample: str, found: Located) -> Audit:
    rows = tuple(
        replace(row, first_divergence=found.first)
        if _is_of(row, candidate) and row.inputs == sample and row.verdict in WRONG
        else row
        for row in audit.equivalence
    )
    return replace(audit, equivalence=rows).add(
        divergences={candidate.name: found.first}, measurements=found.measurements
    )
