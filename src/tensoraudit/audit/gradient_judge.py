"""Judge gradients: a gradient against a gradient, one that is missing, and one that has no partner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensoraudit.audit.gradient_sides import Arrays, Names, SideGradients, Translated
from tensoraudit.equivalence.comparison import Comparison, compare_arrays
from tensoraudit.equivalence.gradient_pairing import layout_words
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.equivalence.verdict import Verdict
from tensoraudit.facts import Measurement, Site
from tensoraudit.findings.result import Equivalence
from tensoraudit.probes.projection import PARAMETER

KINK = 1.5
"""Error over the floor up to which a jump of the candidate's own gradient explains a difference: the jump itself."""

LOSSES = frozenset({Verdict.DRIFT, Verdict.BREAK})


@dataclass(frozen=True, slots=True)
class Judged:
    """One gradient on one input set. `missing` maps a side to what the other one has: gradient, zeros or both (none on
    either side); `zero` tells that the candidate's is zero where the reference's is not."""

    name: str
    sample: str
    verdict: Verdict
    reason: str
    compared: TensorComparison | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    zero: bool = False
    notes: tuple[str, ...] = ()


def spoken(key: str) -> str:
    """What a gradient is called in a report: a parameter by its name alone."""
    return key.removeprefix(PARAMETER)


def compared(reference: SideGradients, candidate: SideGradients, names: Names, tolerance: float | None) -> list[Judged]:
    """Judge every gradient of the reference on one input set, and name the candidate's that have no partner."""
    keys = list(dict.fromkeys((*reference.gradients, *reference.missing)))
    if candidate.error:
        return [Judged(spoken(key), reference.sample, Verdict.UNVERIFIED, candidate.error) for key in keys]
    theirs = Translated(candidate, names)
    both = [key for key in keys if key in reference.gradients and key in theirs.gradients]
    comparison = _compare(reference, theirs, both, tolerance)
    found = {output.name: output for output in comparison.outputs}
    judged = [_judged(key, reference, theirs, found.get(key)) for key in keys]
    return [*judged, *(_extra(name, reference.sample) for name in names.plan.extra)]


def _extra(name: str, sample: str) -> Judged:
    return Judged(name, sample, Verdict.UNVERIFIED, "a parameter of the candidate without a partner in the reference")


def _compare(
    reference: SideGradients, theirs: Translated, keys: Sequence[str], tolerance: float | None, draws: Any = ()
) -> Comparison:
    def only(arrays: Arrays | None) -> dict[str, Any] | None:
        return None if arrays is None else {key: arrays[key] for key in keys if key in arrays}

    first = compare_arrays(
        only(reference.gradients) or {},
        only(theirs.gradients) or {},
        oracle=only(reference.oracle),
        tolerance=tolerance,
        perturbed=[*(only(draw) or {} for draw in reference.draws), *draws],
        reference_repeat=only(reference.repeat) or None,
        candidate_repeat=only(theirs.repeat) or None,
        reference_dtypes={key: name for key, name in reference.dtypes.items() if key in keys},
        candidate_dtypes={key: name for key, name in theirs.dtypes().items() if key in keys},
    )
    wrong = [output.name for output in first.outputs if output.verdict in LOSSES and output.metrics is not None]
    if draws or not wrong:
        return first
    return replace(first, outputs=_second_look(first, reference, theirs, wrong, tolerance))


def _second_look(
    first: Comparison, reference: SideGradients, theirs: Translated, wrong: Sequence[str], tolerance: float | None
) -> tuple[TensorComparison, ...]:
    """A gradient jumps at a kink (relu at 0, a tie of a maximum), and two right models may stand on its two sides.

    Then the candidate's own gradient jumps as far when its inputs move by one ULP, which makes the difference noise.
    """
    moved = [_moves(reference.gradients, theirs.gradients, draw, wrong) for draw in theirs.draws]
    if not moved:
        return first.outputs
    again = {each.name: each for each in _compare(reference, theirs, wrong, tolerance, moved).outputs}
    explained = {
        name: each
        for name, each in again.items()
        if each.verdict.passes and each.error_ratio is not None and each.error_ratio <= KINK
    }
    text = "the candidate stands at a kink: its own gradient jumps as far when its inputs move by one ULP"
    return tuple(
        replace(each, verdict=Verdict.NOISE, reason=f"{text}; {each.reason}") if each.name in explained else each
        for each in first.outputs
    )


def _moves(reference: Arrays, own: Arrays, draw: Arrays, keys: Iterable[str]) -> dict[str, Any]:
    """The reference's gradients, moved as far as the candidate's were."""
    return {
        key: reference[key] + (draw[key].astype(np.float64) - own[key]) for key in keys if key in draw and key in own
    }


def _judged(key: str, reference: SideGradients, theirs: Translated, found: TensorComparison | None) -> Judged:
    name, sample, plan = spoken(key), reference.sample, theirs.plan
    base = key.removesuffix(".real").removesuffix(".imag")[len(PARAMETER) :] if key.startswith(PARAMETER) else ""
    ours, other = reference.missing.get(key), theirs.missing(key)
    if found is not None:
        zero = not theirs.gradients[key].any() and bool(reference.gradients[key].any())
        words = layout_words(plan, base) if base else ""
        notes = (*(note.text for note in found.notes), *((f"from {words}",) if words else ()))
        return Judged(name, sample, found.verdict, found.reason, found, zero=zero, notes=notes)
    if base in plan.unpaired:
        return Judged(name, sample, Verdict.UNVERIFIED, plan.unpaired[base])
    if ours is not None and other:
        text = f"no gradient on either side; reference: {ours}; candidate: {other}"
        return Judged(name, sample, Verdict.IDENTICAL, text, missing={"reference": "both", "candidate": "both"})
    if ours is not None and key in theirs.gradients:
        return _one_sided(name, sample, "reference", ours, theirs.gradients[key])
    if other:
        return _one_sided(name, sample, "candidate", other, reference.gradients[key])
    return Judged(name, sample, Verdict.UNVERIFIED, "the candidate gives neither a gradient nor a reason")


def _one_sided(name: str, sample: str, side: str, reason: str, gradient: Any) -> Judged:
    """A gradient that only one side has: zeros change no weight, so that nothing is lost with them."""
    other = "candidate" if side == "reference" else "reference"
    if not gradient.any():
        text = f"no gradient in the {side} ({reason}), zeros in the {other}"
        return Judged(name, sample, Verdict.EQUIVALENT, text, missing={side: "zeros"})
    size = float(np.abs(gradient).max())
    text = f"no gradient in the {side}: {reason}; in the {other} it reaches {size:.3g}"
    return Judged(name, sample, Verdict.BREAK, text, missing={side: "gradient"})


def rows_of(judged: Iterable[Judged], reference: str, candidate: str, target: str) -> Iterator[Equivalence]:
    """The rows of the report."""
    for each in judged:
        metrics = each.compared.metrics if each.compared is not None else None
        ratio = each.compared.error_ratio if each.compared is not None else None
        yield Equivalence(
            reference=reference,
            candidate=candidate,
            what="gradient",
            tensor=each.name,
            inputs=each.sample,
            verdict=str(each.verdict),
            linf=None if metrics is None else float(metrics.linf),
            error_ratio=None if ratio is None else float(ratio),
            ulp=None if metrics is None or metrics.max_ulp is None else float(metrics.max_ulp),
            reason=each.reason,
            target=target,
            notes=each.notes,
        )


def measurements_of(judged: Iterable[Judged], target: str) -> Iterator[Measurement]:
    """One set of measurements for each gradient: those of the input set on which it came out worst."""
    worst: dict[str, Judged] = {}
    for each in judged:
        if each.name not in worst or _badness(each) > _badness(worst[each.name]):
            worst[each.name] = each
    for name, each in worst.items():
        detail = f"{each.sample}: {each.reason}"
        for metric, value in _quantities(each).items():
            at = Site(tensor=name)
            yield Measurement(
                metric, name, value, probe="gradients", side="target", target=target, at=at, detail=detail
            )


def _badness(judged: Judged) -> tuple[int, float]:
    ratio = judged.compared.error_ratio if judged.compared is not None else None
    return judged.verdict.rank, ratio or 0.0


def _quantities(judged: Judged) -> dict[str, Any]:
    metrics = judged.compared.metrics if judged.compared is not None else None
    ratio = judged.compared.error_ratio if judged.compared is not None else None
    found = {
        "gradient.verdict": str(judged.verdict),
        "gradient.error_ratio": None if ratio is None else float(ratio),
        "gradient.linf": None if metrics is None else float(metrics.linf),
        "gradient.missing_candidate": judged.missing.get("candidate"),
        "gradient.missing_reference": judged.missing.get("reference"),
        "gradient.zero_candidate": judged.zero or None,
    }
    return {metric: value for metric, value in found.items() if value is not None}
