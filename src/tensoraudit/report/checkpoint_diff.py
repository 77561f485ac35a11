"""Two checkpoints side by side on the console: one sentence, how the tensors were paired, and every kind of difference
with the tensors that show it, those that differ in a number alone on one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tensoraudit.checkpoints.paired import CheckpointDiff, PairedTensor
from tensoraudit.findings.result import Result
from tensoraudit.report import summary
from tensoraudit.report.amounts import amount, ranges
from tensoraudit.report.checkpoint_show import described, held, one_line_kept
from tensoraudit.report.clean import one_line
from tensoraudit.report.style import Style

SHOWN: Final = 12
"""Lines of one kind of difference."""

ALIKE: Final = ("equal", "same_header")

LONELY: Final = ("missing", "extra")

HEADINGS: Final = {
    "missing": "Not in the candidate",
    "different": "Other values",
    "unread": "Could not be read",
    "reshaped": "Another shape",
    "padded": "Longer on one side",
    "cast": "Another dtype",
    "permuted": "Axes in another order",
    "extra": "Only in the candidate",
}
"""In the order in which they are shown, the worst first."""

_BY: Final = {
    "map": "by your map", "name": "by name", "prefix": "by name without a prefix", "convention": "by naming convention",
    "shape": "by shape alone", "value": "by value",
}  # fmt: skip
_COLORS: Final = {"equal": "green", "same_header": "green", "missing": "red", "different": "red", "unread": "magenta"}
_NUMBER: Final = re.compile(r"\d+")


def verdict(result: Result, diff: CheckpointDiff) -> Iterator[RenderableType]:
    """Yield what was compared and the one sentence that answers."""
    yield Text(one_line(sentence(diff)), style="bold")
    for role, stored in (("reference", diff.reference), ("candidate", diff.candidate)):
        yield Text(one_line(f"{role:<9}  {stored.path}: {described(stored)}, {held(stored)}"), style="dim")
    counts = summary.count_findings(result.findings)
    yield Text(f"Rules found {counts}." if counts else "No rule finds fault with the difference.")


def sentence(diff: CheckpointDiff) -> str:
    """Return the answer in one sentence: how many weights agree, how far that was looked at, and what of the rest."""
    entries = (*diff.reference.entries, *diff.candidate.entries)
    training = {entry.full_name for entry in entries if entry.group not in WEIGHTS}
    of_model = [pair for pair in diff.pairs if (pair.reference or pair.candidate) not in training]
    of_training = [pair for pair in diff.pairs if (pair.reference or pair.candidate) in training]
    nouns = (of_model, "weight"), (of_training, "tensor beside the weights")
    parts = [_agreement(pairs, noun, turned=diff.one_layout) for pairs, noun in nouns]
    told = "; ".join(filter(None, parts)) or "neither checkpoint holds a tensor"
    return f"{told[0].upper()}{told[1:]}."


WEIGHTS: Final = frozenset({"model", "ema"})


def _agreement(pairs: Sequence[PairedTensor], noun: str, *, turned: bool) -> str:
    """`all 104 weights agree by header`, `50 of 52 weights agree to the last bit, 8 of them permuted: 2 missing`."""
    if not pairs:
        return ""
    counts: Counter[str] = Counter(pair.status for pair in pairs)
    arranged: Counter[str] = Counter(pair.status for pair in pairs if not turned and _only_arranged(pair))
    alike = sum(counts[status] for status in ALIKE) + arranged.total()
    read = any(pair.status == "equal" or pair.verdict or any(pair.digests) for pair in pairs)
    how = "to the last bit" if read else "by header, values were not compared"
    if arranged:
        how += f", {' and '.join(f'{number:,} of them {status}' for status, number in arranged.items())}"
    first, *more = noun.split(" ", 1)
    nouns = " ".join([first if len(pairs) == 1 else f"{first}s", *more])
    every = f"the one {nouns}" if len(pairs) == 1 else f"all {len(pairs):,} {nouns}"
    if counts["missing"] == len(pairs):
        return f"the candidate lacks {every}"
    if counts["extra"] == len(pairs):
        return f"only the candidate has {every.removeprefix('all ')}"
    if alike == len(pairs):
        return f"{every} {'agrees' if alike == 1 else 'agree'} {how}"
    left = counts - arranged
    rest = ", ".join(f"{left[status]:,} {status}" for status in HEADINGS if left[status])
    return f"{alike:,} of {len(pairs):,} {nouns} agree{f' {how}' if alike else ''}: {rest}"


def _only_arranged(pair: PairedTensor) -> bool:
    """Whether the candidate has the same numbers in another shape or order of axes: what a port to another framework
    has to do."""
    return pair.status in {"reshaped", "permuted"} and pair.verdict == "identical"


def body(diff: CheckpointDiff, style: Style) -> Iterator[RenderableType]:
    """Yield all that stands below the findings."""
    yield from _paired(diff)
    found: dict[str, list[PairedTensor]] = {}
    for pair in diff.pairs:
        found.setdefault(pair.status, []).append(pair)
    for status, heading in HEADINGS.items():
        pairs = found.get(status)
        if pairs:
            yield Text(f"\n{heading} ({len(pairs):,})", style=_COLORS.get(status, "yellow"))
            yield from _lonely(pairs, _groups(diff), style) if status in LONELY else _listed(pairs, style)
    if style.verbose:
        alike = [pair for pair in diff.pairs if pair.status in ALIKE]
        if alike:
            yield Text(f"\nAlike ({len(alike):,})", style="green")
            yield from _listed(alike, style)
    if diff.optimizer:
        yield Text("\nState of training", style="bold")
        yield from (_line(each.message) for each in diff.optimizer)


def _groups(diff: CheckpointDiff) -> dict[str, str]:
    """What kind of tensor each name is."""
    return {entry.full_name: entry.group for side in (diff.reference, diff.candidate) for entry in side.entries}


def _lonely(pairs: Sequence[PairedTensor], groups: Mapping[str, str], style: Style) -> Iterator[RenderableType]:
    """Weights by name; of an optimiser and the like, which a file has or has not, the number of tensors."""
    weights = [pair for pair in pairs if style.verbose or groups[pair.reference or pair.candidate] in WEIGHTS]
    yield from _listed(weights, style)
    if len(weights) < len(pairs):
        named = set(map(id, weights))
        rest = Counter(groups[pair.reference or pair.candidate] for pair in pairs if id(pair) not in named)
        yield from (_line(f"{group}: {amount(count, 'tensor')}") for group, count in rest.items())


def _paired(diff: CheckpointDiff) -> Iterator[RenderableType]:
    ways = Counter(pair.by for pair in diff.pairs if pair.reference and pair.candidate)
    told = ", ".join(f"{ways[way]:,} {words}" for way, words in _BY.items() if ways[way])
    yield Text(f"\nPaired: {told or 'nothing'}.")
    for ours, theirs in diff.prefixes:
        sides = [
            f"{prefix!r} on the {side}'s" for prefix, side in ((ours, "reference"), (theirs, "candidate")) if prefix
        ]
        if sides:
            yield Text(one_line(f"Left out of the names: {' and '.join(sides)}."))


def _listed(pairs: Sequence[PairedTensor], style: Style) -> Iterator[RenderableType]:
    rows = [[pair] for pair in pairs] if style.verbose else list(_alike(pairs))
    shown = rows if style.verbose else rows[:SHOWN]
    yield from (_line(_row(group)) for group in shown)
    if len(rows) > len(shown):
        rest = sum(map(len, rows[len(shown) :]))
        yield _line(f"and {rest:,} more")


def _alike(pairs: Sequence[PairedTensor]) -> Iterator[list[PairedTensor]]:
    """Pairs that differ in numbers of their names alone, in the order of the first."""
    groups: dict[object, list[PairedTensor]] = {}
    for pair in pairs:
        names = tuple(_NUMBER.sub("#", name) for name in (pair.reference, pair.candidate))
        key = (names, pair.by, pair.permutation, pair.dtypes, pair.shapes, pair.verdict, _note(pair))
        groups.setdefault(key, []).append(pair)
    yield from groups.values()


def _row(group: Sequence[PairedTensor]) -> str:
    first = group[0]
    ours, theirs = (_joined([getattr(pair, side) for pair in group]) for side in ("reference", "candidate"))
    one = first.by in {"name", "prefix"} or not (ours and theirs)
    name = (ours or theirs) if one else f"{ours} = {theirs}"
    return "  ".join(
        filter(None, [name, _what(first), _detail(group), f"({len(group):,} tensors)" if len(group) > 1 else ""])
    )


def _joined(names: Sequence[str]) -> str:
    """Names that differ in numbers as one: `layer.0-11.weight`."""
    if len(names) == 1 or not names[0]:
        return names[0]
    numbers = [_NUMBER.findall(name) for name in names]
    columns = iter([ranges({int(row[at]) for row in numbers}) for at in range(len(numbers[0]))])
    return _NUMBER.sub(lambda found: next(columns), names[0])


def _what(pair: PairedTensor) -> str:
    """Shapes and dtypes, once where both have the same."""
    shapes = [str(list(shape)) for shape in pair.shapes]
    if not (pair.reference and pair.candidate):
        side = 0 if pair.reference else 1
        return f"{pair.dtypes[side]} {shapes[side]}".strip()
    parts = [first if first == second else f"{first} to {second}" for first, second in (pair.dtypes, tuple(shapes))]
    return " ".join(parts)


def _detail(group: Sequence[PairedTensor]) -> str:
    pair = group[0]
    worst = summary.largest(each.linf for each in group)
    loss = {key: summary.largest(each.loss.get(key) for each in group) for key in _LOST}
    parts = [
        f"axes {list(pair.permutation)}" if pair.permutation else "",
        pair.verdict,
        f"by up to {summary.number(worst)}" if worst else "",
        *(f"{amount(int(count), 'element')} became {words}" for key, words in _LOST.items() if (count := loss[key])),
        _note(pair),
    ]
    return ", ".join(filter(None, parts))


def _note(pair: PairedTensor) -> str:
    """What was noted, but for the numbers of values, which stand beside it."""
    return "" if pair.linf is not None else pair.note


_LOST: Final = {"to_inf": "infinite", "to_zero": "0", "changed": "another number"}


def _line(text: str) -> RenderableType:
    return Padding(Text(one_line_kept(text)), (0, 0, 0, 2))
