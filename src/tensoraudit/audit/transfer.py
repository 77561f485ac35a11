"""`--transfer`: the reference's weights in the candidate, so that two untrained implementations can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensoraudit.audit.parameter_sides import ModelSides
from tensoraudit.audit.state import Audit, Candidate
from tensoraudit.equivalence.blocks import Array, largest_magnitude
from tensoraudit.equivalence.parameter import Pair, Parameter, Term, made_of
from tensoraudit.equivalence.steps import describe
from tensoraudit.errors import InputError

MOST = 8
"""Names in one sentence."""


def transfer_weights(
    audit: Audit, candidate: Candidate, sides: ModelSides, mapped: Mapping[str, Sequence[Term]]
) -> tuple[Candidate, tuple[str, ...]]:
    """Return the candidate with the reference's weights, and sentences on what was copied and how.

    Raises InputError when a side cannot be read, its weights cannot be replaced, or a parameter has no partner.
    """
    assert audit.pool is not None
    if "model" not in candidate.params:
        raise InputError("weights can be put into PyTorch, TensorFlow and JAX models only", where="--transfer")
    if sides.reason:
        raise InputError(f"the parameters cannot be read: {sides.reason}", where="--transfer")
    _refuse_unpaired(sides)
    arrays = {each.name: each.array for each in sides.reference.parameters}
    owners = {each.name: each for each in sides.candidate.parameters}
    weights = {
        pair.candidate: audit.pool.put(_fitted(pair, arrays, owners[pair.candidate])) for pair in sides.pairs.pairs
    }
    model = {**candidate.params["model"], "weights": weights}
    return replace(candidate, params={**candidate.params, "model": model}), tuple(_told(sides))


def _fitted(pair: Pair, arrays: Mapping[str, Array], owner: Parameter) -> Array:
    """The weight in the candidate's dtype. Raises InputError where its range is too small: infinities are no copy."""
    made = made_of(pair, arrays)
    with np.errstate(over="ignore"):
        fitted = np.ascontiguousarray(made.astype(owner.array.dtype))
    if np.isfinite(made).all() and not np.isfinite(fitted).all():
        raise InputError(
            f"{pair.terms[0].reference} goes to {largest_magnitude(made):.3g}, more than {owner.dtype} of "
            f"{pair.candidate} can hold",
            where="--transfer",
            remedy="Build the candidate in a dtype of a larger range.",
        )
    return fitted


def _refuse_unpaired(sides: ModelSides) -> None:
    for side, names in (("candidate", sides.pairs.extra), ("reference", sides.pairs.missing)):
        if names:
            many = f"{len(names)} parameter{'s' if len(names) > 1 else ''}"
            raise InputError(
                f"{many} of the {side} cannot be paired: {_listed(names)}",
                where="--transfer",
                remedy="Write a draft with --write-map FILE, add the pairs, and give it with --map FILE.",
            )
    if not sides.pairs.pairs:
        raise InputError("neither side has a parameter", where="--transfer")


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {rest} more" if rest > 0 else "")


def _told(sides: ModelSides) -> Iterator[str]:
    """What was copied as it is, what was changed on the way and how, and what was left."""
    pairs = sides.pairs.pairs
    plain = [pair.candidate for pair in pairs if len(pair.terms) == 1 and not pair.steps]
    changed = [pair for pair in pairs if pair.candidate not in plain]
    yield f"--transfer copied {len(pairs)} parameters of the reference: {len(plain)} as they are ({_listed(plain)})"
    ways: dict[str, list[str]] = {}
    for pair in changed:
        ways.setdefault(way(pair), []).append(pair.candidate)
    yield from (f"--transfer copied after {how}: {_listed(names)}" for how, names in ways.items())
    yield from _rounded(sides)
    guessed = [f"{pair.terms[0].reference} into {pair.candidate}" for pair in pairs if pair.how == "order"]
    if guessed:
        yield f"--transfer paired by shape and order of use alone: {_listed(guessed)}"
    if left := [each.name for each in sides.candidate.parameters if each.counts]:
        yield f"--transfer left in the candidate: {_listed(left)}"


def _rounded(sides: ModelSides) -> Iterator[str]:
    """Weights that the candidate holds in another dtype: what is copied into fewer bits is not the same."""
    ours = {each.name: each.dtype for each in sides.reference.parameters}
    theirs = {each.name: each.dtype for each in sides.candidate.parameters}
    found: dict[tuple[str, str], list[str]] = {}
    for pair in sides.pairs.pairs:
        dtypes = ours[pair.terms[0].reference], theirs[pair.candidate]
        if dtypes[0] != dtypes[1]:
            found.setdefault(dtypes, []).append(pair.candidate)
    for (old, new), names in found.items():
        yield f"--transfer turned {old} into {new}: {_listed(names)}"


def way(pair: Pair) -> str:
    """How the parameter of a pair is made, in words."""
    if len(pair.terms) == 1:
        return describe(pair.steps)
    return f"the sum of {len(pair.terms)} parts: " + " + ".join(
        f"{term.reference} ({describe(term.steps)})" for term in pair.terms
    )
