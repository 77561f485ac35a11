"""Two training steps, with checkpointing and without, as rows of measurements.

What is equal bit by bit is a row at once. What is not becomes a pair of arrays for the comparator, which does not live
in workers, with what is known of the noise: the same step again, and with inputs one unit in the last place away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tensoraudit.probes.protocol import JobUnsupported
from tensoraudit.probes.pytorch.memory import same_value
from tensoraudit.probes.pytorch.tensors import to_array
from tensoraudit.probes.pytorch.training_step import Step, Trainee

Row = tuple[str, str, Any, str]
"""Metric, subject, value, detail."""

LISTED = 64
"""Tensors that get a row each even when they are identical; of more of them, the identical ones share one row."""

JUDGED = 16
"""Tensors of one kind that go to the comparator, the farthest apart first: it takes six arrays for each."""

NOISE_LIMIT = 8.0
"""How many times as far as equal steps the others may be apart, as the comparator allows without an oracle."""

WHOLE, SOME = 1 << 22, 1 << 16
"""Elements above which a tensor (of 16 MB in float32) is judged by some of its elements, and how many of each kind."""

DRAWS = 3
"""Steps with moved inputs, as many as the comparator's contract asks for."""

COUNTER = "num_batches_tracked"


@dataclass
class Pair:
    """Two values of one tensor that differ; `others` are values of the reference that would be right as well."""

    metric: str
    subject: str
    reference: Any
    candidate: Any
    logical: dict[str, str | None]
    repeat: Any = None
    perturbed: list[Any] = field(default_factory=list)
    detail: str = ""


@dataclass
class Noise:
    """Runs without checkpointing that differ by chance or rounding only; made when the first difference is met."""

    trainee: Trainee
    own: set[type]
    autocast: bool = False
    judged: int = JUDGED
    _steps: list[Step] = field(default_factory=list)

    def steps(self) -> list[Step]:
        """Return the repeated step, then the moved ones; none that failed."""
        if not self._steps:
            draws = (None, *range(DRAWS))
            steps = (self.trainee.step(remove=True, own=self.own, autocast=self.autocast, draw=draw) for draw in draws)
            self._steps.extend(steps)  # in place: copies of this share them
        return self._steps


def compare_tensors(
    metric: str, pick: Callable[[Step], Mapping[str, Any]], with_: Step, without: Step, noise: Noise
) -> Iterator[Row | Pair]:
    """Yield a row or a pair for each tensor, those that differ the most first; a missing gradient is no row here."""
    left, right = pick(with_), pick(without)
    yield from ((metric, name, "break", "not there with checkpointing") for name in right if name not in left)
    shared = [name for name in right if right[name] is not None and left.get(name) is not None]
    same = [name for name in shared if same_value(left[name], right[name])]
    far = {name: distance(left[name], right[name]) for name in shared if name not in same}
    worst = sorted(far, key=lambda name: far[name], reverse=True)
    for name in worst[: noise.judged]:
        yield _pair(metric, name, left[name], right[name], [pick(each).get(name) for each in noise.steps()])
    if worst[noise.judged :]:
        yield _rest(metric, {name: far[name] for name in worst[noise.judged :]}, pick, right, noise)
    if len(shared) <= LISTED:
        yield from ((metric, name, "identical", "every bit is equal") for name in same)
    elif same:
        yield metric, "*", "identical", f"every bit is equal in {len(same)} of {len(shared)} tensors"


def _rest(
    metric: str, far: Mapping[str, float], pick: Callable[[Step], Mapping[str, Any]], right: Any, noise: Noise
) -> Row:
    """One row for all others that differ: noise where equal steps differ as much. Nobody looks closer at these."""
    others = [pick(step) for step in noise.steps()]
    beyond = [
        name
        for name, each in far.items()
        if not each <= NOISE_LIMIT * max((distance(o[name], right[name]) for o in others if name in o), default=0.0)
    ]
    detail = (
        f"{len(far)} more tensors differ, {len(beyond)} of them by more than {NOISE_LIMIT:g} times what equal steps do"
    )
    return metric, "*", "unverified" if beyond else "noise", detail


def _pair(metric: str, name: str, left: torch.Tensor, right: torch.Tensor, others: list[Any]) -> Pair:
    chosen = _elements(left, right)
    (candidate, narrow), (reference, logical) = _array(left, chosen), _array(right, chosen)
    repeat, *moved = [None if each is None else _array(each, chosen)[0] for each in others]
    perturbed = [each for each in moved if each is not None]
    text = difference_text(left, right)
    detail = text if chosen is None else f"{text}; judged on {len(chosen)} of {left.numel()} elements"
    names = {"candidate": narrow, "reference": logical}
    return Pair(metric, name, reference, candidate, names, repeat, perturbed, detail)


def _elements(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    """Return which elements of a large tensor to judge: some all over it, and those that differ the most."""
    if left.numel() <= WHOLE or left.shape != right.shape:
        return None
    every = torch.arange(0, left.numel(), left.numel() // SOME, device=left.device)
    gap = (left.flatten() - right.flatten()).abs().nan_to_num(float("inf"))
    return torch.cat([every, gap.topk(SOME).indices]).unique()


def _array(tensor: torch.Tensor, chosen: torch.Tensor | None) -> tuple[np.ndarray[Any, Any], str | None]:
    part = tensor if chosen is None else tensor.flatten()[chosen]
    return to_array(torch.view_as_real(part) if part.is_complex() else part)


def distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """Return the relative L2 distance; infinity where shapes differ or anything is NaN."""
    if left.shape != right.shape:
        return float("inf")
    found = distances([left], [right])[0]
    return float("inf") if math.isnan(found) else found


def difference_text(left: torch.Tensor, right: torch.Tensor) -> str:
    """Return the relative L2 difference and the cosine in words; nothing for tensors that cannot be subtracted."""
    if left.shape != right.shape or left.dtype == torch.bool:
        return ""
    gap, cosine = distances([left], [right])
    return f"relative L2 difference {gap:.3g}, cosine {cosine:.3f}"


def distances(left: list[torch.Tensor], right: list[torch.Tensor]) -> tuple[float, float]:
    """Return |left - right| / |right| over all tensors together (L2), and the cosine between the two sides."""
    square = product = own = other = 0.0
    for a, b in zip(left, right):  # noqa: B905 - Python 3.9
        wide = torch.complex128 if a.is_complex() else torch.float64
        x, y = a.to(wide).flatten(), b.to(wide).flatten()
        square += float((x - y).abs().square().sum())
        product += float((x.conj() * y).sum().real)
        own, other = own + float(x.abs().square().sum()), other + float(y.abs().square().sum())
    gap = (square / other) ** 0.5 if other else float("inf") if square else 0.0
    cosine = product / (own * other) ** 0.5 if own and other else float(own == other)
    return gap, cosine


def gradient_rows(with_: Step, without: Step) -> Iterator[Row]:
    """Yield what gradients are missing, hold NaN, and how far all of them together are away."""
    names = [name for name, each in without.gradients.items() if each is not None]
    missing = [name for name in names if with_.gradients.get(name) is None]
    shared = [name for name in names if name not in missing]
    nan = [name for name in shared if _nan(with_.gradients[name]) and not _nan(without.gradients[name])]
    yield "training.gradients_missing", "model", len(missing), listed(missing)
    yield "training.gradients_nan", "model", len(nan), listed(nan)
    left, right = ([step.gradients[name] for name in shared] for step in (with_, without))
    if shared and not nan and all(a.shape == b.shape for a, b in zip(left, right)):  # type: ignore[union-attr]  # noqa: B905
        gap, cosine = distances(left, right)
        yield "training.gradient_difference", "model", gap, f"relative L2 over all gradients; cosine {cosine:.3f}"


def _nan(tensor: Any) -> bool:
    return bool(tensor.isnan().any())


def state_rows(with_: Step, without: Step) -> Iterator[Row]:
    """Yield what a step leaves behind besides gradients: generators, counted batches, attributes of modules."""
    moved = [name for name in without.generators if with_.generators.get(name) != without.generators[name]]
    detail = f"other states of {', '.join(moved)} after the step" if moved else ""
    yield "training.rng_differs", "model", any(name.startswith("torch") for name in moved), detail
    yield from _counted(with_, without)
    names = sorted({*with_.state, *without.state})
    other = [name for name in names if not same_value(with_.state.get(name), without.state.get(name))]
    yield "training.side_effects", "model", len(other), listed(other)
    moved = [
        n for n, each in without.buffers.items() if n not in with_.buffers or not same_value(with_.buffers[n], each)
    ]
    yield "training.buffers_differ", "model", len(moved), listed(moved)


def _counted(with_: Step, without: Step) -> Iterator[Row]:
    for name in without.buffers:
        if name.rpartition(".")[2] == COUNTER and name in with_.buffers:
            counts = [int(step.buffers[name]) - int(step.before[name]) for step in (with_, without)]
            ratio = counts[0] / counts[1] if counts[1] else float(1 + counts[0])
            yield "training.batches_tracked", name, ratio, f"{counts[0]} with checkpointing, {counts[1]} without"


def moved_text(name: str, with_: Step, without: Step) -> str:
    """Return how far a buffer moved with checkpointing, as a multiple of without (`moved 1.9 times as far`)."""
    start, ends = without.before[name], (with_.buffers[name], without.buffers[name])
    if not start.is_floating_point() or any(end.shape != start.shape for end in ends):
        return ""
    far, near = (float((end.double() - start.double()).norm()) for end in ends)
    return f"moved {far / near:.3g} times as far as without checkpointing" if near else ""


def agree(step: Step, other: Step) -> bool:
    """Tell whether two steps gave the same outputs and gradients, bit by bit."""
    pairs = [(step.outputs, other.outputs), (step.gradients, other.gradients)]
    return all(
        a.keys() == b.keys() and all(a[name] is b[name] or same_value(a[name], b[name]) for name in b) for a, b in pairs
    )


def unchanged(step: Step, other: Step) -> bool:
    """Tell whether two steps left everything as the other did, and ran their modules in the same dtypes."""
    kept = [(step.buffers, other.buffers), (step.state, other.state)]
    again = step.regions.dtypes[True].items()
    return (
        not step.error
        and agree(step, other)
        and all(a.keys() == b.keys() and all(same_value(a[name], b[name]) for name in b) for a, b in kept)
        and step.generators == other.generators
        and all(dtypes <= step.regions.dtypes[False].get(name, dtypes) for name, dtypes in again)
    )


def trains(step: Step) -> bool:
    """Tell whether anything got a gradient."""
    return any(each is not None for each in step.gradients.values())


def warning_row(with_: Step, without: Step) -> Row:
    """Return the warnings that only checkpointing brings, in one text."""
    return "training.warnings", "model", "\n".join(w for w in with_.warnings if w not in without.warnings), ""


def check_transparent(with_: Step, without: Step) -> None:
    """Raise JobUnsupported where a hand-written Function lost gradients when it was made transparent."""
    lost = [n for n, each in with_.gradients.items() if each is not None and without.gradients.get(n) is None]
    if lost and without.regions.own:
        names = ", ".join(sorted(cls.__name__ for cls in without.regions.own))
        raise JobUnsupported(f"the hand-written {names} cannot be made transparent: {listed(lost)} lost the gradient")


def listed(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
