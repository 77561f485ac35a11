"""Find the first diverging operation of two traces that share no names: by what their values are.

1. Both sides run once; every value that depends on the inputs gets a fingerprint.
2. Equal fingerprints propose pairs. Those that are not as good as equal are looked at, element by element, unless the
   first operation of the region is seen to be wrong without them.
3. What lies between the agreed values and a wrong output is the region that diverges. The pairs on which this picture
   rests are looked at too; one that is refuted changes the picture, until all hold.
4. The first operations of the region on both sides are named, and their error is measured.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tensoraudit.audit.localise_judge import UNMEASURED, Pair, PairJudge
from tensoraudit.audit.localise_sides import Side, Survey, survey
from tensoraudit.equivalence.blocks import Array, largest_difference
from tensoraudit.equivalence.divergent_region import Entry, Flow, Region, first_entries
from tensoraudit.equivalence.value_alignment import SURE, Proposals, Value, distance, propose
from tensoraudit.probes.pool import Pool

BATCH = 8
"""Doubtful pairs that are looked at together."""
LOOK = 24
"""Values behind an entry among which its counterpart on the other side is looked for."""
NEAR = 0.05
"""Distance of prints within which the first pair counts, not the nearest one: an error may fade behind it."""
ALIKE = 0.5
"""Distance of prints above which two values are not what one operation makes on both sides."""


@dataclass(frozen=True, slots=True)
class Found:
    """The first diverging operation. `pair` are two values behind it that can be compared: `array` is the reference's,
    `view` the candidate's in its shape. `front` maps the candidate's agreed values in front of the region to the
    reference's."""

    reference: Value | None
    candidate: Value | None
    agreed: int
    pair: tuple[Value, Value] | None = None
    array: Array | None = None
    view: Array | None = None
    front: Mapping[str, str] = field(default_factory=dict)

    @property
    def error(self) -> float | None:
        """The largest difference of the pair; None without one."""
        if self.array is None or self.view is None:
            return None
        return largest_difference(self.array, self.view)


@dataclass(slots=True)
class _Picture:
    """Which values agree, as far as is known, and what follows from it."""

    agreed: dict[str, tuple[str, ...]]
    drifted: set[str]
    ours: Region
    theirs: Region


class Search:
    """One search. `reference` and `candidate` are the surveys of both sides."""

    def __init__(self, pool: Pool, reference: Survey, candidate: Survey, tolerance: float | None = None) -> None:
        self.reference, self.candidate = reference, candidate
        self.judge = PairJudge(pool, reference, candidate, tolerance)
        self._ours, self._theirs = Flow(reference.values), Flow(candidate.values)
        self._proposals: Proposals = propose(reference.values, candidate.values)
        self._inputs = _paired_inputs(reference.values, candidate.values)

    def run(self, failing: Collection[str]) -> Found | None:
        """Return what diverges first on the way to the `failing` outputs of the reference, which are known to be wrong;
        None when all values agree.

        Names that are no output of the reference are ignored; without any that is, all outputs are looked at.
        """
        outputs = self.reference.outputs
        wrong = {outputs[name] for name in failing if name in outputs}
        roots = wrong or set(outputs.values())
        pairs = [(a, b) for a in roots for b in self._proposals.reference.get(a, ())]
        if wrong:
            self.judge.known.update({pair: "drifts" for pair in pairs if not self._sure(pair)})
        guess = self._picture(roots)
        if not self._is_plain(guess):
            self._look_at_doubtful(guess)
        self.judge.look(pairs)
        picture = self._picture(roots)
        while unproven := self._unproven(picture):
            self.judge.look(unproven, within=UNMEASURED)
            picture = self._picture(roots)
        return self._found(picture) if picture.ours.values else None

    def _is_plain(self, guess: _Picture) -> bool:
        """Whether, without a look at any doubtful pair, the values behind the first entries are seen to be one tensor
        with an error that is no noise. What comes behind only inherits it."""
        pairs = [pair for pair in self._compared(guess) if pair not in self._proposals.distances]
        self.judge.prepare([*pairs, *self._unproven(guess)] if pairs else [], twins=False)
        return any(self.judge.is_same_but_wrong(pair) for pair in pairs)

    def _look_at_doubtful(self, guess: _Picture) -> None:
        """Look at the pairs that are not as good as equal, in the order of execution, until they go wrong for good:
        what comes behind inherits it, and does not count as agreed without a look."""
        first = ((a, others[0]) for a, others in self._proposals.reference.items())
        ordered = sorted((pair for pair in first if not self._sure(pair)), key=lambda pair: self._ours.order[pair[0]])
        # The guess, in which no doubtful pair agrees, tells what else will be looked at: one run serves for all.
        self.judge.prepare([*ordered[:BATCH], *self._unproven(guess), *self._compared(guess)])
        for start in range(0, len(ordered), BATCH):
            batch = ordered[start : start + BATCH]
            self.judge.look(batch)
            if self.judge.known[batch[-1]] in {"drifts", "differs"}:
                return

    def _picture(self, roots: Collection[str]) -> _Picture:
        agreed = {a: self._partners(a, others) for a, others in self._proposals.reference.items()}
        agreed = {a: others for a, others in agreed.items() if others}
        mirrored = {b for others in agreed.values() for b in others}
        drifted = {a: b for (a, b), word in self.judge.known.items() if word == "drifts" and a not in agreed}
        wrong = [name for name in roots if name not in agreed]
        own_roots, other_roots = wrong, [b for b in self.candidate.outputs.values() if b not in mirrored]
        if wrong and all(name in drifted for name in wrong):
            # Nothing is grossly wrong: the first small loss on the way counts, even if noise hides it again behind it.
            above = self._ours.above(wrong)
            first = min((a for a in drifted if a in above), key=self._ours.order.__getitem__)
            own_roots, other_roots = [first], [drifted[first]]
        other_drifted = set(drifted.values()) - mirrored
        ours = self._ours.region(own_roots, agreed, drifted)
        theirs = self._theirs.region(other_roots, mirrored, other_drifted)
        return _Picture({**agreed, **self._inputs}, set(drifted), ours, theirs)

    def _partners(self, name: str, others: Sequence[str]) -> tuple[str, ...]:
        """The values that a value agrees with: those that were looked at, and those that are as good as equal."""
        return tuple(other for other in others if self._agree((name, other)))

    def _agree(self, pair: Pair) -> bool:
        word = self.judge.known.get(pair, "unseen")
        return word == "agrees" or (word == "unseen" and self._sure(pair))

    def _sure(self, pair: Pair) -> bool:
        return self._proposals.distances[pair] <= SURE

    def _unproven(self, picture: _Picture) -> list[Pair]:
        """For each value on which the picture rests the next pair to look at, unless one has been found to agree."""
        ours = [[(a, b) for b in self._proposals.reference.get(a, ())] for a in picture.ours.rests_on]
        theirs = [[(a, b) for a in self._proposals.candidate.get(b, ())] for b in picture.theirs.rests_on]
        waiting = []
        for pairs in (*ours, *theirs):
            if not any(self.judge.known.get(pair) in {"agrees", "unseen"} for pair in pairs):
                waiting += [pair for pair in pairs if pair not in self.judge.known and self._sure(pair)][:1]
        return waiting

    def _compared(self, picture: _Picture) -> list[Pair]:
        ours, theirs = first_entries(picture.ours.entries, picture.theirs.entries, picture.agreed)
        pair = _counterparts(picture.ours, ours, picture.theirs, theirs)
        return [(pair[0].name, pair[1].name)] if pair else []

    def _found(self, picture: _Picture) -> Found:
        ours, theirs = first_entries(picture.ours.entries, picture.theirs.entries, picture.agreed)
        found = Found(_value(ours, picture.ours), _value(theirs, picture.theirs), len(picture.agreed))
        pair = _counterparts(picture.ours, ours, picture.theirs, theirs)
        seen = self.judge.views(pair[0].name, pair[1].name) if pair else None
        if pair is None or seen is None:
            return found
        mirrored = {b: a for a, others in picture.agreed.items() for b in others}
        front = {b: mirrored[b] for b in self._theirs.front(pair[1], mirrored)}
        return Found(found.reference, found.candidate, found.agreed, pair, *seen, front)


def _value(entry: Entry | None, region: Region) -> Value | None:
    """The entry's value; without one (a region of integers alone), the first of the region."""
    return entry.value if entry is not None else next(iter(region.values), None)


def _counterparts(
    ours: Region, first: Entry | None, theirs: Region, second: Entry | None
) -> tuple[Value, Value] | None:
    """Two values of one size near the entries that are most alike: what the operations on both sides have come to.

    Looked for on the lines of the entries, then in their modules, then a little behind them. Values that are not at all
    alike are no pair: their difference would mean nothing.
    """
    if first is None or second is None:
        return None
    for near in (_same_line, _same_module, _behind):
        pairs = [
            (gap > NEAR, i + j if gap <= NEAR else gap, value, other)
            for i, value in enumerate(near(ours, first.value))
            for j, other in enumerate(near(theirs, second.value))
            if value.print and other.print and (gap := distance(value.print, other.print)) <= ALIKE
        ]
        if pairs:
            return min(pairs, key=lambda pair: pair[:2])[2:]
    return None


def _behind(region: Region, first: Value) -> list[Value]:
    start = region.values.index(first)
    return [value for value in region.values[start : start + LOOK] if value.anchors]


def _same_module(region: Region, first: Value) -> list[Value]:
    return [value for value in region.values if value.anchors and value.module == first.module]


def _same_line(region: Region, first: Value) -> list[Value]:
    place = (first.path, first.line)
    return [value for value in _same_module(region, first) if value is first or (value.path, value.line) == place]


def _paired_inputs(reference: Sequence[Value], candidate: Sequence[Value]) -> dict[str, tuple[str, ...]]:
    """The model's inputs on both sides: by value where prints are equal, else by position."""
    ours, theirs = ([value for value in side if value.is_input] for side in (reference, candidate))
    found: dict[str, tuple[str, ...]] = {}
    for place, value in enumerate(ours):
        same = [other.name for other in theirs if value.print is not None and value.print == other.print]
        near = [other.name for other in theirs[place : place + 1]]
        if same or near:
            found[value.name] = tuple(same or near)
    return found


def look_at(pool: Pool, reference: Side, candidate: Side) -> tuple[Survey, Survey]:
    """Run both sides once, beside each other where they have workers of their own."""
    first, second = survey(pool, reference), survey(pool, candidate)
    return first(), second()
