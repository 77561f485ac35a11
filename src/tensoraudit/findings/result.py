"""The one result of an audit, from which every report is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tensoraudit.checkpoints.paired import CheckpointDiff
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.facts import Site
from tensoraudit.facts.site import NOWHERE
from tensoraudit.findings.finding import Finding

SCHEMA = "tensoraudit-report/1"
Status = Literal["ok", "crashed", "timeout", "missing", "unsupported", "failed"]


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """The first operation whose inputs agree and whose output does not. Errors are L-infinity.

    `source_line` is the reference's, `candidate_line` the candidate's; "" where it is not known.
    """

    reference_node: str
    candidate_node: str
    source_line: str
    local_error: float | None
    cumulative_error: float | None
    reproducer: str = ""
    candidate_line: str = ""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """One compared tensor. `inputs` names the input set. Quantities that could not be measured are None."""

    reference: str
    candidate: str
    what: Literal["output", "gradient", "intermediate"]
    tensor: str
    inputs: str
    verdict: str
    linf: float | None = None
    error_ratio: float | None = None
    ulp: float | None = None
    top1_changes: int | None = None
    first_divergence: FirstDivergence | None = None
    reason: str = ""
    target: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """One run in a worker. `required` probes decide whether the audit could tell."""

    name: str
    framework: str
    version: str
    device: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    peak_memory: int | None = None
    required: bool = False
    target: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One route that was tried. `ships` marks the one that decides the grade. `cause` and `remedy` explain a failure;
    `details` holds stage, operator, source and traceback."""

    target: str
    route: str
    status: Status
    ships: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    cause: str = ""
    remedy: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """An operator of the model: how many nodes it has, and where the first stands."""

    op: str
    count: int
    at: Site = NOWHERE


@dataclass(frozen=True, slots=True)
class Migratability:
    """What the first converter of a route knows of the model's operators: of its types, and of its nodes.

    Totals are 0 where that cannot be told; `reason` says why. `custom` are operators that are not the framework's own.
    `control_flow` says what becomes of branches and loops. `converted`: the conversion succeeded, whatever the
    converter's registry says.
    """

    target: str
    route: str
    types_supported: int = 0
    types_total: int = 0
    nodes_supported: int = 0
    nodes_total: int = 0
    unsupported: tuple[OperatorUse, ...] = ()
    custom: tuple[OperatorUse, ...] = ()
    control_flow: str = "unknown"
    reason: str = ""
    converted: bool = False


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that the user silenced, with the reason given."""

    finding: Finding
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Result:
    """Everything an audit knows at its end. `layers` maps target -> layer -> worst open severity or "none".

    `checkpoint` is what `checkpoint show` or `--checkpoint` read, `checkpoint_diff` what `checkpoint diff` has found,
    `resume` how `checkpoint resume` ended (see docs/checkpoint-resume.md).
    """

    tool: Mapping[str, Any]
    artifact: Mapping[str, Any]
    targets: tuple[str, ...]
    grade: Mapping[str, str]
    exit_code: int
    layers: Mapping[str, Mapping[str, str]]
    findings: tuple[Finding, ...]
    equivalence: tuple[Equivalence, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    probes: tuple[Probe, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    fail_on: str = "high"
    migratability: tuple[Migratability, ...] = ()
    checkpoint: StoredCheckpoint | None = None
    checkpoint_diff: CheckpointDiff | None = None
    resume: Mapping[str, Any] = field(default_factory=dict)
