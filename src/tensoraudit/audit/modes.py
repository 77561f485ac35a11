"""The other ways in which a reference can run itself, compiled or not: evidence beside what ships.

What differs there no conversion did: a compiler, Python that ran only while a function was traced, or, for an ONNX
file, an implementation that shares no code with the runtime. A new mode is a row here and a parameter of `<role>.run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.probing import read_runs, wire
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate, Sample
from tensoraudit.equivalence.verdict import Verdict

SAMPLES = 2
"""Input sets on which a mode is evidence; each costs a compilation where their sizes differ."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One other way to run a model of a framework.

    `params` go to its job, `says` ends the sentence "the reference gives other results ...". `ships` marks the one that
    decides when the framework itself is the target. `costly` ones run only then. `label` is who runs it, where that is
    not the worker.
    """

    name: str
    params: Mapping[str, Any]
    says: str
    ships: bool = False
    costly: bool = False
    job: str = "run"
    label: str = ""


MODES: Mapping[str, tuple[Mode, ...]] = {
    "pytorch": (Mode("compiled", {"compiled": True}, "under torch.compile", ships=True, costly=True),),
    "tensorflow": (
        Mode("eager", {"mode": "eager"}, "operation by operation"),
        Mode("xla", {"mode": "xla"}, "compiled by XLA", ships=True),
    ),
    "jax": (Mode("eager", {"jit": False}, "without jit", ships=True),),
    "onnxruntime": (
        Mode("numpy", {"limit": 60.0}, "in the NumPy evaluator of onnx", job="reference", label="onnx.reference"),
    ),
}
"""By the role of the worker. torch.compile is costly: 50 s for a network of five layers, against 2 s for all its runs.
The reference of a JAX model is compiled itself, so that the mode without jit is what it is held against."""


def run_modes(audit: Audit, samples: Sequence[Sample]) -> Audit:
    """Run the reference in its other modes on the first of the samples, as candidates that do not ship."""
    if audit.reference is None:
        return audit
    for mode in _evidence(audit):
        audit = _run_mode(audit, mode, samples[:SAMPLES])
    return audit


def _evidence(audit: Audit) -> Iterator[Mode]:
    assert audit.reference is not None
    known = {candidate.name for candidate in audit.candidates}
    framework = framework_of(audit.reference.role)
    for mode in MODES.get(framework.role, ()):
        if not mode.costly and mode.name not in known and framework.job(mode.job) != _own_job(audit, mode):
            yield mode


def _own_job(audit: Audit, mode: Mode) -> str:
    """The job of the reference, if the mode is nothing but that job."""
    assert audit.reference is not None
    return audit.reference.job if mode.job != "run" else ""


def _run_mode(audit: Audit, mode: Mode, samples: Sequence[Sample]) -> Audit:
    assert audit.reference is not None and audit.pool is not None
    audit.progress(f"running the reference {mode.says}")
    reference = audit.reference
    job = framework_of(reference.role).job(mode.job)
    params = {**reference.params, **mode.params}
    request = {
        **params,
        "device": "cpu",
        "oracle": False,
        "perturbations": 0,
        "repeat": 2,
        "seed": audit.options.seed,
        "inputs": [wire(audit.pool, sample) for sample in samples],
    }
    outcome = audit.pool.run(reference.role, job, request)
    target = audit.options.target[0]
    label = f"{mode.label or framework_of(reference.role).role}/cpu"
    row = probe_row(f"run.{mode.name}", label, "cpu", outcome, required=False, target=target)
    twin = Candidate(mode.name, reference.role, params, target, ships=False, label=label)
    runs = {f"{mode.name}/cpu": read_runs(outcome.result)}
    return audit.add(candidates=(twin,), candidate_runs=runs, probes=(row,))


def mode_candidates(audit: Audit, target: str) -> tuple[Candidate, ...]:
    """Return the reference's other modes as candidates, for a model whose target is its own framework."""
    assert audit.reference is not None
    role = audit.reference.role
    return tuple(
        Candidate(mode.name, role, {**audit.reference.params, **mode.params}, target, ships=mode.ships)
        for mode in MODES.get(framework_of(role).role, ())
        if mode.job == "run"
    )


def mode_notes(audit: Audit) -> Iterator[str]:
    """Yield a note for each mode that gives other results: which of them is meant, the model's author knows."""
    evidence = {candidate.name for candidate in audit.candidates if not candidate.ships}
    role = framework_of(audit.reference.role).role if audit.reference else ""
    for mode in MODES.get(role, ()):
        rows = [row for row in audit.equivalence if row.candidate.startswith(f"{mode.name}@")]
        wrong = [row for row in rows if row.verdict in {str(Verdict.DRIFT), str(Verdict.BREAK)}]
        if wrong and mode.name in evidence:
            places = ", ".join(dict.fromkeys(f"{row.tensor} on {row.inputs}" for row in wrong[:3]))
            yield f"the reference gives other results {mode.says} ({places}): {wrong[0].reason}"
