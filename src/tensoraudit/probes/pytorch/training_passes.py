"""What a training step with checkpointing and one without show: all rows of the probe `training`, pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tensoraudit.probes.protocol import JobUnsupported
from tensoraudit.probes.pytorch.training_compare import (
    LISTED,
    Noise,
    Pair,
    Row,
    agree,
    check_transparent,
    compare_tensors,
    gradient_rows,
    listed,
    moved_text,
    state_rows,
    trains,
    unchanged,
    warning_row,
)
from tensoraudit.probes.pytorch.training_cost import TURNS, cost_rows
from tensoraudit.probes.pytorch.training_regions import (
    Heard,
    Measured,
    RegionFound,
    lines_heard,
    regions_found,
)
from tensoraudit.probes.pytorch.training_scaler import scaler_row
from tensoraudit.probes.pytorch.training_step import Step, Trainee
from tensoraudit.probes.pytorch.training_watch import Place, Regions

MAX_PLACES = 8
"""Lines that begin regions, above which their shares are not told apart: each takes two steps more at most."""

JUDGED_ALONE = 4
"""Tensors of one kind that go to the comparator for the regions of one line; the farthest apart come first."""

SLOW = 5.0
"""Seconds of a step above which the time is taken once only."""

COUNTS = frozenset({"training.regions", "training.recomputations"})

Found = Iterator["Row | Pair"]
Progress = Callable[[str], None]


def measured(trainee: Trainee, progress: Progress, lines: Collection[Place] = ()) -> Measured:
    """Return finished rows, and pairs that the comparator has to judge. What cannot be measured is a row as well.

    `lines` are places in the user's code: it is told which of them ran, and again in which regions.
    """
    measuring = _Measuring(trainee, progress, lines)
    found = Measured()
    try:
        for each in measuring.all():
            found.add(each)
    except JobUnsupported as problem:
        rows = [row for row in found.rows if row[0] in COUNTS]
        return Measured([*rows, ("training.status", "model", "unsupported", problem.message)])
    finally:
        trainee.put_back()
    found.regions, found.lines = measuring.regions, measuring.heard
    return found


class _Measuring:
    """The passes over one trainee."""

    def __init__(self, trainee: Trainee, progress: Progress, lines: Collection[Place]) -> None:
        self.trainee, self.progress, self.lines = trainee, progress, lines
        self.own: set[type] = set()
        self.regions: list[RegionFound] = []
        self.heard: list[Heard] = []

    def all(self) -> Found:
        """Yield all rows and pairs. Raises JobUnsupported where nothing can be said."""
        self.progress("training step with checkpointing")
        first = self._first()
        yield from _counts(first)
        if not first.regions.entered:
            yield _status(first, "no region was entered, so there is nothing to compare")
            return
        self.own = first.regions.own
        with_, without, noise = self._both(first)
        if without.error:
            yield _status(without)
            return
        check_transparent(with_, without)
        yield "training.status", "model", "ok", ""
        yield from _plain(with_, without, noise)
        self._alone("plain", with_, without, noise)
        if with_.error:
            return
        yield from self._autocast()
        yield from self._costs(slow=without.seconds > SLOW)

    def _first(self) -> Step:
        compiled = self.trainee.compiled()
        first = self.trainee.step(remove=False, lines=self.lines) if not compiled else None
        if first is None or first.compiled:
            raise JobUnsupported(
                f"torch.compile runs {listed(compiled) or 'parts of the model'}, and checkpoints in compiled code are "
                "not seen; name the model without torch.compile"
            )
        self.regions, self.heard = regions_found(first.regions), lines_heard(first.regions, self.lines)
        return first

    def _alone(self, which: str, with_: Step, without: Step, noise: Noise) -> None:
        """Where anything differs, take the step again for the regions of each line, with all others transparent."""
        if not 1 < len(self.regions) <= MAX_PLACES or unchanged(with_, without):
            return
        for number, region in enumerate(self.regions, 1):
            self.progress(f"{which} step with the regions of line {number} of {len(self.regions)} alone")
            step = self.trainee.step(remove=True, own=self.own, keep=region.place, autocast=noise.autocast)
            region.passes.append(which)
            if which == "plain":
                region.recomputed = step.regions.recomputed  # another one may have cut it off from the graph
            for each in PASSES[which](step, without, replace(noise, judged=JUDGED_ALONE)):
                region.found.add(each)

    def _both(self, first: Step | None, *, autocast: bool = False) -> tuple[Step, Step, Noise]:
        """Both steps. Where the copies of the model do not repeat themselves, models built anew may."""
        with_ = first or self.trainee.step(remove=False, autocast=autocast)
        without = self.trainee.step(remove=True, own=self.own, autocast=autocast)
        noise = Noise(self.trainee, self.own, autocast)
        if not self._sound(with_, without, noise) and self.trainee.remake():
            return self._both(None, autocast=autocast)
        if self.trainee.escaped():
            raise JobUnsupported(
                "functions that the model keeps use the loaded object, not its copy; name a function that builds it"
            )
        if not without.error and not trains(without):
            raise JobUnsupported("no parameter gets a gradient in a training step, with checkpointing or without")
        return with_, without, noise

    def _sound(self, with_: Step, without: Step, noise: Noise) -> bool:
        """Whether both steps ran on what they were given, and would come out the same again."""
        if self.trainee.escaped():
            return False
        return bool(with_.error or without.error) or agree(with_, without) or agree(noise.steps()[0], without)

    def _autocast(self) -> Found:
        self.progress("the same under autocast to bfloat16")
        with_, without, noise = self._both(None, autocast=True)
        if not without.error:
            yield from _under_autocast(with_, without, noise)
            self._alone("autocast", with_, without, noise)

    def _costs(self, *, slow: bool) -> Found:
        self.progress("GradScaler through an overflow")
        yield from scaler_row(self.trainee, self.own)
        self.progress("memory, floating-point operations and time")
        yield from cost_rows(self.trainee, self.own, turns=1 if slow else TURNS)


def _counts(step: Step) -> Iterator[Row]:
    regions = step.regions
    own = f"hand-written: {', '.join(sorted(cls.__name__ for cls in regions.own))}" if regions.own else ""
    yield "training.regions", "model", regions.entered, own
    yield "training.recomputations", "model", regions.recomputed, own


def _status(step: Step, detail: str = "") -> Row:
    if step.error:
        return "training.status", "model", "unsupported", f"a training step fails without checkpointing: {step.error}"
    return "training.status", "model", "ok", detail


def _plain(with_: Step, without: Step, noise: Noise) -> Found:
    if not with_.error:
        yield from _compared(with_, without, noise)
        return
    yield "training.error", "model", with_.error, ""
    if not with_.linked:  # then no parameter at all has a gradient, and the error is how it shows
        yield from gradient_rows(with_, without)
    yield warning_row(with_, without)


def _under_autocast(with_: Step, without: Step, noise: Noise) -> Found:
    if with_.error:
        yield "training.autocast_error", "model", with_.error, ""
        return
    yield from compare_tensors("training.autocast_gradient_verdict", _gradients, with_, without, noise)
    yield from _dtypes(with_.regions)


PASSES: Mapping[str, Callable[[Step, Step, Noise], Found]] = {"plain": _plain, "autocast": _under_autocast}
"""What is asked of two steps of a kind."""


def _gradients(step: Step) -> Mapping[str, Any]:
    return step.gradients


def _compared(with_: Step, without: Step, noise: Noise) -> Found:
    yield from gradient_rows(with_, without)
    yield from compare_tensors("training.gradient_verdict", _gradients, with_, without, noise)
    yield from compare_tensors("training.output_verdict", lambda step: step.outputs, with_, without, noise)
    for found in compare_tensors("training.buffer_verdict", lambda step: step.buffers, with_, without, noise):
        if isinstance(found, Pair):
            found.detail = moved_text(found.subject, with_, without) or found.detail
        yield found
    yield from state_rows(with_, without)
    yield warning_row(with_, without)
    recomputed = [name for name in with_.regions.calls[True] if without.regions.calls[False][name]]
    for name in recomputed[:LISTED]:
        here = with_.regions.calls[False][name] + with_.regions.calls[True][name]
        there = without.regions.calls[False][name]
        yield "training.forward_calls", name, here / there, f"{here} with checkpointing, {there} without"


def _dtypes(regions: Regions) -> Iterator[Row]:
    forward, again = regions.dtypes[False], regions.dtypes[True]
    changed = [name for name in again if name in forward and not again[name] <= forward[name]]
    for name in again if len(again) <= LISTED else changed:
        then, now = ("/".join(sorted(each.get(name, ()))) for each in (forward, again))
        detail = f"{then or 'nothing floating'} in forward, {now or 'nothing floating'} in recomputation"
        yield "training.recompute_dtype_changed", name, name in changed, detail
    if not changed and len(again) > LISTED:
        yield "training.recompute_dtype_changed", "*", False, f"the same in all {len(again)} modules"
