"""What is known of each line that begins checkpointed regions, and of the lines that somebody asks about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tensoraudit.probes.pytorch.training_compare import LISTED, Pair, Row
from tensoraudit.probes.pytorch.training_watch import Place, Regions, real


@dataclass
class Measured:
    """Rows that are finished, pairs that the comparator has to judge, and the same for each region."""

    rows: list[Row] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    regions: list[RegionFound] = field(default_factory=list)
    lines: list[Heard] = field(default_factory=list)

    def add(self, each: Row | Pair) -> None:
        """Sort a row or a pair in."""
        if isinstance(each, Pair):
            self.pairs.append(each)
        else:
            self.rows.append(each)


@dataclass
class RegionFound:
    """The regions that one line begins. `passes` names the steps that were taken with these regions alone; without
    any, what holds of the model holds of them: they are the only ones, or nothing differed."""

    place: Place
    entered: int
    recomputed: int
    modules: list[str]
    functions: list[tuple[str, str]]
    passes: list[str] = field(default_factory=list)
    found: Measured = field(default_factory=Measured)


@dataclass
class Heard:
    """A line that was asked about: whether it ran in forward, and in the recomputation of which regions."""

    place: Place
    ran: bool
    again: list[Place]


def regions_found(regions: Regions) -> list[RegionFound]:
    """Return the regions of a step, by the line that begins them."""
    return [
        RegionFound(place, each.entered, each.recomputed, list(each.modules)[:LISTED], sorted(each.functions))
        for place, each in sorted(regions.places().items(), key=lambda item: item[0])
    ]


def lines_heard(regions: Regions, lines: Collection[Place]) -> list[Heard]:
    """Return what became of each line, under the path that it was asked for by."""
    found = []
    for path, line in lines:
        place = real(path), line
        found.append(Heard((path, line), place in regions.ran, sorted(regions.again.get(place, ()))))
    return found
