"""What a training step says of one line of the source: of the checkpointed regions that it begins, or that run it.

A region is known by the line that calls `checkpoint` (or applies a hand-written Function). A rule may be anchored
elsewhere: at the class of such a Function, at a statement that a region runs, at what sets checkpointing up for later
(a partial, a wrapper). Each gets rows under its own `path:line`, from the regions that it speaks of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensoraudit.facts import Call, ClassDef, Fact, Site
from tensoraudit.facts.store import site_of

Row = tuple[str, str, Any, str]
"""Metric, subject, value, detail."""

Place = tuple[str, int]

BEGINS = frozenset({"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"})
"""Calls that begin a region where they stand."""

SETS_UP = frozenset(
    {
        "partial",
        "checkpoint_wrapper",
        "apply_activation_checkpointing",
        "gradient_checkpointing_enable",
        "TrainingArguments",
        "Seq2SeqTrainingArguments",
    }
)
"""Calls, by their last name, that make regions begin at another line."""

STATISTICS = ("running_mean", "running_var")
COUNTER = "num_batches_tracked"
VERDICTS_DOWN = ("break", "drift", "unverified", "noise", "equivalent", "identical")
"""Verdicts, the worst first."""


@dataclass(frozen=True)
class Told:
    """A value for a region, and what is wrong: names of tensors, or one word where there are no names."""

    value: Any
    detail: str = ""
    wrong: frozenset[str] = frozenset()


Summary = Callable[[Sequence[Row]], "Told | None"]


def _one(metric: str) -> Summary:
    def summary(rows: Sequence[Row]) -> Told | None:
        row = next((row for row in rows if row[0] == metric), None)
        return None if row is None else Told(row[2], row[3], frozenset({metric} if row[2] else ()))

    return summary


def _worst(metric: str, wanted: Callable[[str], bool] = lambda subject: True) -> Summary:
    def summary(rows: Sequence[Row]) -> Told | None:
        found = [row for row in rows if row[0] == metric and (row[1] == "*" or wanted(row[1]))]
        if not found:
            return None
        first = min(found, key=lambda row: VERDICTS_DOWN.index(row[2]))
        wrong = frozenset(row[1] for row in found if row[2] in {"break", "drift"} or (row[1], row[2]) == REST)
        return Told(first[2], f"{first[1]}: {first[3]}" if first[1] != "*" else first[3], wrong)

    return summary


REST = ("*", "unverified")
"""Subject and verdict of the row for tensors that nobody looked at closer."""


def _any(metric: str) -> Summary:
    def summary(rows: Sequence[Row]) -> Told | None:
        found = [row for row in rows if row[0] == metric]
        wrong = [row for row in found if row[2]]
        if not found:
            return None
        shown = wrong[0] if wrong else found[0]
        return Told(bool(wrong), f"{shown[1]}: {shown[3]}", frozenset(row[1] for row in wrong))

    return summary


def _statistics(rows: Sequence[Row]) -> Told | None:
    told = _worst("training.buffer_verdict", lambda name: name.rpartition(".")[2] in STATISTICS)(rows)
    if told is None and _compared(rows):
        return Told("identical", "the model keeps no running statistics")
    return told


def _effects(rows: Sequence[Row]) -> Told | None:
    """Attributes, and buffers that are no statistics of a normalisation: those are another rule's matter."""
    attributes = next((row for row in rows if row[0] == "training.side_effects"), None)
    if attributes is None:
        return None
    ours = (*STATISTICS, COUNTER)
    moved = [row[1] for row in rows if row[0] == "training.buffer_verdict" and row[2] in {"break", "drift"}]
    buffers = [name for name in moved if name.rpartition(".")[2] not in ours]
    named = attributes[3].split(", ") if attributes[2] else []
    wrong = [*(named if len(named) == attributes[2] else [UNNAMED]), *buffers]
    detail = ", ".join([*([attributes[3]] if attributes[2] else ()), *buffers])
    return Told(attributes[2] + len(buffers), detail, frozenset(wrong))


UNNAMED = "attributes"
"""Stands for attributes of which there are too many to name."""


def _compared(rows: Sequence[Row]) -> bool:
    return any(row[0] == "training.buffers_differ" for row in rows)


PLAIN: Mapping[str, Summary] = {
    "training.region_error": _one("training.error"),
    "training.region_gradients_missing": _one("training.gradients_missing"),
    "training.region_gradients_nan": _one("training.gradients_nan"),
    "training.region_gradient_verdict": _worst("training.gradient_verdict"),
    "training.region_output_verdict": _worst("training.output_verdict"),
    "training.region_rng_differs": _one("training.rng_differs"),
    "training.region_statistics_verdict": _statistics,
    "training.region_buffers_differ": _one("training.buffers_differ"),
    "training.region_side_effects": _effects,
}
AUTOCAST: Mapping[str, Summary] = {
    "training.region_dtype_changed": _any("training.recompute_dtype_changed"),
    "training.region_autocast_error": _one("training.autocast_error"),
    "training.region_autocast_gradient_verdict": _worst("training.autocast_gradient_verdict"),
}


@dataclass(frozen=True)
class Region:
    """The regions that one line begins, with the answer to each metric."""

    place: Place
    recomputed: int
    modules: tuple[str, ...]
    functions: frozenset[tuple[str, str]]
    told: Mapping[str, Told]


def read_regions(result: Mapping[str, Any], rows_of: Callable[[Mapping[str, Any]], list[Row]]) -> list[Region]:
    """Return what is known of each line that begins regions. `rows_of` turns rows and pairs of a result into rows."""
    whole = rows_of(result)
    regions = result.get("regions", ())
    own = [rows_of(region["found"]) for region in regions]
    told: list[dict[str, Told]] = [{} for _ in regions]
    for name, table in (("plain", PLAIN), ("autocast", AUTOCAST)):
        alone = [rows if name in region["passes"] else None for region, rows in zip(regions, own, strict=True)]
        for metric, summary in table.items():
            for answers, answer in zip(told, _shares(summary, whole, alone), strict=True):
                if answer is not None:
                    answers[metric] = answer
    return [
        Region(
            (region["place"][0], region["place"][1]),
            region["recomputed"],
            tuple(region["modules"]),
            frozenset((path, cls) for path, cls in region["functions"]),
            answers,
        )
        for region, answers in zip(regions, told, strict=True)
    ]


def _shares(summary: Summary, whole: Sequence[Row], alone: Sequence[Sequence[Row] | None]) -> list[Told | None]:
    """Each region's answer to one question: its own where it was measured alone, else the model's.

    What no region does alone is of several together: then the model's answer holds of all that are right alone.
    """
    model = summary(whole)
    own = [None if rows is None else summary(rows) for rows in alone]
    wrong = frozenset[str]().union(*(told.wrong for told in own if told is not None))
    together = model is not None and not (model.wrong - {"*"} <= wrong or "*" in wrong)
    shared = "of all regions together: " if len(alone) > 1 else ""
    found: list[Told | None] = []
    for rows, told in zip(alone, own, strict=True):
        if rows is None:
            found.append(_noted(model, shared if model is not None and model.wrong else ""))
        elif together and (told is None or not told.wrong):
            found.append(_noted(model, "by no line alone, only by several regions together: "))
        else:
            found.append(told)
    return found


def _noted(told: Told | None, note: str) -> Told | None:
    return None if told is None else Told(told.value, f"{note}{told.detail}", told.wrong)


@dataclass(frozen=True)
class Anchor:
    """A place that a rule asks about: its subject as facts show it, and its real place."""

    fact: Fact
    subject: str
    place: Place


def anchors_of(facts: Iterable[Fact], root: Path) -> list[Anchor]:
    """Return the places of facts; a notebook's cells and what has no line are none."""
    found = {}
    for fact in facts:
        site = site_of(fact)
        if site.path is not None and site.line is not None and site.cell is None:
            found[site.path, site.line, type(fact)] = Anchor(fact, f"{site.path}:{site.line}", _place(site, root))
    return list(found.values())


def calls_of_regions(facts: Iterable[Fact], anchors: Iterable[Anchor]) -> Iterator[Call]:
    """Yield the calls that begin regions: of `checkpoint`, and of what the anchors set up and keep under a name."""
    kept = {anchor.fact.assigned for anchor in anchors if isinstance(anchor.fact, Call) and _sets_up(anchor.fact)}
    for fact in facts:
        if isinstance(fact, Call) and (fact.callee in BEGINS or (fact.written and fact.written in kept)):
            yield fact


def _sets_up(call: Call) -> bool:
    return call.callee.rpartition(".")[2] in SETS_UP


def _place(site: Site, root: Path) -> Place:
    return str((root / (site.path or "")).resolve()), site.line or 0


def region_rows(
    regions: Sequence[Region],
    lines: Iterable[Mapping[str, Any]],
    *,
    anchors: Sequence[Anchor],
    calls: Sequence[Anchor],
    root: Path,
) -> list[Row]:
    """Return the rows of every line that begins regions, then those of the places that rules ask about.

    `lines` tells what became of the anchors' lines in the step; `calls` are the calls of the source that begin regions.
    """
    heard = {(line["place"][0], line["place"][1]): line for line in lines}
    asked = _Asked(regions, heard, calls)
    rows: list[Row] = []
    for region in regions:
        if region.place[0]:
            rows += _rows_of(_shown(region.place, [*anchors, *calls], root), [region])
    known = {row[:2] for row in rows}
    for anchor in anchors:
        new = [row for row in asked.rows(anchor) if row[:2] not in known]
        known.update(row[:2] for row in new)
        rows += new
    return rows


def _shown(place: Place, anchors: Iterable[Anchor], root: Path) -> str:
    known = next((anchor.subject for anchor in anchors if anchor.place == place), None)
    path = Path(place[0])
    return known or f"{path.relative_to(root.resolve()) if path.is_relative_to(root.resolve()) else path}:{place[1]}"


def _rows_of(subject: str, regions: Sequence[Region], note: str = "") -> Iterator[Row]:
    """Yield the rows of one subject: of several regions the worst answer."""
    count = max(region.recomputed for region in regions)
    yield "training.region_recomputations", subject, count, note
    modules = list(dict.fromkeys(name for region in regions for name in region.modules))
    yield "training.region_modules", subject, modules, note
    for metric in (*PLAIN, *AUTOCAST):
        told = [region.told[metric] for region in regions if metric in region.told]
        if told:
            worst = next((each for each in told if each.wrong), told[0])
            yield metric, subject, worst.value, f"{note}{worst.detail}"


@dataclass(frozen=True)
class _Asked:
    """Which regions a place speaks of, by what stands there."""

    regions: Sequence[Region]
    heard: Mapping[Place, Mapping[str, Any]]
    calls: Sequence[Anchor]

    def rows(self, anchor: Anchor) -> Iterator[Row]:
        fact = anchor.fact
        here = [region for region in self.regions if region.place == anchor.place]
        if isinstance(fact, ClassDef):
            made = [region for region in self.regions if (anchor.place[0], fact.name) in _last_names(region)]
            return self._answer(anchor, made, "no region was made of it in this step")
        if isinstance(fact, Call) and fact.callee in BEGINS:
            return self._call(anchor, here)
        if isinstance(fact, Call) and _sets_up(fact):
            return self._set_up(anchor, fact, here)
        return self._line(anchor)

    def _call(self, anchor: Anchor, here: Sequence[Region]) -> Iterator[Row]:
        """A checkpoint call: one that ran without beginning a region (a single segment) checkpoints nothing."""
        heard = self.heard.get(anchor.place)
        if not here and heard and heard["ran"]:
            yield "training.line_recomputed", anchor.subject, False, "it ran, and began no region"
        yield from self._answer(anchor, here, "no region was entered at this line in this step")

    def _set_up(self, anchor: Anchor, fact: Call, here: Sequence[Region]) -> Iterator[Row]:
        """What is kept under a name begins regions where that name is called; else all that no call accounts for."""
        otherwise = "none of its regions was entered in this step"
        named = [
            call.place for call in self.calls if fact.assigned and getattr(call.fact, "written", "") == fact.assigned
        ]
        if here or named:
            begun = [*here, *(region for region in self.regions if region.place in named)]
            return self._answer(anchor, begun, otherwise)
        begun_by_calls = {call.place for call in self.calls}
        others = [each for each in self.regions if each.place not in begun_by_calls and not each.functions]
        note = "of all regions that no checkpoint call of the source begins: "
        return self._answer(anchor, others, otherwise, note)

    def _line(self, anchor: Anchor) -> Iterator[Row]:
        """A statement: it ran again in regions, or it ran once, or it did not run and nothing is known."""
        heard = self.heard.get(anchor.place)
        places = {(path, line) for path, line in heard["again"]} if heard else set()
        again = [region for region in self.regions if region.place in places]
        if again:
            yield "training.line_recomputed", anchor.subject, True, ""
            own = [replace(region, told=_of_line(region.told, anchor.fact)) for region in again]
            yield from _rows_of(anchor.subject, own)
            return
        if heard and heard["ran"] and self._all_ran():
            yield "training.line_recomputed", anchor.subject, False, "it ran in the forward pass only"
        reason = "it ran outside of the regions that were entered" if heard and heard["ran"] else "it did not run"
        yield "training.region_recomputations", anchor.subject, 0, f"{reason} in this step"

    def _all_ran(self) -> bool:
        """Whether no checkpoint of the source was left out in this step, which might have run the line."""
        entered = {region.place for region in self.regions}
        return all(call.place in entered for call in self.calls) and any(each.recomputed for each in self.regions)

    def _answer(self, anchor: Anchor, regions: Sequence[Region], otherwise: str, note: str = "") -> Iterator[Row]:
        if regions:
            return _rows_of(anchor.subject, regions, note)
        return iter([("training.region_recomputations", anchor.subject, 0, otherwise)])


def _of_line(told: Mapping[str, Told], fact: Fact) -> Mapping[str, Told]:
    """A statement that changes `self.x` has the side effects on `x`, and not those of its neighbours.

    Inside an object that `x` may be (`self.x.y`) nothing is seen, so that nothing is said where nothing has moved.
    """
    metric = "training.region_side_effects"
    written = fact.written.rpartition(".")[0] if isinstance(fact, Call) else getattr(fact, "name", "")
    first, *rest = str(written).split(".")
    if metric not in told or first != "self" or not rest:
        return told
    names = sorted(name for name in told[metric].wrong if rest[0] in re.split(r"[.\[]", name))
    if names:
        return {**told, metric: Told(len(names), ", ".join(names), frozenset(names))}
    if UNNAMED in told[metric].wrong or rest[1:]:
        return {name: each for name, each in told.items() if name != metric}
    return {**told, metric: Told(0)}


def _last_names(region: Region) -> set[tuple[str, str]]:
    return {(path, name.rpartition(".")[2]) for path, name in region.functions}
