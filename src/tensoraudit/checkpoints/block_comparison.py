"""Two runs of blocks compared in one pass: digests, verdict, and whether one is a cast of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tensoraudit.checkpoints.digests import PairDigests, Threads
from tensoraudit.checkpoints.element_types import Array, ElementType
from tensoraudit.checkpoints.paired import NOTHING
from tensoraudit.checkpoints.precision import narrows
from tensoraudit.checkpoints.shares import Share, Shares, Workspaces
from tensoraudit.checkpoints.verdicts import Distance
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
        # What a cast turned into infinities is told as its loss.
        linf = self.distance.linf if self.is_cast else self.distance.apart
        found |= {"verdict": str(self.distance.verdict), "linf": linf}
        return found | ({"loss": self.loss} if self.loss else {})


class BlockComparison:
    """Compares runs of blocks of two types."""

    def __init__(self, threads: Threads, types: tuple[ElementType, ElementType], workspaces: Workspaces) -> None:
        self._threads, self._types, self._workspaces = threads, types, workspaces
        self._names = types[0].name, types[1].name
        self._is_cast = self._names[0] != self._names[1]

    def compare(self, reference: Run, candidate: Run, again: Run | None = None) -> Outcome:
        """Return the outcome. Raises UnreadableValues.

        `again` makes the reference's blocks for a second look while one of the first is still in use.
        """
        digests = PairDigests(self._threads, may_be_equal=not self._is_cast)
        shares: Shares | None = None
        before = 0
        for x, y in aligned(reference(), candidate()):
            digests.add(x, y)
            if digests.equal:
                before += x.size
                continue
            if shares is None:
                shares = self._begun(again or reference, before)
            shares.add(x, y)
        pair = digests.finish()
        if shares is None:
            return Outcome(not self._is_cast, pair, is_cast=self._is_cast)
        return self._outcome(pair, shares.finish())

    def _begun(self, reference: Run, before: int) -> Shares:
        """Shares that have seen the blocks that were equal: their largest value is part of the scale."""
        # The candidate's thread has the least to hash: a cast is mostly to a narrower type.
        shares = Shares(self._threads[1], self._types, self._workspaces)
        for words in reference() if before else ():
            values = self._types[0].widen(words[:before])
            shares.own.tally.add(values, values)
            before -= words.size
            if before <= 0:
                break
        return shares

    def _outcome(self, digests: tuple[str, str], found: Share) -> Outcome:
        distance = found.tally.distance()
        # Where the type is none that is rounded to here, noise has to explain the differences.
        is_cast = found.is_cast and (found.is_known or distance.verdict.passes)
        loss = NOTHING
        if found.tally.loss is not None:
            loss = {"narrowing": narrows(*self._names), "linf": distance.linf, **asdict(found.tally.loss)}
            if not found.tally.loss.changed:
                del loss["changed"]
        return Outcome(False, digests, distance, loss, is_cast)
