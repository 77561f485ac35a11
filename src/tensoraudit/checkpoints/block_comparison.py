"""Two runs of blocks compared in one pass: digests, verdict, and whether one is a cast of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tensoraudit.checkpoints.digests import PairDigests, Threads
from tensoraudit.checkpoints.element_types import Array, ElementType, narrow
from tensoraudit.checkpoints.paired import NOTHING
from tensoraudit.checkpoints.precision import narrows
from tensoraudit.checkpoints.verdicts import STEP, Distance, Tally
from tensoraudit.checkpoints.views import aligned
from tensoraudit.equivalence.verdict import Verdict

Run = Callable[[], Iterator[Array]]
"""Makes the blocks of words of one side, as often as it is called."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Two tensors compared, block by block. `distance` is None where every bit is equal."""

    equal: bool
    digests: tuple[str, str]
    distance: Distance | None = None
    loss: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    is_cast: bool = False

    @property
    def holds(self) -> bool:
        """Whether the two are one tensor: in every bit, by a cast, or up to noise."""
        return self.equal or self.is_cast or (self.distance is not None and self.distance.verdict.passes)

    @property
    def known(self) -> dict[str, Any]:
        """The fields of a PairedTensor that it fills."""
        found: dict[str, Any] = {"digests": self.digests}
        if self.distance is None:
            return found | {"verdict": str(Verdict.IDENTICAL), "linf": 0.0}
        found |= {"verdict": str(self.distance.verdict), "linf": self.distance.linf}
        return found | ({"loss": self.loss} if self.loss else {})


class BlockComparison:
    """Compares runs of blocks of two types; `names` are the types' names."""

    def __init__(self, threads: Threads, types: tuple[ElementType, ElementType]) -> None:
        self._threads, self._types = threads, types
        self._names = types[0].name, types[1].name
        self._is_cast = self._names[0] != self._names[1]

    def compare(self, reference: Run, candidate: Run, again: Run | None = None) -> Outcome:
        """Return the outcome. Raises UnreadableValues.

        `again` makes the reference's blocks for a second look while one of the first is still in use.
        """
        digests = PairDigests(self._threads, may_be_equal=not self._is_cast)
        tally: Tally | None = None
        cast, before = self._is_cast, 0
        for x, y in aligned(reference(), candidate()):
            digests.add(x, y)
            if digests.equal:
                before += x.size
                continue
            if tally is None:
                tally = self._begun(again or reference, before)
            # The candidate's thread has the least to do; the block stays as it is until both have looked at it.
            rounded = self._threads[1].submit(self._is_rounded, x, y) if cast else None
            for start in range(0, x.size, STEP):
                part = slice(start, start + STEP)
                tally.add(self._types[0].widen(x[part]), self._types[1].widen(y[part]))
            cast = rounded is not None and rounded.result()
        pair = digests.finish()
        if tally is None:
            return Outcome(not self._is_cast, pair, is_cast=self._is_cast)
        distance = tally.distance()
        return Outcome(False, pair, distance, self._loss(tally, distance), cast and self._counts_as_cast(distance))

    def _begun(self, reference: Run, before: int) -> Tally:
        """A tally that has seen the blocks that were equal: their largest value is part of the scale."""
        tally = Tally(self._names, loss=self._is_cast)
        for words in reference():
            if before <= 0:
                break
            values = self._types[0].widen(words[:before])
            tally.add(values, values)
            before -= words.size
        return tally

    def _is_rounded(self, reference: Array, candidate: Array) -> bool:
        """Whether the narrower side is the other one, rounded to nearest; other types are judged at the end."""
        side = 1 if narrows(*self._names) else 0
        words = reference, candidate
        for start in range(0, reference.size, STEP):
            wide, found = (words[each][start : start + STEP] for each in (1 - side, side))
            rounded = narrow(self._types[1 - side].widen(wide), self._names[side])
            if rounded is None:
                return True
            if not np.array_equal(rounded, found) and not self._same_numbers(side, rounded, found):
                return False
        return True

    def _same_numbers(self, side: int, made: Array, found: Array) -> bool:
        one, other = self._types[side].widen(made), self._types[side].widen(found)
        return bool(((one == other) | (np.isnan(one) & np.isnan(other))).all())

    def _counts_as_cast(self, distance: Distance) -> bool:
        """Every block was rounded to nearest, or the type is none that is rounded to here and noise explains it."""
        is_known = narrow(np.empty(0, np.float32), self._names[narrows(*self._names)]) is not None
        return is_known or distance.verdict.passes

    def _loss(self, tally: Tally, distance: Distance) -> Mapping[str, Any]:
        if tally.loss is None:
            return NOTHING
        return {"narrowing": narrows(*self._names), "linf": distance.linf, **asdict(tally.loss)}
