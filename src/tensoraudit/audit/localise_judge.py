"""The exact word on proposed pairs: arrays of both sides, the layout check, and the noise floor where it is close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tensoraudit.audit.complex_parts import parts_of
from tensoraudit.audit.localise_sides import DRAWS, Reader, Refs, Survey, size_of
from tensoraudit.equivalence.blocks import Array, largest_difference
from tensoraudit.equivalence.comparison import compare_arrays
from tensoraudit.equivalence.screen import surely_agrees
from tensoraudit.equivalence.tensor import TensorComparison
from tensoraudit.equivalence.value_alignment import PROPOSED, PROPOSED_NARROW
from tensoraudit.equivalence.views import closeness, matching_view, nearest_view
from tensoraudit.probes.pool import Pool

Pair = tuple[str, str]
"""The names of a value of the reference and of one of the candidate."""

Word = Literal["agrees", "drifts", "differs", "unseen"]
"""`drifts`: the same tensor, element by element, but further apart than noise. `differs`: no layout brings it near.
`unseen`: a worker could not give it, so that only the fingerprints can tell."""

HOPELESS = 64.0
"""Error in units of the floor that moved inputs do not turn into noise: what amplifies them amplifies rounding too."""

SAME = 0.2
"""Share of the largest value within which two tensors, whose operations read the same, are one with an error in it."""

UNMEASURED = 1e-4
"""Share of the largest value within which tensors agree where neither double precision nor moved inputs can tell."""


class PairJudge:
    """Looks at pairs, each once, as many at a time as the memory allows."""

    def __init__(self, pool: Pool, reference: Survey, candidate: Survey, tolerance: float | None) -> None:
        self.known: dict[Pair, Word] = {}
        self._pool, self._tolerance = pool, tolerance
        self._ours = {value.name: value for value in reference.values}
        self._theirs = {value.name: value for value in candidate.values}
        self._reference, self._candidate = Reader(pool, reference), Reader(pool, candidate)
        self._budget = reference.side.budget

    def look(self, pairs: Sequence[Pair], within: float = 0.0) -> None:
        """Judge pairs that were not judged yet. `within` is a share of the largest value up to which no floor is
        measured: where fingerprints are as good as equal, only the layout is in question."""
        for chunk in self._chunks([pair for pair in dict.fromkeys(pairs) if pair not in self.known]):
            self._look(chunk, within)

    def _chunks(self, pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
        chunk: list[Pair] = []
        size = 0
        for pair in pairs:
            more = size_of(self._ours[pair[0]])
            if chunk and size + more > self._budget:
                yield chunk
                chunk, size = [], 0
            chunk.append(pair)
            size += more
        if chunk:
            yield chunk

    def _look(self, pairs: Sequence[Pair], within: float) -> None:
        ours, theirs = self._refs(pairs)
        close: dict[Pair, tuple[Array, Array]] = {}
        for a, b in pairs:
            if a not in ours or b not in theirs:
                self.known[a, b] = "unseen"
                continue
            self.known[a, b] = "differs"
            array = self._pool.get(ours[a])
            view = matching_view(array, self._pool.get(theirs[b]), closeness(array, self._share(a, b)))
            if view is None:
                continue
            view = view.astype(array.dtype) if view.dtype != array.dtype else view
            self.known[a, b] = "agrees"
            near = within and largest_difference(array, view) <= closeness(array, within)
            if not near and not surely_agrees(array, view):
                close[a, b] = array, view
        self._measure(close)

    def _refs(self, pairs: Sequence[Pair]) -> tuple[Refs, Refs]:
        """Both sides' tensors; their workers run beside each other."""
        first = self._reference.start(_names(pairs))
        second = self._candidate.start(list(dict.fromkeys(theirs for _, theirs in pairs)))
        return first(), second()

    def prepare(self, pairs: Sequence[Pair], *, twins: bool = True) -> None:
        """Compute what will be looked at soon in one run of each side, as far as it can be held."""
        if sum(size_of(self._ours[name]) for name in _names(pairs)) <= self._budget // 4:
            self._refs(pairs)
            if twins:
                self._reference.twins(_names(pairs))

    def _share(self, a: str, b: str) -> float:
        narrow = {"float16", "bfloat16"} & {self._ours[a].dtype, self._theirs[b].dtype}
        return 2 * (PROPOSED_NARROW if narrow else PROPOSED)

    def _measure(self, close: dict[Pair, tuple[Array, Array]]) -> None:
        """Judge close pairs by the noise floor: with double precision first, which settles most of them, then with
        moved inputs too, as long as another draw may change anything."""
        left = close
        oracle = self._reference.twins(_names(close)) if close else {}
        draws: list[Refs] = []
        for seed in range(-1, DRAWS):
            if seed >= 0 and left and (draw := self._reference.draw(_names(left), seed)):
                draws.append(draw)
            left = {pair: arrays for pair, arrays in left.items() if self._is_open(pair, arrays, oracle, draws)}

    def _is_open(self, pair: Pair, arrays: tuple[Array, Array], oracle: Refs, draws: Sequence[Refs]) -> bool:
        """Judge a pair by what is known so far; tell whether it may still turn out as noise."""
        if pair[0] not in oracle and not draws:
            agrees = largest_difference(*arrays) <= closeness(arrays[0], UNMEASURED)
            self.known[pair] = "agrees" if agrees else "drifts"
            return True
        found = self._compare(pair[0], arrays, oracle, draws)
        self.known[pair] = "agrees" if found.verdict.passes else "drifts"
        hopeless = (found.error_ratio or 0.0) > HOPELESS
        return self.known[pair] == "drifts" and not hopeless

    def _compare(self, name: str, arrays: tuple[Array, Array], oracle: Refs, draws: Sequence[Refs]) -> TensorComparison:
        twin = self._pool.get(oracle[name]) if name in oracle else None
        return compare_arrays(
            {name: parts_of(arrays[0])},
            {name: parts_of(arrays[1])},
            oracle=None if twin is None or twin.shape != arrays[0].shape else {name: parts_of(twin)},
            perturbed=[{name: parts_of(self._pool.get(draw[name]))} for draw in draws if name in draw],
            tolerance=self._tolerance,
        ).outputs[0]

    def views(self, ours: str, theirs: str) -> tuple[Array, Array] | None:
        """Return the reference's array and the candidate's in its shape, in the layout in which it differs least; None
        where no layout fits. Arrays stay valid after `close`."""
        arrays = self.arrays(ours, theirs)
        view = None if arrays is None else nearest_view(*arrays)
        return None if arrays is None or view is None else (arrays[0], view)

    def is_same_but_wrong(self, pair: Pair) -> bool:
        """Whether two values whose prints are too far apart for noise are one tensor all the same, element by element
        near each other."""
        seen = self.views(*pair)
        return seen is not None and largest_difference(*seen) <= closeness(seen[0], SAME)

    def compare(self, name: str, array: Array, view: Array) -> TensorComparison:
        """Compare a value of the reference with the candidate's in its shape, with the noise floor."""
        oracle = self._reference.twins([name])
        draws = [] if oracle else [self._reference.draw([name], seed) for seed in range(DRAWS)]
        return self._compare(name, (array, view.astype(array.dtype)), oracle, draws)

    def arrays(self, ours: str, theirs: str) -> tuple[Array, Array] | None:
        """Return the arrays of a pair as they are, None where one cannot be had."""
        refs, others = self._refs([(ours, theirs)])
        return (self._pool.get(refs[ours]), self._pool.get(others[theirs])) if refs and others else None

    def close(self) -> None:
        """Delete the tensors of both sides."""
        self._reference.close()
        self._candidate.close()


def _names(pairs: Iterable[Pair]) -> list[str]:
    return list(dict.fromkeys(ours for ours, _ in pairs))
