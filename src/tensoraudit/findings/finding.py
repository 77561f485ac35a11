"""A rule that matched, with the state of our knowledge about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tensoraudit.facts import Measurement, Site


class Severity(StrEnum):
    """How bad it is when it is true."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class State(StrEnum):
    """How sure we are. The first three come from the match alone, the next four from probes; advice never counts."""

    CERTAIN = "certain"
    LIKELY = "likely"
    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    CONTRADICTORY = "contradictory"
    UNVERIFIED = "unverified"
    ADVICE = "advice"


class Layer(StrEnum):
    """Which abstraction leaks."""

    GRAPH = "graph"
    MEMORY = "memory"
    HARDWARE = "hardware"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as every report shows it.

    `reason` says why a state is unverified or suspected. `also` names rules that touch the same place and gave way to
    this one; `causes` names findings (by rule id) that may explain a measured divergence. `fingerprint` holds no line
    number, so that a moved line is the same finding.
    """

    rule: str
    title: str
    severity: Severity
    state: State
    layer: Layer
    target: str
    where: Site
    message: str
    why: str = ""
    remedy: str = ""
    fix: str = ""
    references: tuple[str, ...] = ()
    evidence: tuple[Measurement, ...] = ()
    fingerprint: str = ""
    reason: str = ""
    also: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
