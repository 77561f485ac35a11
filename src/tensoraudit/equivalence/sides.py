"""Read what the caller hands over about two sides, and put together the case of each pair of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensoraudit.equivalence.blocks import Array, blocks
from tensoraudit.equivalence.case import Case, Note, limits_go_by
from tensoraudit.equivalence.layout import is_convention
from tensoraudit.equivalence.pairing import Pairing
from tensoraudit.equivalence.tolerance import Tolerance, tolerance_for

_FLOATS = ("float16", "float32", "float64")
_WHAT_TO_GIVE = """give integers, bools or float16/32/64 (widen bfloat16 and 8-bit floats to float32 and name the \
dtype in reference_dtypes or candidate_dtypes; give the two parts of complex numbers as outputs of their own)"""


def read_side(side: Mapping[str, Any], what: str) -> dict[str, Array]:
    """Return a mapping of name to plain array; TypeError for anything that holds no numbers."""
    if not isinstance(side, Mapping):
        raise TypeError(f"{what} must be a mapping of name to array, not {type(side).__name__}")
    return {str(name): read_array(value, f"{what}[{name!r}]") for name, value in side.items()}


def read_array(value: Any, where: str) -> Array:
    """Return a plain array of native byte order, of a dtype that can be compared; TypeError for anything else."""
    if not isinstance(value, np.ndarray | np.generic) or isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{where} is a {type(value).__name__}, not a numpy array; convert it first")
    array: Array = np.asarray(value)
    if array.dtype.kind not in "biu" and array.dtype.name not in _FLOATS:
        raise TypeError(f"{where} has dtype {array.dtype}, which cannot be compared; {_WHAT_TO_GIVE}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides with everything that is known beside their results; names are those of the own side."""

    reference: Mapping[str, Array]
    candidate: Mapping[str, Array]
    oracle: Mapping[str, Array]
    perturbed: tuple[Mapping[str, Array], ...]
    reference_repeat: Mapping[str, Array]
    candidate_repeat: Mapping[str, Array]
    reference_dtypes: Mapping[str, str]
    candidate_dtypes: Mapping[str, str]
    layouts: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def case(self, pair: Pairing, tolerance: float | Tolerance | None) -> Case:
        """Return the case of one pair of outputs, with notes on what cannot be used and why."""
        a, b = self.reference[pair.reference], self.candidate[pair.candidate]
        repeat = self.candidate_repeat.get(pair.candidate)
        is_float = a.dtype.kind == "f"
        dtype = self.reference_dtypes.get(pair.reference, a.dtype.name)
        oracle, oracle_notes = _usable_oracle(a, self.oracle.get(pair.reference)) if is_float else (None, ())
        draws, draw_notes = self._draws(pair.reference, a) if is_float else ((), ())
        notes = oracle_notes + draw_notes
        if pair.how in ("value", "shape"):
            notes += (Note("paired-by-value", f"{pair}: neither name nor position fits, the {pair.how}s do"),)
        if (order := self.layouts.get(pair.reference)) is not None:
            b = _turned(b, order, pair.reference)
            repeat = None if repeat is None else _turned(repeat, order, pair.reference)
            text = f"the candidate keeps its framework's layout and was transposed {tuple(order)} before comparing"
            notes += (Note("layout-convention", text),)
        return Case(
            name=pair.reference,
            candidate_name=pair.candidate,
            reference=a,
            candidate=b,
            reference_dtype=dtype,
            candidate_dtype=self.candidate_dtypes.get(pair.candidate, b.dtype.name),
            tolerance=tolerance_for(limits_go_by(dtype, a) if is_float else "float32", tolerance),
            oracle=oracle,
            perturbed=draws,
            reference_repeat=self.reference_repeat.get(pair.reference),
            candidate_repeat=repeat,
            notes=notes,
        )

    def _draws(self, name: str, a: Array) -> tuple[tuple[Array, ...], tuple[Note, ...]]:
        draws = [draw[name] for draw in self.perturbed if name in draw]
        usable = tuple(draw for draw in draws if draw.shape == a.shape and draw.dtype.kind == "f" and covers(draw, a))
        lost = len(draws) - len(usable)
        text = f"{lost} perturbed run(s) gave another shape, or NaN or Inf where the reference has numbers"
        return usable, (Note("perturbation-unusable", text),) if lost else ()


def _usable_oracle(a: Array, oracle: Array | None) -> tuple[Array | None, tuple[Note, ...]]:
    """An oracle counts only with the shape of the reference and more digits; float64 has no wider one but itself."""
    if oracle is None:
        return None, ()
    if oracle.dtype.kind != "f" or oracle.shape != a.shape:
        text = f"the oracle is {oracle.dtype}{list(oracle.shape)}, the reference {a.dtype}{list(a.shape)}"
        return None, (Note("oracle-unusable", text),)
    if oracle.dtype.itemsize <= a.dtype.itemsize and oracle.dtype.itemsize < 8:
        return None, (Note("oracle-unusable", f"the oracle is {oracle.dtype}, no wider than the reference"),)
    if not covers(oracle, a):
        return None, (Note("oracle-unusable", "the oracle is NaN or infinite where the reference has numbers"),)
    return oracle, ()


def covers(other: Array, reference: Array) -> bool:
    """Tell whether `other` has a finite value wherever the reference has one; elsewhere it would judge nothing."""
    return all(bool((np.isfinite(x) | ~np.isfinite(a)).all()) for _, (x, a) in blocks(other, reference))


def _turned(array: Array, order: Sequence[int], name: str) -> Array:
    if array.ndim != len(order) or not is_convention(order):
        raise ValueError(
            f"layouts[{name!r}] = {tuple(order)} is not channels last against channels first for rank {array.ndim}; "
            "any other permutation is an error of the model, and is found as one"
        )
    return array.transpose(order)
