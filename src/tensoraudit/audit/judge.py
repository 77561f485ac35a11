"""Compare what both sides gave, and turn every comparison into a row of the report and into measurements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.audit.complex_parts import parts_of
from tensoraudit.audit.execute import LEVELS
from tensoraudit.audit.layouts import as_reference, output_pairs
from tensoraudit.audit.modes import mode_notes
from tensoraudit.audit.probing import logical_dtypes, open_arrays
from tensoraudit.audit.state import Audit, Candidate, Run, Sample
from tensoraudit.equivalence.comparison import Comparison, compare_arrays
from tensoraudit.equivalence.pairing import pair_outputs
from tensoraudit.equivalence.tensor import TensorComparison, repeats
from tensoraudit.equivalence.verdict import Verdict
from tensoraudit.facts import Measurement
from tensoraudit.findings.result import Equivalence
from tensoraudit.probes.outcome import lacks_memory

Worst = dict[str, tuple[Sample, TensorComparison]]
"""Outputs by name, each as on the input set on which it came out worst."""


def judge(audit: Audit) -> Audit:
    """Judge every candidate against the reference, each side against itself, and the optimisation levels."""
    audit.progress("comparing")
    audit = audit.add(measurements=tuple(_reference_determinism(audit)))
    for candidate in audit.candidates:
        for key, runs in audit.candidate_runs.items():
            name, _, where = key.partition("/")
            if name == candidate.name and not where.startswith("level:"):
                audit = _judge_runs(audit, candidate, where, runs)
        if candidate.ships:
            audit = _judge_levels(audit, candidate)
    return audit.add(notes=(*mode_notes(audit), *_constant_outputs(audit)))


def _constant_outputs(audit: Audit) -> Iterator[str]:
    if audit.pool is None:
        return
    runs = [audit.reference_runs[each.name] for each in audit.samples if each.name in audit.reference_runs]
    yield from constant_outputs([open_arrays(audit.pool, run.outputs) or {} for run in runs])


def constant_outputs(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a note for each floating output (name to array, a mapping for each input set) that is one and the same
    number whatever goes in, and for each that is always empty: two sides that agree on it prove next to nothing."""
    for name in runs[0] if len(runs) > 1 else ():
        given = [outputs[name] for outputs in runs if name in outputs]
        arrays = [array for array in given if array.size]
        if not arrays:
            yield f"output {name} has no element for any input set, so that nothing of it is compared"
        numbers = {value for array in arrays if array.dtype.kind == "f" for value in (array.min(), array.max())}
        if len(numbers) == 1 and sum(array.size for array in arrays) > len(arrays):
            yield (
                f"output {name} is {numbers.pop():.6g} in every element for every input set, so that comparing it "
                "shows next to nothing; audit trained weights, or give inputs that move it"
            )


def _judge_runs(audit: Audit, candidate: Candidate, device: str, runs: Mapping[str, Run]) -> Audit:
    samples = {sample.name: sample for sample in audit.samples}
    where = candidate.label or f"{candidate.framework.partition(':')[0]}/{device}"
    label = f"{candidate.name}@{where}"
    compared = {
        name: compare_runs(audit, audit.reference_runs[name], run, candidate)
        for name, run in runs.items()
        if not run.error
    }
    failed = {name: run for name, run in runs.items() if run.error}
    audit = audit.add(
        equivalence=(
            *(row for name, comparison in compared.items() for row in _rows(audit, candidate, label, name, comparison)),
            *(_not_run(audit, candidate, label, name, run.error) for name, run in failed.items()),
        )
    )
    if not candidate.ships:
        return audit
    stable = _stable(audit, runs.values())
    return audit.add(
        notes=tuple(_edges_left_open([(samples[name], c) for name, c in compared.items()])),
        measurements=(
            *(row for name, run in failed.items() for row in _failure(candidate, samples[name], run)),
            *(
                _size_verdict(candidate, samples[name], c)
                for name, c in compared.items()
                if samples[name].kind == "size"
            ),
            *_output_measurements(audit, candidate, [(samples[n], c) for n, c in compared.items()]),
            *(_determinism("candidate.deterministic", word, candidate) for word in stable),
        ),
    )


def compare_runs(audit: Audit, reference: Run, candidate: Run, of: Candidate | None = None) -> Comparison:
    """One run of each side, with the floor's ingredients that the reference run brought, and what is known of the
    names and layouts `of` the candidate."""
    assert audit.pool is not None
    pool = audit.pool
    outputs = open_arrays(pool, reference.outputs) or {}
    others = as_reference(pool, of, candidate.outputs)
    pairs = output_pairs(of, outputs)
    reasons, hidden = _unmeasured(outputs, others, pairs)
    measured, theirs = _without(outputs, reasons), _without(others, hidden)
    if reasons and not measured and not theirs:
        return Comparison(_unverified(reasons))
    found = compare_arrays(
        measured,
        theirs,
        oracle=_without(open_arrays(pool, reference.oracle), reasons),
        tolerance=audit.options.tolerance,
        perturbed=[_without(open_arrays(pool, draw), reasons) for draw in reference.perturbed if draw is not None],
        reference_repeat=_without(open_arrays(pool, reference.repeat), reasons) or None,
        candidate_repeat=_without(as_reference(pool, of, candidate.repeat), hidden) or None,
        reference_dtypes=logical_dtypes(reference.outputs),
        candidate_dtypes=logical_dtypes(candidate.outputs),
        pairs=pairs,
    )
    return replace(found, outputs=(*found.outputs, *_unverified(reasons)))


def _without(arrays: Mapping[str, Any] | None, names: Collection[str]) -> dict[str, Any]:
    return {name: array for name, array in (arrays or {}).items() if name not in names}


def _unverified(reasons: Mapping[str, str]) -> tuple[TensorComparison, ...]:
    return tuple(TensorComparison(name, name, Verdict.UNVERIFIED, reason) for name, reason in reasons.items())


def _unmeasured(
    outputs: Mapping[str, Any], others: Mapping[str, Any], known: Mapping[str, str]
) -> tuple[dict[str, str], set[str]]:
    """Why outputs cannot be compared, by name, and the candidate's names for them: complex numbers have no measure here
    yet. What else there is, is compared."""
    if not any(map(_is_odd, (*outputs.values(), *others.values()))):
        return {}, set()
    own, theirs = ({name: parts_of(array) for name, array in side.items()} for side in (outputs, others))
    paired = {pair.reference: pair.candidate for pair in pair_outputs(own, theirs, known).pairs}
    reasons = {
        name: _reason(name, *(each for each in (array, others.get(paired.get(name, ""))) if each is not None))
        for name, array in outputs.items()
    }
    reasons = {name: reason for name, reason in reasons.items() if reason}
    hidden = {paired[name] for name in reasons if name in paired}
    extra = {name: _reason(name, array) for name, array in others.items() if _is_odd(array) and name not in hidden}
    return {**reasons, **extra}, hidden | extra.keys()


def _is_odd(array: Any) -> bool:
    return array.dtype.kind not in "biuf"


def _reason(name: str, *arrays: Any) -> str:
    odd = next((array for array in arrays if _is_odd(array)), None)
    return "" if odd is None else f"output {name} is {odd.dtype}, which cannot be compared yet"


def _rows(audit: Audit, candidate: Candidate, label: str, sample: str, comparison: Comparison) -> Iterator[Equivalence]:
    for output in comparison.outputs:
        yield Equivalence(
            reference=audit.reference.label if audit.reference else "",
            candidate=label,
            what="output",
            tensor=output.name,
            inputs=sample,
            verdict=str(output.verdict),
            linf=_number(output.metrics.linf if output.metrics else None),
            error_ratio=_number(output.error_ratio),
            ulp=_number(output.metrics.max_ulp if output.metrics else None),
            top1_changes=output.top1_changes,
            reason=output.reason,
            target=candidate.target,
            notes=tuple(note.text for note in output.notes),
        )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _not_run(audit: Audit, candidate: Candidate, label: str, sample: str, reason: str) -> Equivalence:
    reference = audit.reference.label if audit.reference else ""
    return Equivalence(reference, label, "output", "*", sample, "unverified", reason=reason, target=candidate.target)


def _measure(metric: str, subject: str, value: Any, candidate: Candidate, detail: str = "") -> Measurement:
    return Measurement(metric, subject, value, probe="forward", side="target", target=candidate.target, detail=detail)


def _failure(candidate: Candidate, sample: Sample, run: Run) -> Iterator[Measurement]:
    """The reference ran and the candidate did not: that is a measured failure, at these sizes or at all; unless the
    machine was too small, which a probe's row says."""
    if lacks_memory(run.error):
        return
    if sample.kind == "size":
        yield _measure("sizes.error", sample.name, run.error, candidate)
        yield _measure("sizes.verdict", sample.name, "break", candidate, run.error)
    else:
        yield _measure("run.error", sample.name, run.error, candidate)


def _size_verdict(candidate: Candidate, sample: Sample, comparison: Comparison) -> Measurement:
    worst = comparison.worst
    return _measure(
        "sizes.verdict", sample.name, str(comparison.verdict), candidate, worst.reason if worst is not None else ""
    )


def _output_measurements(
    audit: Audit, candidate: Candidate, compared: list[tuple[Sample, Comparison]]
) -> Iterator[Measurement]:
    """One set of measurements per output: those of the input set on which it came out worst.

    Edge inputs speak for themselves, and only where they come out worse than every ordinary one: a fault that only they
    show is another fault. The places of a saturated top-k cannot be told there, which takes nothing from what ordinary
    ones showed; a row and a note say so. Other sizes have measurements of their own; they count here where the output
    is wrong at the first size already, for then it is one fault, as bad as it gets.
    """
    ordinary, edges = _ordinary_and_edges(compared)
    sizes = _worst((sample, c) for sample, c in compared if sample.kind == "size")
    for name, (_, output) in list(ordinary.items()):
        if output.verdict == Verdict.DRIFT and name in sizes and sizes[name][1].verdict == Verdict.BREAK:
            ordinary[name] = sizes[name]
    worse = {n: e for n, e in edges.items() if n not in ordinary or _is_worse(e[1], ordinary[n][1])}
    for name, (sample, output) in (*ordinary.items(), *worse.items()):
        nans = _count_nans(audit, candidate, sample.name, output)
        for metric, value in _quantities(sample, output, nans).items():
            if value is not None:
                yield _measure(metric, name, value, candidate, f"{sample.name}: {output.reason}")


def _ordinary_and_edges(compared: Sequence[tuple[Sample, Comparison]]) -> tuple[Worst, Worst]:
    ordinary = _worst((sample, c) for sample, c in compared if sample.kind not in {"edge", "size"})
    return ordinary, _worst((sample, c) for sample, c in compared if sample.kind == "edge")


def _edges_left_open(compared: Sequence[tuple[Sample, Comparison]]) -> Iterator[str]:
    """Say of which places of saturated scores edge inputs tell nothing, where the output passes on all others."""
    ordinary, edges = _ordinary_and_edges(compared)
    for name, (sample, output) in edges.items():
        if output.may_tie and name in ordinary and ordinary[name][1].verdict.passes:
            yield f"{sample.name} tells nothing of output {name}: {output.reason}"


def _is_worse(at_edges: TensorComparison, otherwise: TensorComparison) -> bool:
    return at_edges.verdict.rank > otherwise.verdict.rank and not (at_edges.may_tie and otherwise.verdict.passes)


def _worst(compared: Iterable[tuple[Sample, Comparison]]) -> Worst:
    worst: Worst = {}
    for sample, comparison in compared:
        for output in comparison.outputs:
            if output.name not in worst or _badness(output) > _badness(worst[output.name][1]):
                worst[output.name] = (sample, output)
    return worst


def _count_nans(audit: Audit, candidate: Candidate, sample: str, output: TensorComparison) -> tuple[int, int]:
    """NaN on each side of one output; looked at only when the comparison met any."""
    assert audit.pool is not None
    if output.metrics is None or not (output.metrics.nan_both or output.metrics.nan_mismatches):
        return 0, 0
    own = audit.candidate_runs[f"{candidate.name}/cpu"][sample].outputs[output.candidate_name]
    sides = audit.reference_runs[sample].outputs[output.name], own
    reference, other = (int(np.count_nonzero(np.isnan(audit.pool.get(ref)))) for ref in sides)
    return reference, other


def _badness(output: TensorComparison) -> tuple[int, float]:
    return output.verdict.rank, output.error_ratio or 0.0


def _quantities(sample: Sample, output: TensorComparison, nans: tuple[int, int]) -> dict[str, Any]:
    metrics = output.metrics
    # Edge inputs are meant to overflow: NaN on both sides there is the model's own answer.
    ordinary = metrics is not None and sample.kind != "edge"
    return {
        "output.verdict": str(output.verdict),
        "output.error_ratio": _number(output.error_ratio),
        "output.linf": _number(metrics.linf if metrics else None),
        "output.top1_changes": output.top1_changes,
        "output.nan_reference": nans[0] if ordinary else None,
        "output.nan_candidate": nans[1] if ordinary else None,
    }


def _determinism(
    metric: str, value: bool, candidate: Candidate | None, where: str = "default optimisation level"
) -> Measurement:
    target, side = (candidate.target, "target") if candidate else ("", "source")
    return Measurement(metric, "model", value, probe="forward", side=side, target=target, detail=where)  # type: ignore[arg-type]


def _reference_determinism(audit: Audit) -> Iterator[Measurement]:
    assert audit.pool is not None
    for word in _stable(audit, audit.reference_runs.values()):
        yield _determinism("reference.deterministic", word, None)


def _stable(audit: Audit, runs: Iterable[Run]) -> Iterator[bool]:
    """Yield whether second runs agree with the first; nothing where none was made, for that proves nothing."""
    again = [run for run in runs if not run.error and (run.repeat or run.repeat_error)]
    if again:
        yield all(not run.repeat_error and _repeats(audit, run) for run in again)


def _repeats(audit: Audit, run: Run) -> bool:
    assert audit.pool is not None
    first, second = open_arrays(audit.pool, run.outputs) or {}, open_arrays(audit.pool, run.repeat) or {}
    return all(repeats(array, second[name]) for name, array in first.items() if name in second)


def _judge_levels(audit: Audit, candidate: Candidate) -> Audit:
    """Each optimisation level against none, with the reference's floor: they compute the same graph."""
    base = audit.candidate_runs.get(f"{candidate.name}/level:disable", {})
    levels = {level: audit.candidate_runs.get(f"{candidate.name}/level:{level}", {}) for level in LEVELS}
    measured = [
        _measure("levels.verdict", level, _level_verdict(audit, candidate, base, runs), candidate)
        for level, runs in levels.items()
        if runs
    ]
    return audit.add(measurements=(*measured, *_level_determinism(audit, candidate, {"disable": base, **levels})))


def _level_determinism(
    audit: Audit, candidate: Candidate, levels: Mapping[str, Mapping[str, Run]]
) -> Iterator[Measurement]:
    """An optimiser can hide a random node: a file that repeats itself only when optimised is random elsewhere."""
    for level, runs in levels.items():
        if False in _stable(audit, runs.values()):
            yield _determinism("candidate.deterministic", False, candidate, f"optimisation level {level}")


def _level_verdict(audit: Audit, candidate: Candidate, base: Mapping[str, Run], runs: Mapping[str, Run]) -> str:
    verdicts = [_compare_level(audit, candidate, base[name], run) for name, run in runs.items() if name in base]
    return str(max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.UNVERIFIED))


def _compare_level(audit: Audit, candidate: Candidate, base: Run, run: Run) -> Verdict:
    assert audit.pool is not None
    if base.error or run.error:
        return Verdict.UNVERIFIED if base.error and run.error else Verdict.BREAK
    reference = audit.reference_runs[base.sample]
    names = _reference_names(audit, candidate, reference, base)
    outputs = _renamed(audit, candidate, base.outputs, names)
    others = _renamed(audit, candidate, run.outputs, names)
    if any(map(_is_odd, (*outputs.values(), *others.values()))):
        return Verdict.UNVERIFIED
    comparison = compare_arrays(
        outputs,
        others,
        oracle=_in_parts(audit, reference.oracle, outputs),
        perturbed=[arrays for draw in reference.perturbed if (arrays := _in_parts(audit, draw, outputs)) is not None],
        candidate_repeat=_renamed(audit, candidate, run.repeat, names) or None,
        reference_repeat=_renamed(audit, candidate, base.repeat, names) or None,
    )
    return comparison.verdict


def _in_parts(audit: Audit, refs: Mapping[str, Any] | None, outputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The reference's own numbers, by which a floor is measured, as a file writes complex ones: in pairs of real
    numbers. What fits no output is left out."""
    assert audit.pool is not None
    opened = open_arrays(audit.pool, refs)
    if opened is None:
        return None
    pairs = {name: parts_of(array) for name, array in opened.items()}
    fit = {name for name, array in outputs.items() if name in pairs and array.shape == pairs[name].shape}
    return {name: array for name, array in pairs.items() if name in fit or opened[name].dtype.kind != "c"}


def _reference_names(audit: Audit, candidate: Candidate, reference: Run, run: Run) -> dict[str, str]:
    """What the reference calls each output of the candidate: its oracle and its moved runs go by these names."""
    assert audit.pool is not None
    outputs = open_arrays(audit.pool, reference.outputs) or {}
    own = as_reference(audit.pool, candidate, run.outputs)
    pairs = pair_outputs(outputs, own, output_pairs(candidate, outputs)).pairs
    return {pair.candidate: pair.reference for pair in pairs}


def _renamed(audit: Audit, candidate: Candidate, refs: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    assert audit.pool is not None
    return {names.get(name, name): each for name, each in as_reference(audit.pool, candidate, refs).items()}
