"""Gradients of a candidate's parameters as gradients of the reference's, by what is known of how the parameters pair.

A pair says how reference parameters make one of the candidate: a sum of terms, each a few steps of layout. Both models
compute the same function, so by the chain rule the gradient of a reference parameter is the sum, over all terms that it
stands in, of the candidate's gradients taken back through the steps. So gates kept apart compare, and one bias for two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.parameter import Pair, ParameterPairs
from tensoraudit.equivalence.steps import Steps, apply, describe


@dataclass(frozen=True, slots=True)
class Group:
    """One memory of a side with all names that it has. `trained` tells whether it has a gradient at all."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    trained: bool = True

    @property
    def name(self) -> str:
        """The name that its gradient goes by."""
        return self.names[0]


@dataclass(frozen=True, slots=True)
class Part:
    """A gradient of the candidate, and the steps from the reference's layout to its own."""

    candidate: str
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What makes each reference gradient, by name; why one cannot be compared; and the candidate's without partner."""

    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    unpaired: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def plan_gradients(pairs: ParameterPairs, reference: Sequence[Group], candidate: Sequence[Group]) -> Plan:
    """Say what makes the gradient of each trained reference parameter."""
    theirs = {name: group for group in candidate for name in group.names}
    parts: dict[str, tuple[Part, ...]] = {}
    unpaired: dict[str, str] = {}
    used: set[str] = set()
    for group in reference:
        mine = [pair for pair in pairs.pairs if any(term.reference in group.names for term in pair.terms)]
        used.update(theirs[pair.candidate].name for pair in mine if pair.candidate in theirs)
        if not group.trained:
            continue
        if reason := _objection(mine, group, theirs):
            same = theirs.get(group.name)
            if mine or same is None or same.shape != group.shape or not same.trained:
                unpaired[group.name] = reason
                continue
            parts[group.name] = (Part(same.name),)
            used.add(same.name)
            continue
        parts[group.name] = tuple(_parts(mine, group, theirs))
    return Plan(
        parts,
        unpaired,
        tuple(group.name for group in candidate if group.trained and group.name not in used),
        {group.name: group.shape for group in reference},
    )


def _objection(mine: Sequence[Pair], group: Group, theirs: Mapping[str, Group]) -> str:
    if not mine:
        return "no parameter of the candidate was found for it"
    guess = next((pair for pair in mine if pair.how == "order" and not pair.equal), None)
    if guess is not None:
        return f"paired with {guess.candidate} by its shape and order only, and their values differ"
    frozen = [pair.candidate for pair in mine if pair.candidate in theirs and not theirs[pair.candidate].trained]
    if frozen:
        return f"frozen in the candidate ({frozen[0]})"
    lost = [pair.candidate for pair in mine if pair.candidate not in theirs]
    if lost:
        return f"the candidate does not train {lost[0]}"
    for pair in mine:
        others = [term.reference for term in pair.terms if term.reference not in group.names]
        if others and len(theirs[pair.candidate].names) > 1:
            return f"the candidate keeps it and {others[0]} in one memory with two names ({pair.candidate})"
    return ""


def _parts(mine: Sequence[Pair], group: Group, theirs: Mapping[str, Group]) -> Iterator[Part]:
    """One part for each term; of a memory with several names only once, for its gradient holds all uses."""
    seen: set[str] = set()
    for pair in mine:
        owner = theirs[pair.candidate]
        if owner.name in seen and len(owner.names) > 1:
            continue
        seen.add(owner.name)
        for term in pair.terms:
            if term.reference in group.names and not any("zero" in step for step in term.steps):
                yield Part(owner.name, term.steps)


def gather(plan: Plan, gradients: Mapping[str, Array]) -> dict[str, Array]:
    """Return the candidate's gradients (by its names) as gradients of the reference's parameters, in their layout.

    One that is missing counts as zero beside others; a parameter of which all are missing is left out. The dtype is
    that of the candidate's gradients.
    """
    found = {}
    for name, parts in plan.parts.items():
        there = [(part, gradients[part.candidate]) for part in parts if part.candidate in gradients]
        if there:
            taken = [_back(part.steps, gradient, plan.shapes[name]) for part, gradient in there]
            found[name] = taken[0] if len(taken) == 1 else _sum(taken)
    return found


def _sum(arrays: Sequence[Array]) -> Array:
    dtype = np.result_type(*arrays)
    total: Array = np.sum(np.stack(arrays), axis=0, dtype=np.float64).astype(dtype)
    return total


def _back(steps: Steps, gradient: Array, shape: Sequence[int]) -> Array:
    """Take a gradient back through steps: each moves elements, so following their numbers there shows the way back."""
    if not steps:
        return gradient
    size = int(np.prod(shape))
    places = apply(steps, np.arange(1, size + 1).reshape(shape))  # 0 marks what the steps fill up with zeros
    found = np.zeros(size + 1, np.float64)
    np.add.at(found, places.reshape(-1), gradient.reshape(-1).astype(np.float64))
    return found[1:].reshape(shape).astype(gradient.dtype)


def layout_words(plan: Plan, name: str) -> str:
    """Say in words where a gradient of the candidate comes from, "" where it has the same name and layout."""
    parts = plan.parts.get(name, ())
    if not parts or (len(parts) == 1 and parts[0] == Part(name)):
        return ""
    return " + ".join(_words(parts))


def _words(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        yield f"{part.candidate} ({describe(part.steps)})" if part.steps else part.candidate
