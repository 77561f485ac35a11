"""The first aligned pair of tensors at which the candidate diverges. Arrays are fetched one by one, as far as needed.

Pairs come in execution order, which is a topological order: whatever feeds a tensor stands before it. So the first pair
that fails has inputs that agree, as far as they are aligned. Whether its own operation is at fault or it inherits the
error over a path that is not aligned tells the *local* error: the candidate's operation run on the reference's inputs.
Whoever can run a graph supplies that.

A pair may also be no pair: metadata can bring two tensors together that only share line and shape. They differ grossly,
and what reads the value agrees nevertheless. So a pair that breaks is a suspect until one of the paired values next
downstream (`Pair.feeds`) fails too; if all of them agree, it is dropped. Drift is close enough to be the same tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensoraudit.equivalence.alignment import Pair
from tensoraudit.equivalence.blocks import Array, largest_difference
from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.screen import surely_agrees
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.equivalence.tolerance import Tolerance
from tensoraudit.equivalence.verdict import Verdict

Fetch = Callable[[], Array]


@dataclass(frozen=True, slots=True)
class Tap:
    """One aligned pair with ways to fetch its arrays, each called at most once; `oracle` is the float64 twin."""

    pair: Pair
    reference: Fetch
    candidate: Fetch
    oracle: Fetch | None = None
    perturbed: Sequence[Fetch] = ()


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first pair that fails. Errors are L-infinity, in the unit of the tensor.

    `cumulative_error` is the difference at this place between two whole runs, None where shape or dtype differ.
    `local_error` is what the candidate's operation adds on the reference's inputs, None where that could not be run.
    `agreed` counts the pairs before it that agree, `previous` is the last of them.
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
    """Return the first pair whose verdict is drift or break, or None when there is none.

    `local(pair)` returns the candidate's value when its operation runs on the reference's inputs, None if it cannot be
    run. A pair that is right on those inputs only inherits its error, and the search goes on; if every failing pair
    inherits, the first of them is returned.
    """
    agreed, previous = 0, None
    suspects = _Suspects()
    for tap in taps:
        arrays = _Arrays(tap, tolerance)
        found = arrays.compare_unless_sure(tap.candidate())
        fails = found is not None and found.verdict in (Verdict.DRIFT, Verdict.BREAK)
        if (confirmed := suspects.hear(tap.pair.value, fails)) is not None:
            return confirmed
        if found is None or found.verdict.passes:
            agreed, previous = agreed + 1, tap.pair
        if found is None or not fails:
            continue
        alone = local(tap.pair) if local is not None else None
        cumulative = found.metrics.linf if found.metrics is not None else None
        divergence = Divergence(tap.pair, found, cumulative, arrays.error(alone), agreed, previous)
        inherits = alone is not None and arrays.compare(alone).verdict.passes
        if not inherits and (found.verdict == Verdict.DRIFT or not tap.pair.feeds):
            return divergence
        suspects.add(divergence, inherits=inherits)
    return suspects.last_resort()


class _Suspects:
    """Failing pairs that are not yet confirmed by what they feed."""

    def __init__(self) -> None:
        self._pending: dict[str, tuple[Divergence, set[str]]] = {}
        self._inherited: Divergence | None = None

    def add(self, divergence: Divergence, *, inherits: bool) -> None:
        if inherits:
            self._inherited = self._inherited or divergence
        else:
            self._pending[divergence.pair.value] = (divergence, set(divergence.pair.feeds))

    def hear(self, value: str, fails: bool) -> Divergence | None:
        """Take in the verdict of one more pair; return the suspect that it confirms."""
        for suspect, (divergence, waiting) in list(self._pending.items()):
            if value in waiting and fails:
                return divergence
            waiting.discard(value)
            if not waiting:
                del self._pending[suspect]
        return None

    def last_resort(self) -> Divergence | None:
        """Return the first suspect whose readers were never compared, or else the first pair that inherits."""
        return next((divergence for divergence, _ in self._pending.values()), self._inherited)


class _Arrays:
    """The reference's arrays of one tap, fetched once, to compare several candidates with."""

    def __init__(self, tap: Tap, tolerance: float | Tolerance | None) -> None:
        self._tap, self._name, self._tolerance = tap, tap.pair.value, tolerance
        self._reference = tap.reference()

    def compare_unless_sure(self, candidate: Array) -> TensorComparison | None:
        """Return None for tensors that agree whatever their floor is; the oracle is not fetched for them."""
        return None if surely_agrees(self._reference, candidate) else self.compare(candidate)

    def compare(self, candidate: Array) -> TensorComparison:
        oracle, perturbed = self._floor
        comparison = compare_arrays(
            {self._name: self._reference},
            {self._name: candidate},
            oracle=oracle,
            perturbed=perturbed,
            tolerance=self._tolerance,
        )
        return comparison.outputs[0]

    @cached_property
    def _floor(self) -> tuple[dict[str, Array] | None, list[dict[str, Array]]]:
        oracle = None if self._tap.oracle is None else {self._name: self._tap.oracle()}
        return oracle, [{self._name: fetch()} for fetch in self._tap.perturbed]

    def error(self, alone: Array | None) -> float | None:
        if alone is None or alone.shape != self._reference.shape:
            return None
        return largest_difference(alone, self._reference)
