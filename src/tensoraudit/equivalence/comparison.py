"""`compare_arrays`: two mappings of name to array in, one `Comparison` out.

Reads the sides, pairs the outputs, compares each pair (`tensor`), then looks again at index outputs with the scores at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array, largest_magnitude
from tensoraudit.equivalence.floor import dtype_floor
from tensoraudit.equivalence.indices import Scores, check_ties, find_scores, scores_for
from tensoraudit.equivalence.layout import is_convention
from tensoraudit.equivalence.structure import Pairing, pair_outputs
from tensoraudit.equivalence.tensor import Case, Note, TensorComparison, compare_tensor, tie_of
from tensoraudit.equivalence.tolerance import Tolerance, tolerance_for
from tensoraudit.equivalence.verdict import Verdict

_FLOATS = ("float16", "float32", "float64")


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
) -> Comparison:
    """Compare two sets of named arrays and say for each whether the difference is noise or a real error.

    Args:
        reference, candidate: name to array; float16/32/64, integer, bool or complex. Order matters where names differ.
        oracle: the reference's results in double precision, by reference name. Names without an oracle are fine.
        tolerance: a number replaces the L-infinity limit of every float dtype; None takes the preset of each dtype.
        perturbed: the reference's results on inputs moved by one unit in the last place, one mapping a draw.
        reference_repeat, candidate_repeat: results of a second run on the same input.
        reference_dtypes, candidate_dtypes: logical dtypes that numpy cannot hold, for example {"output": "bfloat16"} where
            the array is float32.
        index_scores: index output to the scores that it points into: an array, or the name of a reference output.
        layouts: reference name to the axis order that brings the candidate into the reference's layout. Only the
            frameworks' convention (channels last against first) is accepted; it is reported, and no finding.

    Raises:
        TypeError: a value is no array of numbers (string, object, masked array, ...), or `tolerance` is no number.
        ValueError: `tolerance` is not positive and finite; a layout is not the convention; scores do not explain an index output.
    """
    a, b = _read_side(reference, "reference"), _read_side(candidate, "candidate")
    if tolerance is not None:
        tolerance_for("float32", tolerance)
    extras = _Extras(
        oracle=_read_side(oracle or {}, "oracle"),
        perturbed=tuple(_read_side(draw, "perturbed") for draw in perturbed),
        reference_repeat=_read_side(reference_repeat or {}, "reference_repeat"),
        candidate_repeat=_read_side(candidate_repeat or {}, "candidate_repeat"),
        reference_dtypes=reference_dtypes or {},
        candidate_dtypes=candidate_dtypes or {},
        layouts=layouts or {},
    )
    paired = pair_outputs(a, b)
    cases = [_case(pair, a, b, extras, tolerance) for pair in paired.pairs]
    compared = {case.name: compare_tensor(case) for case in cases}
    scores = _Scores(a, compared, tolerance, index_scores or {})
    outputs = [_second_look(case, compared[case.name], scores) for case in cases]
    outputs += [_lonely(name, "missing: the candidate has no such output") for name in paired.missing]
    outputs += [_lonely(name, "extra: the reference has no such output") for name in paired.extra]
    return Comparison(tuple(outputs), paired.pairs, paired.missing, paired.extra)


@dataclass(frozen=True, slots=True)
class _Extras:
    oracle: Mapping[str, Array]
    perturbed: tuple[Mapping[str, Array], ...]
    reference_repeat: Mapping[str, Array]
    candidate_repeat: Mapping[str, Array]
    reference_dtypes: Mapping[str, str]
    candidate_dtypes: Mapping[str, str]
    layouts: Mapping[str, Sequence[int]]


def _lonely(name: str, reason: str) -> TensorComparison:
    return TensorComparison(name, name, Verdict.BREAK, reason)


def _read_side(side: Mapping[str, Any], what: str) -> dict[str, Array]:
    if not isinstance(side, Mapping):
        raise TypeError(f"{what} must be a mapping of name to array, not {type(side).__name__}")
    return {str(name): _read_array(f"{what}[{name!r}]", value) for name, value in side.items()}


def _read_array(where: str, value: Any) -> Array:
    """Return a plain array of a dtype that can be compared, complex numbers as pairs of reals on a last axis."""
    if not isinstance(value, np.ndarray | np.generic) or isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{where} is a {type(value).__name__}, not a numpy array; convert it first")
    array: Array = np.asarray(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name in ("complex64", "complex128"):
        real = np.float32 if array.dtype.name == "complex64" else np.float64
        array = np.ascontiguousarray(array).reshape(*array.shape, 1).view(real)
    if array.dtype.kind not in "biu" and array.dtype.name not in _FLOATS:
        raise TypeError(
            f"{where} has dtype {array.dtype}, which cannot be compared; give integers, bools or float16/32/64 "
            "(widen bfloat16 and 8-bit floats to float32 and name the dtype in reference_dtypes or candidate_dtypes)"
        )
    return array


def _case(
    pair: Pairing,
    reference: Mapping[str, Array],
    candidate: Mapping[str, Array],
    extras: _Extras,
    tolerance: float | Tolerance | None,
) -> Case:
    a, b = reference[pair.reference], candidate[pair.candidate]
    repeat = extras.candidate_repeat.get(pair.candidate)
    notes: list[Note] = []
    if pair.how == "value":
        notes.append(Note("paired-by-value", f"{pair}: neither name nor position fits, the values do"))
    if (order := extras.layouts.get(pair.reference)) is not None:
        b, repeat = (
            _turned(b, order, pair.reference),
            None if repeat is None else _turned(repeat, order, pair.reference),
        )
        notes.append(
            Note("layout-convention", f"the candidate's own layout was transposed {tuple(order)} before comparing")
        )
    dtype = extras.reference_dtypes.get(pair.reference, a.dtype.name)
    oracle, oracle_notes = _usable_oracle(a, extras.oracle.get(pair.reference))
    draws = [draw[pair.reference] for draw in extras.perturbed if pair.reference in draw]
    usable = [draw for draw in draws if draw.shape == a.shape and draw.dtype.kind == "f"]
    if len(usable) < len(draws):
        notes.append(Note("perturbation-unusable", f"{len(draws) - len(usable)} perturbed run(s) gave another shape"))
    return Case(
        name=pair.reference,
        candidate_name=pair.candidate,
        reference=a,
        candidate=b,
        reference_dtype=dtype,
        candidate_dtype=extras.candidate_dtypes.get(pair.candidate, b.dtype.name),
        tolerance=tolerance_for(dtype if a.dtype.kind == "f" else "float32", tolerance),
        oracle=oracle,
        perturbed=tuple(usable) if a.dtype.kind == "f" else (),
        reference_repeat=extras.reference_repeat.get(pair.reference),
        candidate_repeat=repeat,
        notes=(*notes, *oracle_notes),
    )


def _turned(array: Array, order: Sequence[int], name: str) -> Array:
    if array.ndim != len(order) or not is_convention(order):
        raise ValueError(
            f"layouts[{name!r}] = {tuple(order)} is not channels last against channels first for rank {array.ndim}; "
            "any other permutation is an error of the model, and is found as one"
        )
    return array.transpose(order)


def _usable_oracle(a: Array, oracle: Array | None) -> tuple[Array | None, tuple[Note, ...]]:
    """An oracle counts only with the shape of the reference and more digits; float64 has no wider one but itself."""
    if oracle is None or a.dtype.kind != "f":
        return None, ()
    if oracle.dtype.kind != "f" or oracle.shape != a.shape:
        text = f"the oracle is {oracle.dtype}{list(oracle.shape)}, the reference {a.dtype}{list(a.shape)}"
        return None, (Note("oracle-unusable", text),)
    if oracle.dtype.itemsize <= a.dtype.itemsize and oracle.dtype.itemsize < 8:
        return None, (Note("oracle-unusable", f"the oracle is {oracle.dtype}, no wider than the reference"),)
    return oracle, ()


class _Scores:
    """Finds the scores of an index output and what ties there; the reference's float outputs are the places to look."""

    def __init__(
        self,
        reference: Mapping[str, Array],
        compared: Mapping[str, TensorComparison],
        tolerance: float | Tolerance | None,
        given: Mapping[str, Any],
    ) -> None:
        self._reference, self._compared, self._tolerance, self._given = reference, compared, tolerance, given
        self._floats = {name: array for name, array in reference.items() if array.dtype.kind == "f"}

    def of(self, name: str) -> Scores | None:
        """Return the scores that the index output points into."""
        indices = self._reference[name]
        given = self._given.get(name)
        if given is None:
            return find_scores(indices, self._floats)
        if isinstance(given, str):
            if given not in self._floats:
                raise ValueError(f"index_scores[{name!r}] names {given!r}, which is no float output of the reference")
            return scores_for(given, indices, self._floats[given])
        return scores_for("given scores", indices, _read_array(f"index_scores[{name!r}]", given))

    def tie(self, scores: Scores) -> float:
        """Return how far apart two scores may be and still tie."""
        compared = self._compared.get(scores.name)
        dtype = scores.rows.dtype.name
        tolerance = tolerance_for(dtype, self._tolerance)
        if compared is not None and compared.floor is not None:
            return tie_of(compared.floor, tolerance)
        return 2.0 * tolerance.noise_limit_without_oracle * dtype_floor(dtype, largest_magnitude(scores.rows))


def _second_look(case: Case, found: TensorComparison, scores: _Scores) -> TensorComparison:
    """Rule 10: an index output that differs only where the scores tie is noise."""
    if found.metrics is None or case.reference.dtype.kind not in "iu" or not found.metrics.differing:
        return found
    related = scores.of(case.name)
    if related is None:
        return replace(found, reason=f"{found.reason}; no scores are at hand that could show a tie")
    tie = scores.tie(related)
    check = check_ties(related, case.reference, case.candidate, tie)
    count = f"{check.differing} of {case.reference.size} indices differ"
    if check.untied:
        reason = f"{count}, {check.untied} of them where the scores in {related.name} do not tie (gap {check.largest_gap:.2g}, noise {tie:.2g})"
        return replace(found, reason=reason, top1_changes=check.untied)
    reason = f"{count}, all where the scores in {related.name} tie within noise (gap {check.largest_gap:.2g}, noise {tie:.2g})"
    return replace(found, verdict=Verdict.NOISE, reason=reason, top1_changes=0)
