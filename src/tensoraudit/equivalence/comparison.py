"""`compare_arrays`: two mappings of name to array in, one `Comparison` out.

sides.read_side -> pairing.pair_outputs -> tensor.compare_tensor for each pair -> a second look at index outputs
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array, largest_magnitude
from tensoraudit.equivalence.case import Case
from tensoraudit.equivalence.floor import dtype_floor
from tensoraudit.equivalence.indices import Scores, TieCheck, check_ties, find_scores, scores_for
from tensoraudit.equivalence.pairing import Pairing, pair_outputs
from tensoraudit.equivalence.sides import Sides, read_array, read_side
from tensoraudit.equivalence.tensor import TensorComparison, compare_tensor, tie_of
from tensoraudit.equivalence.tolerance import Tolerance, tolerance_for
from tensoraudit.equivalence.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides compared, output by output. Missing and extra outputs stand in `outputs` too, as breaks."""

    outputs: tuple[TensorComparison, ...]
    pairing: tuple[Pairing, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of all outputs; `unverified` where there is no output at all."""
        return max((output.verdict for output in self.outputs), key=lambda v: v.rank, default=Verdict.UNVERIFIED)

    @property
    def worst(self) -> TensorComparison | None:
        """Return the output that decides the verdict, the first of several."""
        return max(self.outputs, key=lambda output: output.verdict.rank, default=None)

    def __bool__(self) -> bool:
        raise TypeError("a Comparison is no yes or no: look at .verdict, where `unverified` is not a pass")


def unverified(names: Iterable[str], reason: str) -> Comparison:
    """Return the comparison of a side that crashed, timed out or is missing (structural rule 9)."""
    outputs = tuple(TensorComparison(name, name, Verdict.UNVERIFIED, reason) for name in names)
    return Comparison(outputs or (TensorComparison("", "", Verdict.UNVERIFIED, reason),))


def compare_arrays(
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any],
    *,
    oracle: Mapping[str, Any] | None = None,
    tolerance: float | Tolerance | None = None,
    perturbed: Sequence[Mapping[str, Any]] = (),
    reference_repeat: Mapping[str, Any] | None = None,
    candidate_repeat: Mapping[str, Any] | None = None,
    reference_dtypes: Mapping[str, str] | None = None,
    candidate_dtypes: Mapping[str, str] | None = None,
    index_scores: Mapping[str, Any] | None = None,
    layouts: Mapping[str, Sequence[int]] | None = None,
    pairs: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare two sets of named arrays and say for each whether the difference is noise or a real error.

    Args:
        reference: name to array of float16/32/64, integer or bool. The order matters where names differ.
        candidate: the same for the other side.
        oracle: the reference's results in double precision, by reference name. Names without an oracle are fine.
        tolerance: a number replaces the L-infinity limit of every float dtype; None takes the preset of each dtype.
        perturbed: the reference's results on inputs moved by one unit in the last place, one mapping a draw.
        reference_repeat: the reference's results of a second run on the same input.
        candidate_repeat: the candidate's results of a second run on the same input.
        reference_dtypes: dtypes that numpy cannot hold, for example {"output": "bfloat16"} for a float32 array.
        candidate_dtypes: the same for the other side.
        index_scores: index output to the scores that it points into: an array, or the name of a reference output.
        layouts: reference name to the axis order that brings the candidate into the reference's layout. Only the
            frameworks' convention (channels last against first) is accepted; it is reported, and no finding.
        pairs: reference name to candidate name, where the caller knows; names that a side lacks are passed over.

    Raises:
        TypeError: a value is no array of numbers (string, object, masked array...), or `tolerance` is no number.
        ValueError: `tolerance` is not positive and finite, a layout is not the convention, or the given scores do not
            explain an index output.
    """
    sides = Sides(
        reference=read_side(reference, "reference"),
        candidate=read_side(candidate, "candidate"),
        oracle=read_side(oracle or {}, "oracle"),
        perturbed=tuple(read_side(draw, "perturbed") for draw in perturbed),
        reference_repeat=read_side(reference_repeat or {}, "reference_repeat"),
        candidate_repeat=read_side(candidate_repeat or {}, "candidate_repeat"),
        reference_dtypes=reference_dtypes or {},
        candidate_dtypes=candidate_dtypes or {},
        layouts=layouts or {},
    )
    if tolerance is not None:
        tolerance_for("float32", tolerance)
    paired = pair_outputs(sides.reference, sides.candidate, pairs)
    cases = {pair.reference: sides.case(pair, tolerance) for pair in paired.pairs}
    compared = {name: compare_tensor(case) for name, case in cases.items()}
    second = _SecondLook(sides, cases, compared, index_scores or {})
    outputs = [second.at(name) for name in cases]
    outputs += [_lonely(name, "missing: the candidate has no such output") for name in paired.missing]
    outputs += [_lonely(name, "extra: the reference has no such output") for name in paired.extra]
    return Comparison(tuple(outputs), paired.pairs, paired.missing, paired.extra)


def _lonely(name: str, reason: str) -> TensorComparison:
    return TensorComparison(name, name, Verdict.BREAK, reason)


class _SecondLook:
    """Rule 10: an index output that differs is noise where the scores that it points into tie within noise."""

    def __init__(
        self,
        sides: Sides,
        cases: Mapping[str, Case],
        compared: Mapping[str, TensorComparison],
        given: Mapping[str, Any],
    ) -> None:
        self._sides, self._cases, self._compared, self._given = sides, cases, compared, given
        self._floats = {name: array for name, array in sides.reference.items() if array.dtype.kind == "f"}

    def at(self, name: str) -> TensorComparison:
        """Return the comparison of one output, judged by ties if it is an index output that differs."""
        found, case = self._compared[name], self._cases[name]
        if found.metrics is None or case.reference.dtype.kind not in "iu" or not found.metrics.differing:
            return found
        scores = self._scores(name, case.reference)
        if scores is None:
            return _without_scores(found)
        tie = self._tie(scores)
        check = check_ties(scores, case.reference, case.candidate, tie, self._moved(name, case.reference))
        return _by_ties(found, scores, check, f"of {case.reference.size}", tie)

    def _moved(self, name: str, reference: Array) -> Array:
        """Return where the reference's own integers change in double precision or with moved inputs."""
        runs = [run[name] for run in (self._sides.oracle, *self._sides.perturbed) if name in run]
        moved = np.zeros(reference.shape, dtype=bool)
        for run in runs:
            if run.shape == reference.shape:
                moved |= run != reference
        return moved

    def _scores(self, name: str, indices: Array) -> Scores | None:
        given = self._given.get(name)
        if given is None:
            return find_scores(indices, self._floats)
        if not isinstance(given, str):
            return scores_for("the given array", indices, read_array(given, f"index_scores[{name!r}]"))
        if given not in self._floats:
            raise ValueError(f"index_scores[{name!r}] names {given!r}, which is no float output of the reference")
        return scores_for(given, indices, self._floats[given])

    def _tie(self, scores: Scores) -> float:
        """Return how far apart two scores may be and still tie; one rounding stands in for a floor not measured."""
        compared, case = self._compared.get(scores.name), self._cases.get(scores.name)
        if compared is not None and compared.floor is not None and case is not None:
            return tie_of(compared.floor, case.tolerance)
        dtype = scores.rows.dtype.name if case is None else case.float_dtype
        rounding = dtype_floor(dtype, largest_magnitude(scores.rows))
        return 2.0 * tolerance_for(dtype).noise_limit_without_oracle * rounding


def _without_scores(found: TensorComparison) -> TensorComparison:
    return replace(found, reason=f"{found.reason}; no scores are at hand that could show a tie")


def _by_ties(found: TensorComparison, scores: Scores, check: TieCheck, total: str, tie: float) -> TensorComparison:
    """Judge integers that differ and that fit these scores."""
    gap = f"(gap {check.largest_gap:.2g}, noise {tie:.2g})"
    if check.untied and not check.shown:
        return _without_scores(found)
    if check.untied:
        reason = f"{check.differing} {total} indices differ, {check.untied} of them where the scores in {scores.name}"
        return replace(found, reason=f"{reason} do not tie {gap}", top1_changes=check.untied)
    if check.open:
        reason = f"{check.differing} {total} integers differ; if they point into scores behind {scores.name}, these may"
        reason += f" tie within noise {gap}, but no output shows it: return the scores too"
        return replace(found, verdict=Verdict.UNVERIFIED, reason=reason, may_tie=True)
    reason = f"{check.differing} {total} indices differ, all where the scores in {scores.name} tie within noise {gap}"
    return replace(found, verdict=Verdict.NOISE, reason=reason, top1_changes=0)
