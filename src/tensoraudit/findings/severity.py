"""How much a finding counts. The one place that knows which states are open and which count one step milder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tensoraudit.findings.finding import Finding, Severity, State

NONE: Final = "none"

RANKS: Final[Mapping[str, int]] = {NONE: 0, "low": 1, "medium": 2, "high": 3, "critical": 4}
"""Severities from harmless to bad; `none` is the absence of any."""

_BY_RANK: Final = tuple(RANKS)

MILDER: Final = frozenset({State.SUSPECTED, State.UNVERIFIED})
"""States that count one step milder, because nobody has shown yet that the finding is true."""

NOT_OPEN: Final = frozenset({State.REFUTED, State.ADVICE})
"""States that count nowhere: shown to be false, or a note about what to do elsewhere."""


def is_open(finding: Finding) -> bool:
    """Tell whether a finding still claims something."""
    return finding.state not in NOT_OPEN


def counted(finding: Finding) -> str:
    """Return the severity that a finding counts with: its own, one step milder, or `none`."""
    if not is_open(finding):
        return NONE
    return _BY_RANK[RANKS[finding.severity] - (finding.state in MILDER)]


def worst(severities: Iterable[str]) -> str:
    """Return the worst of some severities, `none` when there is none."""
    return max(severities, key=RANKS.__getitem__, default=NONE)


def order_key(finding: Finding) -> tuple[object, ...]:
    """Return a key that sorts findings as a reader wants them: worst first, then by rule and place."""
    where = finding.where
    return (
        -RANKS[counted(finding)],
        -RANKS[finding.severity],
        finding.rule,
        finding.target,
        where.path or "",
        where.cell or 0,
        where.line or 0,
        where.column or 0,
        where.node or "",
        where.tensor or "",
        where.variable or "",
        finding.message,
        finding.fingerprint,
    )


def worse_of(first: Severity, second: Severity) -> Severity:
    """Return the worse of two severities."""
    return first if RANKS[first] >= RANKS[second] else second
