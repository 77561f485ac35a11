"""Is a gradient the derivative? Central differences in double precision. Shared by the workers: Python 3.9, numpy.

One tensor at a time is moved along a few random directions, whatever its size; tensors of a few elements are moved
element by element. A function that is not differentiable somewhere (relu at 0, the maximum of equal numbers) must give
no false alarm, so three things are done: the point is moved a little away from the model's own numbers, which are often
exactly on such places; a step of a quarter of the size is taken before anything is called wrong; and where the two
one-sided slopes stay apart the place says nothing, and another direction is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

EPS = 1e-6
ATOL = 1e-5
RTOL = 1e-3
"""The step and the tolerances of torch.autograd.gradcheck."""

ELEMENTS = 8
"""Elements up to which every one of them is moved by itself."""
DIRECTIONS = 2
TRIES = 3
"""Directions that are tried where a place is not differentiable."""
LONGEST = 32.0
"""Norm of a direction: one of a million entries of 1 would walk too far at once."""
AWAY = 1e-3
"""How far the point moves from the model's own numbers, as a share of a tensor's own size."""
BUDGET = 30.0
"""Seconds for one model; what was not reached says so."""

Point = Mapping[str, Any]
Loss = Callable[[Point], float]
Gradients = Callable[[Point], Mapping[str, Any]]


@dataclass(frozen=True)
class Check:
    """What is known of one tensor's gradient.

    `status`: "ok"; "differs": it is not the derivative; "cut": it is not, and the model's code holds it back on purpose
    (`detach`, `stop_gradient`); "unverified": could not be told. `analytic` and `numeric` are the two derivatives along
    the direction that decided.
    """

    tensor: str
    status: str
    reason: str = ""
    analytic: float | None = None
    numeric: float | None = None
    directions: int = 0


@dataclass(frozen=True)
class _Slope:
    """What one direction says: "agrees", "differs", "kink" or "small"."""

    says: str
    analytic: float
    numeric: float


def check_gradients(
    loss: Loss, gradients: Gradients, point: Point, *, seed: int, cuts: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Check the gradient of every array of `point` (float64 or complex128) and return the `Check`s as plain data.

    `loss` gives the scalar at a point, `gradients` its gradient by name, None where there is none; of a complex array
    it is dL/dRe + i dL/dIm. `cuts` says of tensors why a gradient of theirs was held back somewhere.
    """
    draws = np.random.default_rng(seed)
    place = _away(loss, point, draws)
    own = gradients(place)
    probe, known = _Probe(loss, place), cuts or {}
    if not np.isfinite(probe.middle):
        return [asdict(Check(name, "unverified", "the scalar is not finite in double precision")) for name in point]
    deadline = time.monotonic() + BUDGET
    found = []
    for name in point:
        if time.monotonic() > deadline:
            found.append(Check(name, "unverified", f"the {BUDGET:g} seconds for this check were used up before it"))
            continue
        found.append(_explained(_check(probe, name, own.get(name), draws), known))
    return [asdict(each) for each in found]


def _away(loss: Loss, point: Point, draws: np.random.Generator) -> dict[str, Any]:
    """The point moved a little, unless the function is not defined there. Masks of 0 and 1 stay."""
    moved = {name: _moved(np.asarray(value), draws) for name, value in point.items()}
    return moved if np.isfinite(loss(moved)) else {name: np.array(value) for name, value in point.items()}


def _moved(value: Any, draws: np.random.Generator) -> Any:
    if not value.size or (value.ndim and ((value == 0) | (value == 1)).all() and value.any()):
        return np.array(value)
    size = float(np.sqrt(np.mean(np.abs(value) ** 2))) or 1.0
    return value + (AWAY * size * draws.standard_normal(_parts(value).shape)).view(value.dtype).reshape(value.shape)


def _parts(value: Any) -> Any:
    """The real numbers that an array is made of, flat: a complex one has twice as many."""
    return np.ascontiguousarray(value).reshape(-1).view(np.float64)


class _Probe:
    """The scalar around one point, along directions of one tensor."""

    def __init__(self, loss: Loss, place: Mapping[str, Any]) -> None:
        self._loss, self.place, self.middle = loss, place, float(loss(place))

    def slope(self, name: str, direction: Any, analytic: float) -> _Slope:
        """Compare a derivative with difference quotients; a second step of another size comes before "differs"."""
        first = self._steps(name, direction, EPS)
        allowed = ATOL + RTOL * abs(analytic)
        if abs(first[1] - analytic) <= allowed:
            close = RTOL * max(abs(first[1]), abs(analytic)) + self._rounding
            return _Slope("agrees" if abs(first[1] - analytic) <= close else "small", analytic, first[1])
        second = self._steps(name, direction, EPS / 4)
        if abs(second[1] - analytic) <= allowed:
            return _Slope("agrees", analytic, second[1])
        return _Slope("kink" if _is_kink(first, second, analytic) else "differs", analytic, second[1])

    def _steps(self, name: str, direction: Any, eps: float) -> list[float]:
        """The slopes backward, central and forward."""
        value = self.place[name]
        step = (eps * direction).view(value.dtype).reshape(value.shape)
        ahead, behind = (float(self._loss({**self.place, name: value + sign * step})) for sign in (1.0, -1.0))
        return [(self.middle - behind) / eps, (ahead - behind) / (2 * eps), (ahead - self.middle) / eps]

    @property
    def _rounding(self) -> float:
        """How far rounding alone moves a difference quotient."""
        return 64 * 2.0**-52 * (1.0 + abs(self.middle)) / EPS


def _is_kink(first: Sequence[float], second: Sequence[float], analytic: float) -> bool:
    """Whether a derivative that fits no central quotient lies between one-sided slopes that stay apart."""
    if not np.isfinite([*first, *second]).all():
        return True
    allowed = ATOL + RTOL * abs(analytic)
    low, high = min(second[0], second[2]), max(second[0], second[2])
    apart = high - low > max(0.5 * abs(first[2] - first[0]), allowed)
    moves = abs(second[1] - first[1]) > 4 * (ATOL + RTOL * abs(first[1]))
    return (apart or moves) and low - allowed <= analytic <= high + allowed


def _check(probe: _Probe, name: str, gradient: Any, draws: np.random.Generator) -> Check:
    count = _parts(probe.place[name]).size
    if not count:
        return Check(name, "ok", "the tensor is empty")
    own = np.zeros(count) if gradient is None else _parts(np.asarray(gradient))
    if not np.isfinite(own).all():
        return Check(name, "unverified", "the gradient is not finite in double precision")
    slopes: list[_Slope] = []
    for direction in _directions(count, draws):
        slopes.append(probe.slope(name, direction, float(own @ direction)))
        decided = [each for each in slopes if each.says in {"agrees", "differs"}]
        if slopes[-1].says == "differs" or (count > ELEMENTS and len(decided) >= DIRECTIONS):
            break
    return _judged(name, slopes, missing=gradient is None)


def _directions(count: int, draws: np.random.Generator) -> Sequence[Any]:
    if count <= ELEMENTS:
        return list(np.eye(count))
    length = min(1.0, LONGEST / count**0.5)
    return [length * (2.0 * draws.integers(0, 2, count) - 1.0) for _ in range(DIRECTIONS + TRIES)]


def _judged(name: str, slopes: Sequence[_Slope], *, missing: bool) -> Check:
    wrong = next((each for each in slopes if each.says == "differs"), None)
    agreeing = [each for each in slopes if each.says == "agrees"]
    if wrong is not None:
        text = "there is no gradient, but the output depends on it" if missing else "the gradient is not the derivative"
        return _with(Check(name, "differs", text), wrong, slopes)
    if agreeing and len(agreeing) * 2 >= len(slopes):
        return _with(Check(name, "ok"), max(agreeing, key=lambda each: abs(each.analytic)), slopes)
    kinks = sum(each.says == "kink" for each in slopes)
    text = (
        "the function is not differentiable here, along any direction that was tried"
        if kinks
        else f"the gradient is too small for finite differences (within {ATOL:g}, but no closer)"
    )
    return _with(Check(name, "unverified", text), slopes[-1], slopes)


def _with(check: Check, slope: _Slope, slopes: Sequence[_Slope]) -> Check:
    return replace(check, analytic=slope.analytic, numeric=slope.numeric, directions=len(slopes))


def _explained(check: Check, cuts: Mapping[str, str]) -> Check:
    if check.status != "differs" or check.tensor not in cuts:
        return check
    return replace(check, status="cut", reason=f"{check.reason}: {cuts[check.tensor]}")
