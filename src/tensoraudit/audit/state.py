"""What an audit knows so far: plain data that every step reads and extends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.checkpoints.ahead import Looked, Seen, nothing_ahead
from tensoraudit.checkpoints.paired import CheckpointDiff
from tensoraudit.checkpoints.schema import StoredCheckpoint
from tensoraudit.facts import Fact, Measurement
from tensoraudit.findings.finding import Finding
from tensoraudit.findings.result import Conversion, Equivalence, FirstDivergence, Migratability, Probe, Result
from tensoraudit.language.load import RuleSet
from tensoraudit.options import Options

if TYPE_CHECKING:
    from tensoraudit.probes.pool import Pool


Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs. `arrays` maps argument -> ndarray, or `{"value": ...}` for a Python scalar or None.

    `kind` says where it comes from: the user, a random draw at the same sizes, other sizes of dynamic dimensions, or
    edge values. `sizes` names the sizes of the dynamic dimensions.
    """

    name: str
    arrays: Mapping[str, Any]
    kind: Literal["user", "random", "size", "edge"]
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """What one side gave for one sample; outputs are tensor references of the pool.

    `repeat` is a second run, empty where none was made; `repeat_error` says that it failed after the first did not.
    `remedy` is what to do about `error`, where that is known.
    """

    sample: str
    outputs: Mapping[str, Any]
    repeat: Mapping[str, Any]
    oracle: Mapping[str, Any] | None = None
    oracle_reason: str = ""
    perturbed: tuple[Mapping[str, Any], ...] = ()
    error: str = ""
    source: Mapping[str, Any] | None = None
    perturbed_by: str = ""
    repeat_error: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on the target's side. `ships` marks the one whose results decide the grade.

    `inputs` and `outputs` are its own names in the order of the reference's, empty where they are not known; `layouts`
    what a converter has permuted (see `travel.Stop`). `label` is what reports print for where it runs, where that is
    not its worker. `fixed`: it was converted for the sizes of the sample alone, and is not run at others.
    """

    name: str
    framework: str
    params: Mapping[str, Any]
    target: str
    ships: bool
    path: Path | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    layouts: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    label: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """How to run one model: worker role, job, parameters, and the label that reports print (`pytorch/cpu`)."""

    role: str
    job: str
    params: Mapping[str, Any]
    label: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit between two steps. Tuples only grow; nothing is changed in place.

    `checkpoint` is what is looked at (of a diff the reference's), `other_checkpoint` the candidate's; `looked_ahead`
    hands out the latter where it was read meanwhile.
    """

    options: Options
    progress: Progress
    pool: Pool | None = None
    spec: str = ""
    against: str = ""
    artifact: Artifact | None = None
    candidate_artifact: Artifact | None = None
    facts: tuple[Fact, ...] = ()
    sources: tuple[Path, ...] = ()
    rules: RuleSet | None = None
    description: Mapping[str, Any] = field(default_factory=dict)
    dynamic: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    implicit_batch: bool = False
    samples: tuple[Sample, ...] = ()
    reference: Side | None = None
    reference_runs: Mapping[str, Run] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    candidate_runs: Mapping[str, Mapping[str, Run]] = field(default_factory=dict)
    conversions: tuple[Conversion, ...] = ()
    equivalence: tuple[Equivalence, ...] = ()
    migratability: tuple[Migratability, ...] = ()
    divergences: Mapping[str, FirstDivergence] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()
    probes: tuple[Probe, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resume: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    checkpoint: StoredCheckpoint | None = None
    other_checkpoint: StoredCheckpoint | None = None
    seen: tuple[Seen, ...] = ()
    looked_ahead: Looked = nothing_ahead
    checkpoint_diff: CheckpointDiff | None = None
    result: Result | None = None

    def add(self, **more: Any) -> Audit:
        """A copy with tuples extended, mappings updated, and everything else replaced."""
        merged = {key: _merge(getattr(self, key), value) for key, value in more.items()}
        return replace(self, **merged)


def _merge(old: Any, new: Any) -> Any:
    if isinstance(old, tuple):
        return (*old, *new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **new}
    return new
