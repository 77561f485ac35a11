"""Run the reference and the candidates on every input set, and on every device that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tensoraudit.audit.frameworks import framework_of
from tensoraudit.audit.layouts import argument_names, as_candidate
from tensoraudit.audit.modes import run_modes
from tensoraudit.audit.probing import has_nan, read_runs, wire
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.state import Audit, Candidate, Run, Sample
from tensoraudit.facts import Measurement
from tensoraudit.findings.result import Probe
from tensoraudit.probes.outcome import Outcome, lacks_memory

PERTURBATIONS = 3
"""Draws of one-ULP input noise, as the comparator's contract asks."""

OWN_SAMPLE = "sample-"
"""Input sets that the user gave: one that the reference refuses was asked for and could not be judged."""

EVALUATOR = "onnxruntime.reference"
"""The job of the NumPy evaluator of onnx."""

LEVELS = ("basic", "extended", "all")
PROVIDERS: Mapping[str, tuple[str, ...]] = {"cpu": ("cpu",), "cuda": ("cpu", "cuda"), "all": ("cpu", "cuda")}
"""The CPU always runs: it is where the oracle and the floor come from."""


def run_reference(audit: Audit) -> Audit:
    """Reference twice, in double precision, and with inputs moved by one ULP."""
    if audit.reference is None or not audit.samples or audit.pool is None:
        return audit
    audit = _run_reference(audit)
    assert audit.reference is not None
    return _stand_in(audit) if audit.reference.job == EVALUATOR and not usable_samples(audit) else audit


def _stand_in(audit: Audit) -> Audit:
    """Where the NumPy evaluator cannot run a file at all, ONNX Runtime without optimisations takes its place: what
    differs from that is still a fault, but what agrees shows nothing, for both share their kernels."""
    assert audit.reference is not None
    why = next((run.error for run in audit.reference_runs.values() if run.error), audit.probes[-1].reason)
    reason = (
        f"the NumPy evaluator of onnx cannot run this file ({why}); nothing else here is independent of the runtime"
    )
    row = probe_row("reference.outputs", "onnx.reference", "cpu", "failed", reason, required=True)
    side = replace(audit.reference, job="onnxruntime.run", label="onnxruntime/cpu")
    return _run_reference(audit.add(reference=side, probes=(row,)))


def _run_reference(audit: Audit) -> Audit:
    assert audit.reference is not None
    audit.progress(f"running the reference on {len(audit.samples)} input sets")
    outcome = _run_framework(audit)
    result = outcome.result or {}
    framework = audit.reference.label.split("/")[0]
    runs = {name: _usable(audit, each) for name, each in read_runs(result).items()}
    return audit.add(
        reference_runs=runs,
        probes=(
            probe_row("reference.run", framework, "cpu", outcome, required=True),
            *(
                probe_row(f"reference.{name}", framework, "cpu", "failed", run.error, required=True)
                for name, run in runs.items()
                if run.error and name.startswith(OWN_SAMPLE)
            ),
        ),
        settings={"reference": result.get("settings", {})},
        notes=tuple(_remarks(result)),
        measurements=(
            Measurement("reference.state_changed", "model", result.get("state_changed", []), probe=audit.reference.job),
        )
        if result
        else (),
    )


def _remarks(result: Mapping[str, Any]) -> Iterator[str]:
    once = result.get("set_once", [])
    if once:
        yield (
            f"the first forward pass sets {', '.join(once)}; later ones leave it alone and give the same results, so "
            "it does not count as state"
        )
    named = [f"{name} ({kind})" for name, kind in result.get("left_out", {}).items()]
    if named:
        yield f"results that are no tensors are not compared, and converters drop or freeze them: {', '.join(named)}"


def _usable(audit: Audit, run: Run) -> Run:
    """The NumPy evaluator is our witness, not the user's model: where it gives NaN it has nothing to say."""
    assert audit.pool is not None and audit.reference is not None
    if not run.error and run.oracle is None and run.perturbed_by == "weights" and _is_edge(audit, run.sample):
        return replace(run, error="without an oracle nothing tells how large the noise of zeros is")
    if audit.reference.job != EVALUATOR or run.error or not has_nan(audit.pool, run):
        return run
    return replace(run, error="the evaluator gives NaN")


def _is_edge(audit: Audit, name: str) -> bool:
    return any(sample.name == name and sample.kind == "edge" for sample in audit.samples)


def _run_framework(audit: Audit) -> Outcome:
    assert audit.pool is not None and audit.reference is not None
    params = {
        **_device(audit.reference.role, "cpu", level="disable"),
        **audit.reference.params,
        "inputs": [wire(audit.pool, sample) for sample in audit.samples],
        "repeat": 2,
        "oracle": True,
        "perturbations": PERTURBATIONS,
        "seed": audit.options.seed,
    }
    return audit.pool.run(audit.reference.role, audit.reference.job, params)


def usable_samples(audit: Audit) -> list[Sample]:
    """The input sets that the reference itself accepts: only these say anything about a candidate."""
    return [s for s in audit.samples if s.name in audit.reference_runs and not audit.reference_runs[s.name].error]


def _samples_for(audit: Audit, candidate: Candidate) -> list[Sample]:
    """The input sets that a candidate is for: one of fixed sizes takes no others."""
    return [sample for sample in usable_samples(audit) if not (candidate.fixed and sample.kind == "size")]


def run_candidates(audit: Audit) -> Audit:
    """Every candidate on the CPU, and on CUDA where that was asked for or is there."""
    if not usable_samples(audit):
        return _no_reference(audit)
    for candidate in audit.candidates:
        audit.progress(f"running {candidate.name}")
        audit = _run_candidate(audit, candidate, "cpu", required=candidate.ships)
        if candidate.ships:
            audit = _run_cuda(_run_levels(audit, candidate), candidate)
    return _run_reference_on_cuda(run_modes(audit, usable_samples(audit)))


def _run_reference_on_cuda(audit: Audit) -> Audit:
    """The reference itself on the other device, judged like a candidate: what differs there no conversion did."""
    if audit.reference is None or not framework_of(audit.reference.role).can("cuda"):
        return audit
    twin = Candidate("reference", audit.reference.role, audit.reference.params, audit.options.target[0], ships=False)
    return _run_cuda(audit, twin).add(candidates=(twin,))


def _no_reference(audit: Audit) -> Audit:
    failed = [run for run in audit.reference_runs.values() if run.error]
    if not failed:
        return audit
    label = audit.reference.label.split("/")[0] if audit.reference else ""
    reason = f"the reference itself fails, whatever the input set; {failed[0].sample}: {failed[0].error}"
    reason = f"{reason}. {failed[0].remedy.rstrip('.')}" if failed[0].remedy else reason
    return audit.add(probes=(probe_row("reference.outputs", label, "cpu", "failed", reason, required=True),))


def _run_candidate(audit: Audit, candidate: Candidate, device: str, *, required: bool) -> Audit:
    outcome = _speaking(_submit(audit, candidate, device).of_the_model)
    runs = read_runs(outcome.result)
    label = _label(candidate, device)
    result = outcome.result or {}
    loads = outcome.status == "ok"
    measured: list[Measurement] = []
    if outcome.status in {"ok", "failed"} and device == "cpu":
        measured = [_session(candidate, "session.loads", loads)]
        measured += [] if loads else [_session(candidate, "session.error", outcome.reason)]
    return audit.add(
        candidate_runs={f"{candidate.name}/{device}": runs},
        # A session that cannot be created on the CPU has run and measured something: the finding says so.
        probes=(
            probe_row(
                f"run.{candidate.name}",
                label,
                device,
                outcome,
                required=required and (device != "cpu" or outcome.status != "failed"),
                target=candidate.target,
            ),
            *_starved(candidate, device, runs, required=required),
        ),
        measurements=tuple(measured),
        settings={label: result.get("settings", {})},
        notes=tuple(_real_views(candidate, result)) if device == "cpu" else (),
    )


def _real_views(candidate: Candidate, result: Mapping[str, Any]) -> Iterator[str]:
    names = dict.fromkeys(name for row in result.get("runs", ()) for name in row.get("real_views", ()))
    if names:
        yield (
            f"{', '.join(names)} is complex in the sample, and {candidate.name} takes pairs of real numbers: it got "
            "the real and the imaginary parts along a further last axis of 2"
        )


def _speaking(outcome: Outcome) -> Outcome:
    """A run that ends well and gives nothing is no pass."""
    rows = (outcome.result or {}).get("runs", ())
    if outcome.status != "ok" or any(row.get("outputs") or row.get("error") for row in rows):
        return outcome
    return replace(outcome, status="unsupported", reason="gave no output for any input set: nothing was compared")


def _starved(candidate: Candidate, device: str, runs: Mapping[str, Run], *, required: bool) -> Iterator[Probe]:
    """A row for each input set that this machine is too small for: that says nothing of the model."""
    for name, run in runs.items():
        if lacks_memory(run.error):
            row = f"run.{candidate.name}.{name}"
            label = _label(candidate, device)
            yield probe_row(row, label, device, "crashed", run.error, required=required, target=candidate.target)


def _session(candidate: Candidate, metric: str, value: Any) -> Measurement:
    probe = framework_of(candidate.framework).job("run")
    return Measurement(metric, candidate.name, value, probe=probe, side="target", target=candidate.target)


def _label(candidate: Candidate, device: str) -> str:
    return f"{candidate.framework.partition(':')[0]}/{device}"


def _submit(audit: Audit, candidate: Candidate, device: str) -> Outcome:
    assert audit.pool is not None
    names = argument_names(audit, candidate)
    samples = [wire(audit.pool, as_candidate(candidate, names, each)) for each in _samples_for(audit, candidate)]
    return audit.pool.run(
        candidate.framework,
        framework_of(candidate.framework).job("run"),
        {**candidate.params, **_device(candidate.framework, device), "inputs": samples, "repeat": 2},
    )


def _device(role: str, device: str, level: str = "all") -> dict[str, Any]:
    """How a plain run on a device is asked for; `level` is ONNX Runtime's optimisation."""
    if framework_of(role).role == "onnxruntime":
        return {"provider": device, "level": level}
    return {"device": device, "oracle": False, "perturbations": 0}


def _run_cuda(audit: Audit, candidate: Candidate) -> Audit:
    """CUDA where present. Absent, it is `missing` with the reason; required only when the user asked for it."""
    required = "cuda" in PROVIDERS[audit.options.device]
    assert audit.pool is not None
    hello = audit.pool.hello(candidate.framework).result or {}
    if "cuda" not in [device["kind"] for device in hello.get("devices", ())]:
        default = f"no CUDA device is active in the {candidate.framework} worker"
        reason = hello.get("inactive", {}).get("cuda", default)
        row = probe_row(
            f"run.{candidate.name}",
            _label(candidate, "cuda"),
            "cuda",
            "missing",
            reason,
            required=required,
            target=candidate.target,
        )
        return audit.add(probes=(row,))
    return _run_candidate(audit, candidate, "cuda", required=required)


def _level_runs(sample: str, level: Mapping[str, Any]) -> dict[str, Run]:
    """The runs of one level; a level at which the file does not load is a failed run."""
    if error := level.get("error"):
        return {sample: Run(sample, {}, {}, error=error["message"])}
    return read_runs(level)


def _run_levels(audit: Audit, candidate: Candidate) -> Audit:
    """ONNX Runtime's optimisation levels on the first input set; judged against each other later."""
    if framework_of(candidate.framework).role != "onnxruntime" or not audit.candidate_runs.get(f"{candidate.name}/cpu"):
        return audit
    assert audit.pool is not None
    first = wire(audit.pool, as_candidate(candidate, candidate.inputs, _samples_for(audit, candidate)[0]))
    request = {**candidate.params, "inputs": [first], "repeat": 2}
    outcome = audit.pool.run(candidate.framework, "onnxruntime.levels", request)
    levels = (outcome.result or {}).get("levels", {})
    runs: dict[str, dict[str, Run]] = {
        f"{candidate.name}/level:{name}": _level_runs(first["name"], level) for name, level in levels.items()
    }
    row = probe_row(f"levels.{candidate.name}", "onnxruntime", "cpu", outcome, required=True, target=candidate.target)
    return audit.add(candidate_runs=runs, probes=(row,))
