"""Which tensors of two traces may be the same one, told by their values alone: no names, no layout, no order of axes.

A tensor's *print* (count, sum, sum of squares, extremes, in double precision) does not change when axes are permuted or
a shape is flattened. Equal prints only *propose* that two tensors are one; whoever has the arrays decides (`views`).

1. Two tensors of one count whose prints lie within `PROPOSED` of each other are proposed.
2. Of all proposals the heaviest chain that keeps the order of execution on both sides is taken first, so that copies,
   transposes and repeated tensors pair one to one; close prints weigh more.
3. Every other proposal is kept behind it: branches may run in another order, and one side may hold a value twice.
4. Constant tensors, single numbers and integers propose nothing: too many tensors are all zero.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROPOSED = 1e-3
"""Relative distance of two prints of float32 within which the tensors may be one; wrong layers are mostly further."""
PROPOSED_NARROW = 2e-2
"""The same where a side holds 16-bit floats or less."""
TIGHT = 1e-5
"""Prints this close are hardly ever a coincidence: they weigh twice in the chain."""
SURE = 2e-6
"""Prints this close need no look at the arrays, unless something hangs on this very pair: rounding alone does more."""
MAX_PARTNERS = 4

_NARROW = frozenset(("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"))
_FLOATS = _NARROW | {"float32", "float64", "complex64", "complex128"}


@dataclass(frozen=True, slots=True)
class Print:
    """The order-blind statistics of one tensor; all but `count` are over its finite elements."""

    count: int
    finite: int
    total: float
    squares: float
    low: float
    high: float

    @property
    def scale(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def is_constant(self) -> bool:
        """Whether it is one number all over, or has no finite number at all."""
        return self.count < 2 or not self.finite or not self.low < self.high


def read_print(plain: Mapping[str, Any] | None) -> Print | None:
    """Read {"count", "finite", "sum", "squares", "min", "max"}; None for anything less."""
    if not plain or "squares" not in plain:
        return None
    numbers = (float(plain[key]) for key in ("sum", "squares", "min", "max"))
    return Print(int(plain["count"]), int(plain["finite"]), *numbers)


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor of a trace that depends on the model's inputs. `inputs` are the names of the values it is made from.

    `node` is the name that reports use; `path` and `line` are the user's source, if known.
    """

    name: str
    op: str
    module: str = ""
    node: str = ""
    path: str = ""
    line: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    print: Print | None = None
    inputs: tuple[str, ...] = ()

    @property
    def is_input(self) -> bool:
        """Whether it is an input of the model."""
        return self.op == "input"

    @property
    def anchors(self) -> bool:
        """Whether its values can tell it from other tensors."""
        return self.print is not None and self.dtype in _FLOATS and not self.print.is_constant


@dataclass(frozen=True, slots=True)
class Proposals:
    """For each value of a side the values of the other that may be the same tensor, the best first."""

    reference: Mapping[str, tuple[str, ...]]
    candidate: Mapping[str, tuple[str, ...]]
    distances: Mapping[tuple[str, str], float]


def distance(a: Print, b: Print) -> float:
    """Return how far two prints lie apart, relative to the size of the values; infinite for other counts."""
    if (a.count, a.finite) != (b.count, b.finite):
        return math.inf
    scale, squares = max(a.scale, b.scale), max(a.squares, b.squares)
    if not scale or not squares:
        return 0.0 if a.scale == b.scale else math.inf
    spread = math.sqrt(squares / a.finite)
    return max(
        abs(a.low - b.low) / scale,
        abs(a.high - b.high) / scale,
        abs(a.total - b.total) / (a.finite * spread),
        abs(a.squares - b.squares) / (2 * squares),
    )


def propose(reference: Sequence[Value], candidate: Sequence[Value]) -> Proposals:
    """Propose pairs of two traces, each in execution order."""
    points = sorted(_points(reference, candidate), key=lambda point: (point[0], -point[1]))
    chain = dict(_heaviest_chain(points, len(candidate)))
    distances = {(reference[i].name, candidate[j].name): gap for i, j, gap in points}
    ours: dict[str, list[tuple[Any, str]]] = {}
    theirs: dict[str, list[tuple[Any, str]]] = {}
    for i, j, gap in points:
        rank = (chain.get(i) != j, gap > TIGHT, abs(i / len(reference) - j / len(candidate)))
        ours.setdefault(reference[i].name, []).append((rank, candidate[j].name))
        theirs.setdefault(candidate[j].name, []).append((rank, reference[i].name))
    return Proposals(_best(ours), _best(theirs), distances)


def _best(ranked: Mapping[str, list[tuple[Any, str]]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(other for _, other in sorted(pairs)[:MAX_PARTNERS]) for name, pairs in ranked.items()}


def _points(reference: Sequence[Value], candidate: Sequence[Value]) -> Iterator[tuple[int, int, float]]:
    """All proposals as (place, place, distance)."""
    groups: dict[int, list[tuple[float, int, Print]]] = {}
    for j, other in enumerate(candidate):
        if other.anchors and other.print is not None:
            groups.setdefault(other.print.count, []).append((other.print.squares, j, other.print))
    for group in groups.values():
        group.sort(key=lambda entry: entry[:2])
    for i, value in enumerate(reference):
        if not value.anchors or value.print is None:
            continue
        group = groups.get(value.print.count, [])
        limit = PROPOSED_NARROW if value.dtype in _NARROW else PROPOSED
        window = max(limit, PROPOSED_NARROW) * 2.1 * value.print.squares  # the candidate's dtype is not known yet
        start = bisect_left(group, value.print.squares - window, key=lambda entry: entry[0])
        end = bisect_right(group, value.print.squares + window, key=lambda entry: entry[0])
        for _, j, other_print in group[start:end]:
            within = PROPOSED_NARROW if candidate[j].dtype in _NARROW else limit
            if (gap := distance(value.print, other_print)) <= within:
                yield i, j, gap


def _heaviest_chain(points: Iterable[tuple[int, int, float]], size: int) -> list[tuple[int, int]]:
    """Return the chain of points, rising on both sides, of the greatest weight. Points are in order of (i, -j).

    `best` holds, in a tree of prefix maxima over j, the heaviest chain that ends before each place.
    """
    best: list[tuple[int, int]] = [(0, -1)] * (size + 1)
    links: list[tuple[int, int, int]] = []
    for i, j, gap in points:
        weight, link = 0, -1
        at = j
        while at > 0:
            weight, link = max((weight, link), best[at])
            at -= at & -at
        links.append((i, j, link))
        entry = (weight + (2 if gap <= TIGHT else 1), len(links) - 1)
        at = j + 1
        while at <= size:
            best[at] = max(best[at], entry)
            at += at & -at
    chain = []
    link = max(best)[1]
    while link >= 0:
        i, j, link = links[link]
        chain.append((i, j))
    return chain[::-1]
