"""The first aligned pair of tensors at which the candidate diverges. Arrays are fetched one by one, and only as far as needed.

Pairs come in execution order, which is a topological order: whatever feeds a tensor stands before it. So the first pair that fails has
inputs that agree as far as they are aligned, and `Divergence.agreed` says how many pairs before it did. An error of one operation is
told from an inherited one by the *local* error: the candidate's operation run on the reference's inputs. Whoever can run a graph
supplies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tensoraudit.equivalence.alignment import Pair
from tensoraudit.equivalence.blocks import Array, largest_difference
from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.equivalence.tolerance import Tolerance
from tensoraudit.equivalence.verdict import Verdict

Fetch = Callable[[], Array]


@dataclass(frozen=True, slots=True)
class Tap:
    """One aligned pair with ways to fetch its arrays, each called at most once. `oracle` is the double-precision twin."""

    pair: Pair
    reference: Fetch
    candidate: Fetch
    oracle: Fetch | None = None
    perturbed: Sequence[Fetch] = ()


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first pair that fails. Errors are L-infinity in the unit of the tensor.

    `cumulative_error` is what the candidate has at this place in its own run, `local_error` what its operation adds on the reference's
    inputs (None where that was not run). `agreed` counts the pairs before it that agree, `previous` is the last of them.
    """

    pair: Pair
    comparison: TensorComparison
    cumulative_error: float | None
    local_error: float | None
    agreed: int
    previous: Pair | None


def first_divergence(
    taps: Iterable[Tap],
    *,
    tolerance: float | Tolerance | None = None,
    local: Callable[[Pair], Array | None] | None = None,
) -> Divergence | None:
    """Return the first pair whose verdict is drift or break, or None when all agree.

    `local(pair)` returns the candidate's value when its operation runs on the reference's inputs, None if that cannot be run. When it
    is given, a pair whose local error is noise is not the culprit (it inherits its error over a path that is not aligned), and the search goes on;
    if no pair has a local error, the first that fails is returned.
    """
    agreed, previous = 0, None
    inherited: Divergence | None = None
    for tap in taps:
        reference = tap.reference()
        found = _compare(tap, reference, tap.candidate(), tolerance)
        if found.verdict not in (Verdict.DRIFT, Verdict.BREAK):
            agreed, previous = agreed + found.verdict.passes, tap.pair if found.verdict.passes else previous
            continue
        alone = local(tap.pair) if local is not None else None
        error = _error(reference, alone)
        divergence = Divergence(tap.pair, found, _cumulative(found), error, agreed, previous)
        if alone is None or not _compare(tap, reference, alone, tolerance).verdict.passes:
            return divergence
        inherited = inherited or divergence
    return inherited


def _compare(tap: Tap, reference: Array, candidate: Array, tolerance: float | Tolerance | None) -> TensorComparison:
    name = tap.pair.value or "value"
    comparison = compare_arrays(
        {name: reference},
        {name: candidate},
        oracle={name: tap.oracle()} if tap.oracle is not None else None,
        perturbed=[{name: fetch()} for fetch in tap.perturbed],
        tolerance=tolerance,
    )
    return comparison.outputs[0]


def _cumulative(found: TensorComparison) -> float | None:
    return found.metrics.linf if found.metrics is not None else None


def _error(reference: Array, alone: Array | None) -> float | None:
    if alone is None or alone.shape != reference.shape:
        return None
    return largest_difference(alone, reference)
